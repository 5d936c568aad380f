// Opens scheduled backups, if the settings ask for them: a part of `platform.ts`. The program
// `backup-main.ts` makes them, as a process beside the platform.
import { join } from "node:path";
import { readBackupFolder } from "#backups/backup-address.ts";
import { startBackupSchedule, type ScheduledBackups } from "#backups/backup-schedule.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Config } from "./config.ts";

/**
 * Starts the schedule of backups; null: there is none. Throws `CannotStart` when the folder's
 * address is not valid.
 */
export function openBackups(
  config: Config,
  { lifecycle, log, clock }: Pick<Foundation, "lifecycle" | "log" | "clock">,
): ScheduledBackups | null {
  const { backup, backupHours, backupsKept, dataDir } = config;
  if (backup.to === null) return null;
  const schedule = {
    folder: readBackupFolder(backup.to, backup.s3),
    everyHours: backupHours,
    kept: backupsKept,
    dataDir,
    // With `nice`, the platform and the apps get computing time before the backup does.
    program: ["nice", "-n", "10", process.execPath, ...programWords(), "back-up"] as const,
    environment: programEnvironment(config),
  };
  return startBackupSchedule({ ...schedule, log, clock }, lifecycle);
}

/**
 * The arguments with which Node runs the program: its source file or, in the package, the bundle
 * beside this code.
 */
function programWords(): readonly string[] {
  const { dirname, filename } = import.meta;
  if (filename.endsWith(".ts")) return [join(dirname, "backup-main.ts")];
  return ["--disable-warning=ExperimentalWarning", join(dirname, "backup.js")];
}

/** The settings that the program needs, as it reads them. */
function programEnvironment(config: Config): Record<string, string> {
  const { backup, databaseUrl, secretKeys, toolEnvironment, dataDir } = config;
  const { publicKeys, s3 } = backup;
  const given: Record<string, string | undefined> = {
    SLIPWAY_DATA_DIR: dataDir,
    SLIPWAY_DATABASE_URL: databaseUrl?.reveal(),
    SLIPWAY_SECRET_KEY: secretKeys?.map((key) => key.reveal()).join(","),
    SLIPWAY_BACKUP_PUBLIC_KEYS: publicKeys.join(","),
    SLIPWAY_BACKUP_S3_ENDPOINT: s3?.endpoint,
    SLIPWAY_BACKUP_S3_REGION: s3?.region,
    SLIPWAY_BACKUP_S3_ACCESS_KEY_ID: s3?.accessKeyId.reveal(),
    SLIPWAY_BACKUP_S3_SECRET_ACCESS_KEY: s3?.secretAccessKey.reveal(),
  };
  const environment: Record<string, string> = { ...toolEnvironment };
  for (const [name, value] of Object.entries(given))
    if (value !== undefined) environment[name] = value;
  return environment;
}
