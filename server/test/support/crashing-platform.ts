// The platform, killed right after a durable step: CRASH_AFTER names the step, CRASH_COUNT says
// after which occurrence; with CRASH_WHEN=ready, counting starts when the platform serves. For
// tests of recovery.
import { readConfig } from "#config.ts";
import { createLog } from "#lib/log.ts";
import { startPlatform } from "#platform.ts";

const wanted = process.env["CRASH_AFTER"];
let isArmed = process.env["CRASH_WHEN"] !== "ready";
let left = Number(process.env["CRASH_COUNT"] ?? "1");

const config = readConfig(process.env);
const log = createLog({ level: config.logLevel, pretty: false });
const platform = await startPlatform(config, log, (step) => {
  if (isArmed && step === wanted && --left === 0) process.kill(process.pid, "SIGKILL");
});
isArmed = true;
process.stdout.write(`slipway ready ${platform.baseUrl}\n`);
process.once("SIGTERM", () => {
  void platform.stop().then(() => process.exit(0));
});
