// Finds out how a replica exited, and when, from what its shell, the kernel and the app have left.
import { commandProblem } from "#drivers/command-problem.ts";
import { exitSummary, type ExitFacts, type ExitSummary } from "#drivers/exit-reason.ts";
import { beginOfAppFile } from "./app-file.ts";
import { memoryFacts } from "./memory-facts.ts";
import { readExitTime, readState, type ReplicaPaths, type ReplicaRecord } from "./replica-files.ts";

/** The facts of an exit that the replica's folder does not show. */
export type KnownOfExit = Pick<
  ExitFacts,
  "startError" | "lastErrorLine" | "asked" | "endReason"
> & {
  /** The count of memory kills when the replica was first seen; see `memoryFacts`. */
  readonly memoryKillsBefore: number;
};

/** Summarizes the exit of a replica that is gone. */
export async function summaryOfExit(
  paths: ReplicaPaths,
  record: ReplicaRecord,
  { memoryKillsBefore, ...known }: KnownOfExit,
): Promise<ExitSummary> {
  const { exitCode } = readState(paths);
  const { program, appDir = paths.code } = record;
  const problem = await commandProblem({
    exitCode,
    program,
    lastErrorLine: known.lastErrorLine?.text ?? null,
    readBegin: (path, bytesMax) => beginOfAppFile([paths.code, appDir], path, bytesMax),
  });
  return exitSummary({
    ...known,
    ...memoryFacts(record, memoryKillsBefore),
    exitCode,
    program,
    commandProblem: problem,
  });
}

/**
 * When the replica exited, in milliseconds since the epoch; null when the shell did not report the
 * exit, for example because the machine stopped, and the platform did not see it (`wasSeen`).
 */
export function exitTime(
  paths: ReplicaPaths,
  { wasSeen, now }: { readonly wasSeen: boolean; readonly now: number },
): number | null {
  const reported = readExitTime(paths);
  if (reported !== null) return Math.min(reported, now);
  return wasSeen ? now : null;
}
