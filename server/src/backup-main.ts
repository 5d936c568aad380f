// The program of `slipway backup` and `slipway restore`. It runs beside the platform, so that calls
// do not wait for it, and prints one line of JSON about what it did.
import { parseArgs } from "node:util";
import slipway from "#package.json" with { type: "json" };
import { CannotStart } from "#lib/cannot-start.ts";
import { systemClock as clock } from "#lib/clock.ts";
import { createLog } from "#lib/log.ts";
import { backUp } from "#backups/back-up.ts";
import { readBackupAddress } from "#backups/backup-address.ts";
import { makeBackupKey, readPrivateKeys, requirePublicKeys } from "#backups/backup-keys.ts";
import { checkBackup, restore } from "#backups/restore.ts";
import { ConfigRefused, dataPaths, readConfig } from "./config.ts";

// A restore makes folders that are not in the backup by themselves: nobody else may look into them.
process.umask(0o077);

const log = createLog({ level: "warn", pretty: process.stderr.isTTY });

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "public-key": { type: "string", multiple: true, default: [] },
    key: { type: "string", default: "" },
  },
});
// What to do is `new-key`, `back-up`, `check` or `restore`. The address is that of the backup, or
// with `new-key` the path of the new file.
const [work = "", address = ""] = positionals;

const ending = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => ending.abort(new CannotStart(`Ended by ${signal}.`)));

try {
  process.stdout.write(`${JSON.stringify(await doWork())}\n`);
} catch (error) {
  if (!(error instanceof CannotStart || error instanceof ConfigRefused)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}

async function doWork(): Promise<object> {
  if (!["new-key", "back-up", "check", "restore"].includes(work)) {
    throw new CannotStart(
      `${JSON.stringify(work)} is nothing that this program does. Give new-key, back-up, check or restore.`,
    );
  }
  if (work === "new-key") return await makeBackupKey(address);
  const config = readConfig(process.env);
  const tools = { log, clock, signal: ending.signal };
  const settings = { ...config, paths: dataPaths(config.dataDir) };
  if (work === "back-up") {
    const given = values["public-key"];
    const publicKeys = requirePublicKeys(given.length > 0 ? given : config.backup.publicKeys);
    const { version } = slipway;
    return await backUp({
      ...tools,
      settings,
      to: readBackupAddress(address, config.backup.s3),
      publicKeys,
      version,
    });
  }
  const source = {
    from: readBackupAddress(address, config.backup.s3),
    privateKeys: readPrivateKeys(values.key),
  };
  const reading =
    work === "check"
      ? checkBackup({ ...tools, ...source })
      : restore({ ...tools, ...source, settings });
  const { version, at } = await reading;
  return { version, at };
}
