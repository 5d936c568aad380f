// Makes backups on a schedule: when the newest one in the folder is old enough, the program of
// `slipway backup` runs beside the platform, and older ones are removed after it has succeeded.
// What is due is read from the folder, so that a restart neither skips nor repeats a backup.
import { join } from "node:path";
import { errorMessage } from "#lib/error-message.ts";
import { runCommand } from "#lib/command.ts";
import type { Clock } from "#lib/clock.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import { Loop } from "#lib/loop.ts";
import { oneLine } from "#lib/one-line.ts";
import { writeFileSafely } from "#lib/write-file.ts";
import type { BackupFolder } from "./backup-folder.ts";

export type ScheduleOptions = {
  readonly folder: BackupFolder;
  readonly everyHours: number;
  /** How many backups are kept. */
  readonly kept: number;
  readonly dataDir: string;
  /** The command that makes a backup, without the backup's address, which comes last. */
  readonly program: readonly [string, ...string[]];
  /** The whole environment of that command. */
  readonly environment: Readonly<Record<string, string>>;
  readonly log: Log;
  readonly clock: Clock;
};

/** What `slipway doctor` and metrics say of scheduled backups. */
export type ScheduledBackups = {
  /** When the newest backup began, in milliseconds since 1970; null: there is none. */
  lastMs: number | null;
  /** The number of failed backups since the platform started. */
  failures: number;
};

/** How often the folder is looked at, and so how soon a failed backup is tried again. */
const intervalMs = 600_000;
/** A backup that takes longer has hung, or no schedule could keep up with it. */
const backupMs = 12 * 3_600_000;
const hourMs = 3_600_000;
/** How many characters of the program's error output are kept, which is enough for its message. */
const messageLengthMax = 1_000;

/** The form of the names of scheduled backups. Sorted as texts, they are in the order of time. */
const nameForm = /^slipway-(\d{4}-\d{2}-\d{2}T)(\d{2})-(\d{2})-(\d{2}Z)\.age$/;

/** A file has such a name until its backup is complete, and keeps it if the program is killed. */
const unfinishedForm = /^(.+)\.unfinished-(?:\d+|upload-.+)$/;

/** The name of a scheduled backup that begins now. */
function scheduledName(nowMs: number): string {
  // The first 19 characters of an ISO time end with the seconds.
  return `slipway-${new Date(nowMs).toISOString().slice(0, 19).replaceAll(":", "-")}Z.age`;
}

/** When the scheduled backup of this name began; null: the name is none of the schedule's. */
function timeOfName(name: string): number | null {
  const [, day = "", hour = "", minute = "", second = ""] = nameForm.exec(name) ?? [];
  return day === "" ? null : Date.parse(`${day}${hour}:${minute}:${second}`);
}

/**
 * Whether a scheduled backup that was killed has left the file of this name. Unfinished files of
 * other backups do not count: somebody may be making such a backup by hand.
 */
function isLeft(name: string): boolean {
  const [, complete = ""] = unfinishedForm.exec(name) ?? [];
  return timeOfName(complete) !== null;
}

/**
 * Whether a backup is due in a folder with these names, and which names are to be removed once a
 * backup has succeeded (`spare`). Pure.
 */
export function planBackups(
  names: readonly string[],
  { nowMs, everyHours, kept }: { nowMs: number; everyHours: number; kept: number },
): { readonly lastMs: number | null; readonly isDue: boolean; readonly spare: readonly string[] } {
  // If the machine's clock was ahead, names have times in the future. Until these times have come,
  // such backups neither count nor are removed: counted as the newest ones, they would have each
  // new backup removed. Names that are not the schedule's never count.
  const isPast = (name: string): boolean => (timeOfName(name) ?? Infinity) <= nowMs;
  const past = names.filter(isPast).toSorted();
  const lastMs = timeOfName(past.at(-1) ?? "");
  const isDue = lastMs === null || nowMs - lastMs >= everyHours * hourMs;
  const older = past.slice(0, Math.max(0, past.length - kept));
  return { lastMs, isDue, spare: [...older, ...names.filter(isLeft)] };
}

/** Adds the schedule to the platform's loops, with which it starts and stops. */
export function startBackupSchedule(
  options: ScheduleOptions,
  lifecycle: Lifecycle,
): ScheduledBackups {
  const { folder, everyHours, kept, log, clock } = options;
  const state: ScheduledBackups = { lastMs: null, failures: 0 };
  const plan = async () =>
    planBackups(await folder.list(), { nowMs: clock.now(), everyHours, kept });
  const turn = async (signal: AbortSignal): Promise<void> => {
    let failure: string | null;
    try {
      const { isDue, lastMs } = await plan();
      state.lastMs = lastMs;
      if (!isDue) return;
      failure = await makeBackup(options, signal);
    } catch (error) {
      failure = errorMessage(error);
    }
    if (signal.aborted) return;
    if (failure === null) {
      const { lastMs, spare } = await plan();
      state.lastMs = lastMs;
      for (const name of spare) await folder.remove(name);
      log.info({ folder: folder.addressOf(""), removed: spare.length }, "made a backup");
    } else {
      state.failures += 1;
      log.error({ reason: failure }, "a scheduled backup failed; it is tried again in 10 minutes");
    }
    noteOutcome(options, { lastMs: state.lastMs, failure });
  };
  const loop = new Loop({ name: "backups", turn, intervalMs, waitsForClock: true, log, clock });
  loop.startWithin(lifecycle);
  return state;
}

/** Makes a backup. Returns null when it is made, and otherwise why it is not. */
async function makeBackup(options: ScheduleOptions, signal: AbortSignal): Promise<string | null> {
  const { folder, program, environment, dataDir, clock } = options;
  let message = "";
  const end = await runCommand({
    command: [...program, folder.addressOf(scheduledName(clock.now()))],
    cwd: dataDir,
    environment,
    signal,
    timeoutMs: backupMs,
    clock,
    onLine: (stream, line) => {
      if (stream === "stderr") message = `${message}${line}\n`.slice(-messageLengthMax);
    },
  });
  if (end.kind === "exited" && end.exitCode === 0) return null;
  const how = end.kind === "exited" ? `exit code ${end.exitCode}` : end.kind;
  return oneLine(message.trim()) || `the backup ended: ${how}`;
}

/** Writes the outcome of a turn into a file of the data folder, which `slipway doctor` reads. */
function noteOutcome(
  { dataDir, clock }: ScheduleOptions,
  { lastMs, failure }: { readonly lastMs: number | null; readonly failure: string | null },
): void {
  const at = new Date(clock.now()).toISOString();
  const last = lastMs === null ? null : new Date(lastMs).toISOString();
  writeFileSafely(join(dataDir, "backup.json"), `${JSON.stringify({ at, last, failure })}\n`);
}
