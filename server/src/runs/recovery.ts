// Recovers a run that was running when its platform was lost. If the replica keeps the answer, the
// answer is fetched from there, even if the function still runs; if the replica never got the call,
// the call is sent again; otherwise the run has another attempt if any is left.
import type { ReplicaId } from "#lib/ids.ts";
import type { RunEnding } from "#proxy/run-call.ts";
import type { ActiveRun } from "./active-run.ts";
import type { ExecutionParts } from "./execution.ts";
import { heldIdOf, heldStartMax, type HeldId } from "./held-id.ts";
import type { Interrupted } from "./outcome.ts";
import type { OrphanRun, RunStore } from "./run-store.ts";

/** The parts that all recoveries share. */
export type RecoveryParts = Pick<
  ExecutionParts,
  | "heldRuns"
  | "settlement"
  | "keepsAnswers"
  | "callMsMax"
  | "answerBytesMax"
  | "scheduler"
  | "hasReplicaAlone"
  | "clock"
  | "log"
  | "onLetGo"
> & { readonly store: Pick<RunStore, "replicaOf"> };

type Address = NonNullable<Awaited<ReturnType<RunStore["replicaOf"]>>["address"]>;

/** One run after a takeover. Call `begin()` once. */
export class Recovery implements ActiveRun {
  readonly work: OrphanRun;
  readonly #parts: RecoveryParts;
  /** Ends the wait for the replica's answer. */
  readonly #attachStop = new AbortController();
  #isCancelled: boolean;
  #isAbandoned = false;

  constructor(work: OrphanRun, parts: RecoveryParts) {
    this.work = work;
    this.#parts = parts;
    this.#isCancelled = work.isCancelRequested;
  }

  begin(): void {
    this.#run().catch((error: unknown) =>
      this.#parts.log.error(
        { err: error, runId: this.work.runId },
        "a run could not be taken over",
      ),
    );
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#attachStop.abort(new Error("the run is cancelled"));
  }

  abandon(): void {
    this.#isAbandoned = true;
    this.#attachStop.abort(new Error("the run is somebody else's"));
  }

  leave(): boolean {
    this.abandon();
    return false;
  }

  async #run(): Promise<void> {
    const { settlement, heldRuns, onLetGo, store } = this.#parts;
    const { runId, replicaId, attempt, starts } = this.work;
    const heldId = heldIdOf(runId, starts);
    try {
      const isAnswerKept = starts <= heldStartMax && this.#parts.keepsAnswers(this.work.appId);
      const replica = replicaId === null ? null : await store.replicaOf(replicaId);
      // Null: there is no replica that could have the answer.
      const address = isAnswerKept ? (replica?.address ?? null) : null;
      const ending = address === null ? answerLost : await this.#attach(address, heldId);
      if (this.#isAbandoned) return;
      const mayStillRun = address !== null && replicaId !== null && ending.kind !== "answered";
      if (this.#isCancelled && mayStillRun) {
        const cancelAnswer = await heldRuns.cancel(address, heldId);
        if (cancelAnswer === "running" && this.#parts.hasReplicaAlone(this.work.appId))
          this.#parts.scheduler.endStuck(replicaId);
      }
      // The replica's row also tells of a reclaim before this platform started. If the replica has
      // dropped the answer, the run may have ended there before the reclaim, which is then no
      // reason to send the run again.
      const wasReclaimed = (id: ReplicaId): boolean =>
        replica?.isReclaimed === true || this.#parts.scheduler.isReclaimed(id);
      const isReclaimed = replicaId !== null && ending !== forgotten && wasReclaimed(replicaId);
      const facts = { attempt, isCancelled: this.#isCancelled, isReclaimed };
      // The row counts the interrupted attempt already. `work` has the number before that attempt,
      // which is stored if the outcome does not count the attempt.
      const work = { ...this.work, attempt: Math.max(0, attempt - 1) };
      const isWritten = await settlement.end(work, ending, facts);
      if (isWritten && address !== null) heldRuns.acknowledge(address, heldId);
    } finally {
      onLetGo();
    }
  }

  /**
   * Fetches the answer from the replica. `withdrawn`: the run is cancelled, or the replica never
   * got the call, which is then sent as if for the first time.
   */
  async #attach(address: Address, heldId: HeldId): Promise<RunEnding | Interrupted> {
    const { heldRuns, answerBytesMax, callMsMax } = this.#parts;
    if (this.#isCancelled) return { kind: "withdrawn" };
    const options = {
      signal: this.#attachStop.signal,
      bytesMax: answerBytesMax,
      waitMs: callMsMax(this.work.appId),
    };
    const attached = await heldRuns.attach(address, heldId, options);
    switch (attached.kind) {
      case "answered":
        return attached;
      case "unknown":
        return attached.hasForgotten ? forgotten : { kind: "withdrawn" };
      case "lost":
        return interrupted(attached.reason);
    }
  }
}

const answerLost = interrupted(
  "the platform was restarted in the meantime, and the call's answer is lost",
);
const forgotten = interrupted(
  "the platform was restarted in the meantime, and the replica no longer has the answer",
);

function interrupted(why: string): Interrupted {
  return { kind: "interrupted", reason: `interrupted: ${why}.` };
}
