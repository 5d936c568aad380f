// The trial start: before a release takes traffic, one replica of it must start and become ready.
// Declares the interface that the scheduler implements, and decides what an outcome means for the
// build.
import { buildAgain, changeField } from "@slipway/contract/advice.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Artifact, ReplicaLine } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppKey, BuildId, ReleaseId } from "#lib/ids.ts";

/** A release that may take traffic after a successful trial. */
export type CandidateRelease = AppKey & {
  readonly releaseId: ReleaseId;
  readonly buildId: BuildId;
  readonly settings: AppSettings;
  readonly artifact: Artifact;
};

export type TrialOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false;
      /**
       * `failed`: the replica could not start, or ended. `timeout`: it was not ready in time.
       * `no_capacity`: nothing was started, since no machine has free resources; a retry is
       * possible. `impossible`: nothing was started, and waiting would not help.
       */
      readonly kind: "failed" | "timeout" | "no_capacity" | "impossible";
      /** A sentence for the app's owner. */
      readonly reason: string;
    };

/** How a release is tried. */
export type TrialOptions = {
  /** Aborting it ends the replica. */
  readonly signal: AbortSignal;
  /** The maximum time from the call of `tryRelease` until the replica is ready. */
  readonly deadlineMs: number;
  /** Called with each line that the replica puts out. */
  readonly onLine: (line: ReplicaLine) => void;
};

/** Starts one replica of a release. The scheduler implements it. */
export interface TrialStarter {
  /**
   * Resolves when the replica is ready (it stays, and serves once the release is promoted) or
   * gone. Never rejects.
   */
  tryRelease(release: CandidateRelease, options: TrialOptions): Promise<TrialOutcome>;
}

/** The release did not become ready; `end` is the build's final state. */
export class StartFailed extends Error {
  override readonly name = "StartFailed";
  readonly end: "init_failure" | "init_timeout";

  constructor(end: "init_failure" | "init_timeout", reason: string) {
    super(reason);
    this.end = end;
  }
}

export type TrialRun = {
  readonly starter: TrialStarter;
  readonly release: CandidateRelease;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly onLine: (line: ReplicaLine) => void;
  /** Called when there is no capacity and the reason is new. The waiting build shows the reason. */
  readonly onWait: (reason: string) => Promise<void>;
};

/**
 * Pause before the next check for capacity. It must not end early when something becomes free: a
 * start that the backend refuses frees what it had reserved, so trials would follow each other
 * without a pause.
 */
const capacityPauseMs = 5000;
/** How long after the trial's own deadline an outcome may arrive before the trial is aborted. */
const overtimeMs = 30_000;

/**
 * Resolves with the milliseconds until the replica was ready. Rejects with `StartFailed`, or with
 * the reason for which the signal was aborted.
 */
export async function runTrial(run: TrialRun): Promise<number> {
  const { starter, release, signal, clock } = run;
  const startMs = clock.monotonicMs();
  const limitMs = release.settings.deploymentInitializationTimeout * 1000;
  const overtime = new AbortController();
  const cancelOvertime = clock.after(limitMs + overtimeMs, () =>
    overtime.abort(new Error("the trial did not end")),
  );
  let waitReason: string | null = null;
  try {
    for (;;) {
      const leftMs = Math.max(1, limitMs - (clock.monotonicMs() - startMs));
      const outcome = await starter.tryRelease(release, {
        signal: AbortSignal.any([signal, overtime.signal]),
        deadlineMs: leftMs,
        onLine: run.onLine,
      });
      signal.throwIfAborted();
      if (outcome.ok) return clock.monotonicMs() - startMs;
      if (outcome.kind !== "no_capacity") throw startFailed(outcome.kind, outcome.reason, limitMs);
      if (outcome.reason !== waitReason) await run.onWait(outcome.reason);
      waitReason = outcome.reason;
      // The limit would be reached during another pause.
      if (clock.monotonicMs() - startMs + capacityPauseMs >= limitMs) {
        throw new StartFailed("init_timeout", `${outcome.reason} ${waitedText(limitMs)}`);
      }
      await clock.sleep(capacityPauseMs, signal);
    }
  } finally {
    cancelOvertime();
  }
}

function startFailed(
  kind: "failed" | "timeout" | "impossible",
  reason: string,
  limitMs: number,
): StartFailed {
  if (kind === "impossible") return new StartFailed("init_failure", reason);
  const sentence = /[.!?]$/.test(reason) ? reason : `${reason}.`;
  if (kind === "failed") {
    return new StartFailed(
      "init_failure",
      `${sentence} Its output is in the build log. Fix the app and ${buildAgain}.`,
    );
  }
  return new StartFailed(
    "init_timeout",
    `${sentence} The limit is ${Math.round(limitMs / 1000)} s (deploymentInitializationTimeout): if the app needs longer, raise it (${changeField}). Then ${buildAgain}.`,
  );
}

function waitedText(limitMs: number): string {
  return `The build waited for ${Math.round(limitMs / 1000)} s (deploymentInitializationTimeout); ${buildAgain} later.`;
}
