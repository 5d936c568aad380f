// The trial start: before a release takes traffic, one replica of it is started and must become ready. Declares what the
// scheduler does for that, and decides what an outcome means for the build.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { Artifact, ReplicaLine } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, BuildId, ProjectId, ReleaseId } from "#lib/ids.ts";

/** A release that may take traffic once it has proved that it starts. */
export type CandidateRelease = {
  readonly releaseId: ReleaseId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly buildId: BuildId;
  readonly settings: AppSettings;
  readonly artifact: Artifact;
};

export type TrialOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false;
      /** `no_capacity`: nothing was started, since no machine has what the app asks for; it may be tried again. */
      readonly kind: "failed" | "timeout" | "no_capacity";
      /** A sentence for the app's owner. */
      readonly reason: string;
    };

/** Starts one replica of a release. The scheduler implements it. */
export interface TrialStarter {
  /**
   * Resolves when the replica is ready (it stays, and serves once the release is promoted) or gone. Never rejects. An abort
   * ends the replica. `deadlineMs`: how long it may take from now.
   */
  tryRelease(
    release: CandidateRelease,
    options: {
      readonly signal: AbortSignal;
      readonly deadlineMs: number;
      readonly onLine: (line: ReplicaLine) => void;
    },
  ): Promise<TrialOutcome>;
}

/** The release did not become ready; `end` is what the build becomes. */
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
  /** Told when there is no room, each time for another reason: shown while the build waits. */
  readonly onWait: (reason: string) => Promise<void>;
};

/** How often it is asked again whether there is room now. */
const capacityPauseMs = 5000;
/** An outcome that is later than this is not waited for any more. */
const overtimeMs = 30_000;

/** Resolves with the milliseconds it took until ready. Rejects with `StartFailed`, or with the reason of an abort. */
export async function runTrial(run: TrialRun): Promise<number> {
  const { starter, release, signal, clock } = run;
  const startMs = clock.monotonicMs();
  const limitMs = release.settings.deploymentInitializationTimeout * 1000;
  const overtime = new AbortController();
  const cancelOvertime = clock.after(limitMs + overtimeMs, () => overtime.abort(new Error("the trial did not end")));
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
      if (clock.monotonicMs() - startMs + capacityPauseMs >= limitMs) {
        throw new StartFailed("init_timeout", `${outcome.reason} ${waitedText(limitMs)}`);
      }
      await clock.sleep(capacityPauseMs, signal);
    }
  } finally {
    cancelOvertime();
  }
}

function startFailed(kind: "failed" | "timeout", reason: string, limitMs: number): StartFailed {
  const sentence = /[.!?]$/.test(reason) ? reason : `${reason}.`;
  if (kind === "failed") {
    return new StartFailed("init_failure", `${sentence} Its output is in the build log; fix the app and deploy again.`);
  }
  return new StartFailed(
    "init_timeout",
    `${sentence} The limit is ${Math.round(limitMs / 1000)} s (deploymentInitializationTimeout); make the app start faster or raise the limit, then deploy again.`,
  );
}

function waitedText(limitMs: number): string {
  return `The build waited for ${Math.round(limitMs / 1000)} s (deploymentInitializationTimeout).`;
}
