// The platform, but it is killed the moment after a durable step: CRASH_AFTER has the step's name, CRASH_COUNT after which
// time; with CRASH_WHEN=ready steps count from the moment that it serves. For tests of what is found then.
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
