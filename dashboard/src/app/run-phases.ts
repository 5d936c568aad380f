// Divides the time of a run into what it waited for, what started for it, and what it ran. Pure.

/** What is known of a run's times; durations in milliseconds. */
export type TimedRun = {
  readonly activatorQueueTimeMs: number;
  readonly containerQueueTimeMs: number;
  readonly executionTimeMs: number;
  readonly queueProxyWaitEndedAt: string | null;
  readonly containerStartedAt: string | null;
};

/** A part of the time: it begins so long after the run was accepted. */
export type Phase = {
  readonly kind: "waiting" | "starting" | "running";
  readonly what: string;
  readonly beginsMs: number;
  readonly lastsMs: number;
};

/** Returns the phases of a run that took any time, in order. */
export function phasesOf(run: TimedRun): readonly Phase[] {
  const startingMs = startingOf(run);
  const parts = [
    ["waiting", "Waited", run.activatorQueueTimeMs],
    ["waiting", "In line", run.containerQueueTimeMs - startingMs],
    ["starting", "Cold start", startingMs],
    ["running", "Ran", run.executionTimeMs],
  ] as const;
  let beginsMs = 0;
  const phases: Phase[] = [];
  for (const [kind, what, lastsMs] of parts) {
    if (lastsMs > 0 || kind === "running") phases.push({ kind, what, beginsMs, lastsMs });
    beginsMs += lastsMs;
  }
  return phases;
}

/** How long, at the end of the time in line, the replica that took the run was starting. */
function startingOf({
  containerQueueTimeMs,
  queueProxyWaitEndedAt,
  containerStartedAt,
}: TimedRun): number {
  if (queueProxyWaitEndedAt === null || containerStartedAt === null) return 0;
  const sinceStartMs = Date.parse(queueProxyWaitEndedAt) - Date.parse(containerStartedAt);
  // It ran before the run got into the line.
  return sinceStartMs > containerQueueTimeMs ? 0 : Math.max(0, sinceStartMs);
}
