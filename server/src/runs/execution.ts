// One attempt of a run: sends its call like a plain call, records the start before anything is
// sent, and writes the end before it lets go of the run. Once the call holds a slot, nobody checks
// again whether the app takes calls.
import { retry, type RetryPolicy } from "#lib/retry.ts";
import { Fault } from "#lib/fault.ts";
import { refusesIdentity } from "#proxy/accept-encoding.ts";
import type { AnswerDecoder } from "#proxy/answer-decoder.ts";
import { replicaEnded } from "#proxy/call-faults.ts";
import type { CalledApps } from "#proxy/called-apps.ts";
import type { Proxy } from "#proxy/proxy.ts";
import type { RunEnding, RunHandle, RunWatcher } from "#proxy/run-call.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import type { Scheduler } from "#scheduler/scheduler.ts";
import type { Foundation } from "#store/foundation.ts";
import type { ActiveRun, OnLetGo } from "./active-run.ts";
import { heldIdOf, heldLineOf, heldStartMax, type HeldId } from "./held-id.ts";
import type { AnswerReservation, AnswerMemory } from "./answer-memory.ts";
import type { HeldRuns } from "./held-runs.ts";
import type { RunWork } from "./run-store.ts";
import type { RunSettlement } from "./settlement.ts";

/** The parts that all executions share. */
export type ExecutionParts = Pick<Foundation, "clock" | "log"> & {
  readonly proxy: Pick<Proxy, "run">;
  readonly calledApps: Pick<CalledApps, "hold">;
  readonly heldRuns: Pick<HeldRuns, "attach" | "acknowledge" | "cancel">;
  readonly settlement: RunSettlement;
  /** True when the app's replicas keep answers of runs until they are acknowledged. */
  readonly keepsAnswers: (appId: RunWork["appId"]) => boolean;
  /** The app's time limit for a call. */
  readonly callMsMax: (appId: RunWork["appId"]) => number;
  readonly answerBytesMax: number;
  readonly answerMemory: AnswerMemory;
  readonly decoder: AnswerDecoder;
  /**
   * The call may be sent only within this time after the write of its start was requested. The time
   * is shorter than the lease, so no other platform can have taken over the run.
   */
  readonly startMsMax: number;
  readonly scheduler: Pick<Scheduler, "endStuck" | "brokeOff" | "isReclaimed">;
  /**
   * True when no other call runs on the replica of a run, so that the replica may be ended if the
   * run's function cannot be stopped.
   */
  readonly hasReplicaAlone: (appId: RunWork["appId"]) => boolean;
  readonly onLetGo: OnLetGo;
};

/** How the write of a start is retried: not for long, since the run's slot is idle meanwhile. */
const startRetry: RetryPolicy = { firstMs: 50, factor: 3, msMax: 1_000, jitter: 0.2, triesMax: 4 };

/** One attempt. Call `begin()` once. */
export class Execution implements ActiveRun, RunWatcher {
  readonly work: RunWork;
  readonly #parts: ExecutionParts;
  /** The number of this start within the run, counting starts that were taken back. */
  readonly #startNumber: number;
  /** True when the replica keeps the answer until it is acknowledged. */
  readonly #isAnswerKept: boolean;
  readonly #heldId: HeldId;
  /** The memory for the answer. */
  readonly #answer: AnswerReservation;
  #handle: RunHandle | null = null;
  /** The replica with which the start was recorded; null: no start was recorded. */
  #replica: ReadyReplica | null = null;
  /** When the start was recorded, in milliseconds since the epoch. */
  #sinceMs = 0;
  #isCancelled = false;
  /** True when nothing may be written any more. */
  #isAbandoned = false;
  /** True when the platform stops. */
  #isLeaving = false;
  /**
   * True when the run may run only on one release, and the chosen replica is of another release.
   */
  #isOtherRelease = false;
  /** True when the call has ended. The end of the run may still have to be found and written. */
  #isOver = false;
  /**
   * Ends the wait for an answer that the replica keeps although the connection broke; null: there
   * is no such wait.
   */
  #reattaching: AbortController | null = null;

  constructor(work: RunWork, parts: ExecutionParts) {
    this.work = work;
    this.#parts = parts;
    this.#startNumber = work.starts + 1;
    this.#isAnswerKept = this.#startNumber <= heldStartMax && parts.keepsAnswers(work.appId);
    this.#heldId = heldIdOf(work.runId, this.#startNumber);
    this.#answer = parts.answerMemory.of(work.projectId);
  }

  begin(): void {
    const { proxy, answerBytesMax } = this.#parts;
    const { runId, appId, method, target, body } = this.work;
    const lines = this.#isAnswerKept
      ? this.work.lines + heldLineOf(this.#startNumber)
      : this.work.lines;
    const request = { runId, appId, method, path: target, lines, body, answerBytesMax };
    const handle = proxy.run(request, this);
    this.#handle = handle;
    if (this.#isCancelled || this.#isLeaving) handle.withdraw();
  }

  cancel(): void {
    // After the end of the call, only the wait for a kept answer can still be cancelled.
    const isTooLate = this.#isOver && this.#reattaching === null;
    if (this.#isCancelled || isTooLate) return;
    this.#isCancelled = true;
    // A held run goes on when its connection is closed, so its replica is asked to stop it.
    if (this.#replica === null || !this.#isAnswerKept) this.#handle?.withdraw();
    else void this.#stopAtReplica(this.#replica);
  }

  abandon(): void {
    this.#isAbandoned = true;
    this.#reattaching?.abort(new Error("the run is let go"));
    this.#handle?.withdraw();
  }

  leave(): boolean {
    this.#isLeaving = true;
    // The next process of the platform asks the replica again.
    if (this.#reattaching !== null) this.abandon();
    // The end of the run may still have to be written.
    if (this.#isOver) return true;
    // Only this process can receive the answer.
    if (this.#replica !== null && !this.#isAnswerKept) return true;
    // The replica keeps the answer, so the run goes on there without this process.
    if (this.#replica !== null) this.#isAbandoned = true;
    this.#handle?.withdraw();
    return false;
  }

  async mayStart(replica: ReadyReplica): Promise<boolean> {
    const { settlement, clock, log } = this.#parts;
    const { runId } = this.work;
    const onFailure = (error: unknown): void =>
      log.warn({ err: error, runId }, "the start of a run could not be written");
    const options = { ...startRetry, clock, signal: settlement.stopping, onFailure };
    // A write that is counted as failed may have succeeded; the run is then given back without
    // having been sent.
    const isStarted = await retry(options, () => this.#writeStart(replica));
    // Without a successful write, `retry` gives undefined.
    return isStarted ?? false;
  }

  mayGrow(answerBytes: number): Promise<void> | null {
    return this.#answer.grow(answerBytes);
  }

  onEnd(ending: RunEnding): void {
    this.#isOver = true;
    this.#end(ending).catch((error: unknown) =>
      this.#parts.log.error(
        { err: error, runId: this.work.runId },
        "the end of a run could not be written",
      ),
    );
  }

  /** Records the start; false: the call must not be sent. */
  async #writeStart(replica: ReadyReplica): Promise<boolean> {
    const { settlement, clock, startMsMax } = this.#parts;
    const { runId, epoch } = this.work;
    if (this.#isCancelled || this.#isAbandoned || this.#isLeaving) return false;
    const requestedMs = clock.monotonicMs();
    const { replicaId, releaseId } = replica;
    const requiredReleaseId = this.work.onlyReleaseId ?? releaseId;
    this.#isOtherRelease = requiredReleaseId !== releaseId;
    if (this.#isOtherRelease) return false;
    const isStarted = await settlement.start({ runId, epoch, replicaId, releaseId });
    // The lease is lost, or somebody has requested a cancel of which this object does not know yet.
    // The write of the end, which changes nothing without the lease, finds out which of the two is
    // true.
    if (!isStarted) this.#isCancelled = true;
    // This process stalled for so long that another process may have taken over the run and sent
    // it.
    else if (clock.monotonicMs() - requestedMs > startMsMax) return false;
    else this.#noteReplica(replica);
    return isStarted && !this.#isCancelled && !this.#isAbandoned;
  }

  #noteReplica(replica: ReadyReplica): void {
    this.#replica = replica;
    this.#sinceMs = this.#parts.clock.now();
  }

  /**
   * Stops the run's function. Keeps the slot on the replica meanwhile: the next call must not wait
   * behind a function that is still running.
   */
  async #stopAtReplica({ address, replicaId }: ReadyReplica): Promise<void> {
    const { heldRuns, scheduler, hasReplicaAlone } = this.#parts;
    const cancelAnswer = await heldRuns.cancel(address, this.#heldId);
    if (this.#isOver && this.#reattaching === null) return;
    if (cancelAnswer === "running" && hasReplicaAlone(this.work.appId))
      scheduler.endStuck(replicaId);
    this.#reattaching?.abort(new Error("the run is cancelled"));
    this.#handle?.withdraw();
  }

  /** Decides how the run ends after its connection broke. */
  async #afterBreak(reported: RunEnding, replica: ReadyReplica): Promise<RunEnding> {
    const { runId } = this.work;
    // The scheduler is told of the break at once, and not only after the wait for an answer.
    const foundEnd = this.#parts.scheduler.brokeOff({
      replicaId: replica.replicaId,
      runId,
      sinceMs: this.#sinceMs,
    });
    const ending = this.#isAnswerKept ? await this.#askAgain(reported, replica) : reported;
    // The end of the replica explains nothing if the replica has given an answer.
    const replicaEnd = ending === reported ? await foundEnd : null;
    if (replicaEnd === null || reported.kind !== "failed") return ending;
    const fault = replicaEnded(runId, replicaEnd.reasonForCaller);
    return {
      ...reported,
      fault,
      why: `The app's replica ended during the run. ${replicaEnd.reason}`,
    };
  }

  /**
   * Asks the replica for the answer, since a broken connection does not end a run whose answer the
   * replica keeps. Returns `ending` if the replica has no answer.
   */
  async #askAgain(ending: RunEnding, { address, replicaId }: ReadyReplica): Promise<RunEnding> {
    const { calledApps, heldRuns, answerBytesMax, callMsMax } = this.#parts;
    const { appId } = this.work;
    this.#reattaching = new AbortController();
    const endHold = calledApps.hold(appId, replicaId);
    const options = {
      signal: this.#reattaching.signal,
      bytesMax: answerBytesMax,
      waitMs: callMsMax(appId),
    };
    const attached = await heldRuns.attach(address, this.#heldId, options);
    this.#reattaching = null;
    endHold();
    if (attached.kind === "answered") return attached;
    // The run is given back if the replica has never begun it.
    if (attached.kind === "unknown" && !attached.hasForgotten) return { kind: "withdrawn" };
    return ending;
  }

  /** Decompresses the answer if needed: the app may compress although it was asked not to. */
  async #decompressed(ending: RunEnding): Promise<RunEnding> {
    const { decoder } = this.#parts;
    if (ending.kind !== "answered" || !decoder.isNeeded(ending) || refusesIdentity(this.work.lines))
      return ending;
    const readable = await decoder.readable(ending, this.work.projectId);
    await this.#answer.grow(readable.bodyBytes);
    return readable;
  }

  async #end(ending: RunEnding): Promise<void> {
    const { settlement, heldRuns, onLetGo } = this.#parts;
    const reported = this.#isOtherRelease && ending.kind === "withdrawn" ? noOwnReplica : ending;
    const replica = this.#replica;
    try {
      if (this.#isAbandoned) return;
      const isBroken = replica !== null && !this.#isCancelled && isBreak(reported);
      const finalEnding = isBroken ? await this.#afterBreak(reported, replica) : reported;
      if (this.#isAbandoned) return;
      if (replica !== null && this.#isAnswerKept && isTimeout(finalEnding))
        await heldRuns.cancel(replica.address, this.#heldId);
      const readable = await this.#decompressed(finalEnding);
      if (this.#isAbandoned) return;
      // An attempt counts only if its start was recorded.
      const attempt = replica === null ? this.work.attempt : this.work.attempt + 1;
      const isReclaimed = replica !== null && this.#parts.scheduler.isReclaimed(replica.replicaId);
      const facts = { attempt, isCancelled: this.#isCancelled, isReclaimed };
      const isWritten = await settlement.end(this.work, readable, facts);
      if (isWritten && replica !== null && this.#isAnswerKept)
        heldRuns.acknowledge(replica.address, this.#heldId);
    } finally {
      this.#answer.leave();
      onLetGo();
    }
  }
}

/**
 * The ending when the only release that may run the run has no free slot: the run is tried again
 * until a replica of that release has a free slot.
 */
const noOwnReplica: RunEnding = {
  kind: "failed",
  fault: new Fault("unavailable", "Its own release has no replica with a free slot yet."),
  wasSent: false,
};

/** True when the connection broke after the replica may have begun to work on the run. */
function isBreak(ending: RunEnding): boolean {
  return ending.kind === "failed" && ending.wasSent && ending.fault.code === "replica_failed";
}

/**
 * True when the call exceeded its time. The function of a held run must then be stopped, since it
 * goes on when its connection is closed.
 */
function isTimeout(ending: RunEnding): boolean {
  return ending.kind === "failed" && ending.fault.code === "call_timeout";
}
