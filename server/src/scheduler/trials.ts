// Trial starts: one replica of a candidate release, started before the release takes traffic. A
// good replica stays and becomes the first warm replica after the promotion; a bad replica is gone
// by the time its outcome is reported.
import { addAbortListener } from "node:events";
import type { TrialOptions, TrialOutcome } from "#deploy/trial.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { Fleet, Replica, ReplicaEnd, ReplicaRelease } from "./replica.ts";
import type { ReplicaDrain } from "./replica-drain.ts";
import type { ReplicaLines } from "./replica-lines.ts";
import type { ReplicaStarter } from "./replica-starter.ts";
import { neverFits, type Allowance } from "./allowance.ts";
import type { CapacityLine } from "./capacity-line.ts";

type Trial = {
  /** Reports the outcome. Only the first call counts. */
  readonly settle: (outcome: TrialOutcome) => void;
  /** Aborted when the trial is cancelled. */
  readonly signal: AbortSignal;
  /** The outcome of a trial whose replica has ended and whose last lines are awaited. */
  ended: TrialOutcome | null;
};

/** A replica that passed its trial ends if its release is not promoted within this time. */
const promotionWaitMs = 60_000;

type TrialParts = {
  readonly starter: ReplicaStarter;
  readonly drain: ReplicaDrain;
  readonly fleet: Fleet;
  readonly lines: ReplicaLines;
  readonly allowance: Allowance;
  readonly clock: Clock;
  readonly line: CapacityLine;
};

/** Trials in progress. */
export class Trials {
  readonly #parts: TrialParts;
  readonly #byReplica = new Map<ReplicaId, Trial>();

  constructor(parts: TrialParts) {
    this.#parts = parts;
  }

  /** Starts one replica and returns the outcome: ready, or gone. Never rejects. */
  async run(release: ReplicaRelease, options: TrialOptions): Promise<TrialOutcome> {
    if (options.signal.aborted)
      return { ok: false, kind: "failed", reason: "The trial start was cancelled." };
    const { line, lines } = this.#parts;
    const choice = line.choose(release);
    if (!choice.ok) {
      if (choice.why === "full") line.wait(release);
      const kind = choice.why === "never" ? "impossible" : "no_capacity";
      return { ok: false, kind, reason: choice.reason };
    }
    // What the releases before this one in the line need; the start leaves it free.
    const ahead = line.ahead(release);
    line.leave(release.releaseId);
    // A deployment may have one replica beyond the project's limit; otherwise nobody could deploy
    // at the limit. So only what can never fit is refused.
    const limits = this.#parts.allowance.limitsOf(release.projectId);
    const reason = neverFits(limits, choice.request.gpuCount);
    if (reason !== undefined) return { ok: false, kind: "impossible", reason };
    const outcome = Promise.withResolvers<TrialOutcome>();
    const replica = this.#parts.starter.start(release, {
      request: choice.request,
      ahead,
      deadlineMs: options.deadlineMs,
      isTrial: true,
    });
    const { onLine, signal } = options;
    const trial: Trial = { settle: outcome.resolve, signal, ended: null };
    this.#byReplica.set(replica.replicaId, trial);
    // `using` ends both when this function returns.
    using _lines = lines.follow(replica.replicaId, onLine);
    using _cancel = addAbortListener(signal, () => {
      if (trial.ended !== null) {
        trial.settle(trial.ended);
        return;
      }
      const order = { reason: "The trial start was cancelled.", kind: "wanted" } as const;
      this.#parts.drain.end(replica, order);
    });
    try {
      return await outcome.promise;
    } finally {
      this.#byReplica.delete(replica.replicaId);
    }
  }

  /** Called when a replica is ready. If it is on trial, it then waits for its promotion. */
  onReady(replica: Replica): void {
    const trial = this.#byReplica.get(replica.replicaId);
    if (trial === undefined) return;
    replica.heldUntilMs = this.#parts.clock.monotonicMs() + promotionWaitMs;
    trial.settle({ ok: true });
  }

  /**
   * Called when a replica has ended. True: it was on trial; the outcome waits for `onForgotten`,
   * unless the trial is cancelled.
   */
  onEnd(replica: Replica, end: ReplicaEnd): boolean {
    const trial = this.#byReplica.get(replica.replicaId);
    if (trial === undefined) return false;
    const kind = failureOf(replica, end);
    trial.ended = { ok: false, kind, reason: replica.endOrder?.reason ?? end.reason };
    if (trial.signal.aborted) trial.settle(trial.ended);
    return true;
  }

  /** Called when all lines of a replica have arrived. */
  onForgotten({ replicaId }: Replica): void {
    const trial = this.#byReplica.get(replicaId);
    if (trial?.ended) trial.settle(trial.ended);
  }

  /** Ends all trials because the platform stops. */
  stop(): void {
    for (const [replicaId, trial] of this.#byReplica) {
      if (trial.ended !== null) trial.settle(trial.ended);
      const replica = this.#parts.fleet.get(replicaId);
      if (replica !== undefined)
        this.#parts.drain.end(replica, { reason: "The platform stopped.", kind: "wanted" });
    }
  }
}

type FailureKind = Extract<TrialOutcome, { ok: false }>["kind"];

function failureOf({ endOrder }: Replica, { isExternal }: ReplicaEnd): FailureKind {
  if (isExternal === true) return "no_capacity";
  return endOrder?.kind === "timeout" ? "timeout" : "failed";
}
