// What must hold of runs, whatever happens to the platforms that work on them: semantics that
// callers and apps rely on. Fed with every change that the database saw, in the order in which it
// was committed, and with what replicas and platforms did.
import { createHash } from "node:crypto";
import { runStates, type RunState } from "@slipway/contract/words.ts";
import type { RunId } from "#lib/ids.ts";
import { heldIdOf, type HeldId } from "#runs/held-id.ts";
import { isFinal, runMoves } from "#runs/run-states.ts";
import type { Gate } from "./gate.ts";
import { runOf, type ReplicaCall, type Replicas } from "./replicas.ts";
import type { Change, KeptResult, Look } from "./sim-database.ts";
import type { SimPlatform } from "./sim-platform.ts";

/** A promise was broken. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** What is known of a run. */
export type RunFacts = {
  state: RunState;
  retriesMax: number;
  /** The process that took it from a lost one, and still has it. */
  takenOverBy: string | null;
  isCancelAsked: boolean;
  /** The platform gave up the latest call, whatever its function does. */
  isAttemptOver: boolean;
  /** A process may have lost its lease while it worked, as the database's clock was set forward. */
  isLeaseCut: boolean;
  /** The number of its latest start. */
  starts: number;
  /** For whoever looks at a violation. */
  readonly story: string[];
};

export type LedgerOptions = {
  readonly gate: () => Gate;
  readonly replicas: Replicas;
  readonly keepsAnswers: (runId: RunId) => boolean;
  readonly resultOf: (runId: RunId) => Promise<KeptResult | undefined>;
  readonly nowMs: () => number;
};

/** One for a seed. */
export class Ledger {
  readonly runs = new Map<RunId, RunFacts>();
  /** How often a running run was taken over from a lost platform. */
  takenOver = 0;
  readonly #options: LedgerOptions;
  /** Who knows the answer of which call, and which faults and losses each process was told. */
  readonly #heard = new Map<string, Set<ReplicaCall>>();
  readonly #reported = new Set<string>();
  #violation: Violation | undefined;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  /** Stands for all that happened to all runs. */
  digest(): string {
    const stories = [...this.runs].map(([runId, { story }]) => [runId, ...story]);
    return createHash("sha256").update(JSON.stringify(stories)).digest("hex");
  }

  /** Throws what was found broken in the middle of things. */
  check(): void {
    if (this.#violation !== undefined) throw this.#violation;
  }

  heard(process: string, call: ReplicaCall): void {
    const calls = this.#heard.get(process) ?? new Set();
    this.#heard.set(process, calls.add(call));
  }

  /** The process learned how the latest call of the run has ended without an answer. */
  reported(process: string, runId: RunId, what: string): void {
    this.#attemptIsOver(runId);
    this.#reported.add(`${process} ${runId} ${what}`);
  }

  /** The process learned that the answer to a start cannot be had. */
  lost(process: string, heldId: HeldId): void {
    this.#attemptIsOver(runOf(heldId));
    this.#reported.add(`${process} ${heldId} lost`);
  }

  /** A caller was told that the run is accepted. */
  accepted(runId: RunId): void {
    this.expect(this.runs.has(runId), runId, "was accepted, and is not stored");
  }

  cancelAsked(runId: RunId): void {
    const run = this.runs.get(runId);
    if (run !== undefined) run.isCancelAsked = true;
  }

  /** A replica is told that it may forget what came of the call. */
  acknowledged(process: string, call: ReplicaCall): void {
    this.tell(call.runId, `${process} acknowledges call ${call.number}`);
    this.expect(
      call.isSettled,
      call.runId,
      "was acknowledged before it was written down what became of it",
    );
  }

  /** An app has begun to work on a run. */
  begun(call: ReplicaCall): void {
    const run = this.runs.get(call.runId);
    this.tell(
      call.runId,
      `${call.replica.ready.replicaId} begins call ${call.number} of ${call.sender}`,
    );
    if (run !== undefined) run.isAttemptOver = false;
    const isWritten = run?.state === "running" || run?.isLeaseCut === true;
    this.expect(
      isWritten,
      call.runId,
      `was begun by a replica while it was written down as ${run?.state}`,
    );
    const isThisStart =
      !call.replica.keepsAnswers || call.heldId === heldIdOf(call.runId, run?.starts ?? 0);
    this.expect(
      isThisStart || run?.isLeaseCut === true,
      call.runId,
      `was begun as ${call.heldId}, not as its latest start`,
    );
    const count = this.#options.replicas.callsOf(call.runId).length;
    const max = 1 + (run?.retriesMax ?? 0);
    this.expect(
      count <= max || run?.isLeaseCut === true,
      call.runId,
      `was begun ${count} times, at most ${max} allowed`,
    );
  }

  /** Something happened; told with a violation. */
  tell(runId: RunId, what: string): void {
    this.runs.get(runId)?.story.push(`${(this.#options.nowMs() / 1000).toFixed(3)} ${what}`);
  }

  /** After each statement. */
  async apply(look: Look): Promise<void> {
    for (const change of look.changes) await this.#apply(change);
    const counts = new Map<RunState, number>();
    for (const { state } of this.runs.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
    for (const state of runStates) {
      const known = counts.get(state) ?? 0;
      const found = look.counts[state] ?? 0;
      this.expect(
        known === found,
        null,
        `${found} runs are ${state}, but by what happened there are ${known}`,
      );
    }
    const [misdelivered] = look.misdelivered;
    this.expect(
      misdelivered === undefined,
      misdelivered ?? null,
      "does not have as many deliveries as it must have",
    );
    const [miskept] = look.miskept;
    this.expect(
      miskept === undefined,
      miskept ?? null,
      "has its request kept or deleted against the rules",
    );
  }

  /** Keeps the first violation, as it may be found in the middle of the product's code. */
  expect(holds: boolean, runId: RunId | null, what: string): void {
    if (holds || this.#violation !== undefined) return;
    const story = runId === null ? [] : (this.runs.get(runId)?.story ?? []);
    const at = `${(this.#options.nowMs() / 1000).toFixed(3)} s after the beginning`;
    this.#violation = new Violation(
      [`${runId ?? "In sum"}: ${what} (${at})`, ...story].join("\n  "),
    );
  }

  #attemptIsOver(runId: RunId): void {
    const run = this.runs.get(runId);
    if (run !== undefined) run.isAttemptOver = true;
  }

  async #apply(change: Change): Promise<void> {
    const { run_id: runId, old_state: before, new_state: state } = change;
    const owner = this.#ownerOf(change);
    const run = this.#factsOf(change);
    const move = `${before ?? "new"} -> ${state}, attempt ${change.attempt}, start ${change.starts}, epoch ${change.old_epoch} -> ${change.new_epoch}`;
    this.tell(
      runId,
      `${move}, by ${owner?.name}${change.reason === null ? "" : `: ${change.reason}`}`,
    );
    this.expect(
      run.state === (before ?? "pending"),
      runId,
      `was ${before}, but is known as ${run.state}`,
    );
    run.state = state;
    const { attempt, retries_max: retriesMax } = change;
    this.expect(
      attempt <= 1 + retriesMax,
      runId,
      `has attempt ${attempt}, at most ${1 + retriesMax} allowed`,
    );
    if (before === null) return;
    this.expect(!isFinal(before), runId, `was ${before}, and was changed after its end`);
    const isMove = before === state || runMoves[before].includes(state);
    this.expect(isMove, runId, `became ${state} from ${before}`);
    if (before === "queued" && state === "running") {
      const isNew = change.starts > run.starts;
      this.expect(
        isNew,
        runId,
        `has start ${change.starts} for the second time, or an earlier one`,
      );
      run.starts = change.starts;
    }
    if (before !== "pending") this.#checkHolder(change, owner);
    if (before === "running" && state === "running" && change.new_epoch !== change.old_epoch) {
      run.takenOverBy = owner?.name ?? null;
      this.takenOver++;
    }
    if (before === "running" && state !== "running") {
      for (const call of this.#options.replicas.callsOf(runId)) call.isSettled = true;
    }
    if (isFinal(state)) await this.#checkEnd(change, owner, run);
    if (state !== "running") run.takenOverBy = null;
  }

  #factsOf({ run_id: runId, retries_max: retriesMax, new_state: state }: Change): RunFacts {
    const known = this.runs.get(runId);
    if (known !== undefined) return known;
    const flags = {
      takenOverBy: null,
      isCancelAsked: false,
      isAttemptOver: false,
      isLeaseCut: false,
      starts: 0,
    };
    const run: RunFacts = { state: "pending", retriesMax, ...flags, story: [] };
    this.runs.set(runId, run);
    this.expect(state === "pending" || state === "queued", runId, `was accepted as ${state}`);
    return run;
  }

  #ownerOf({ backend }: Change): SimPlatform | undefined {
    return this.#options.gate().connectionOf(backend)?.owner as SimPlatform | undefined;
  }

  /**
   * Only the holder of the current epoch writes, or somebody who takes over when the lease has run
   * out.
   */
  #checkHolder(change: Change, owner: SimPlatform | undefined): void {
    const { run_id: runId, old_epoch: epoch, old_holder: holder } = change;
    const claimed = this.#options.gate().connectionOf(change.backend)?.claims.get(runId);
    if (claimed === undefined) {
      this.expect(
        change.was_expired === true,
        runId,
        `was taken from ${holder} before the lease had run out`,
      );
      return;
    }
    const isHolder = epoch !== null && claimed.has(epoch) && owner?.instanceId === holder;
    const named = [...claimed].join(" and ");
    this.expect(
      isHolder,
      runId,
      `was written by ${owner?.name} with epoch ${named}, but ${holder} holds ${epoch}`,
    );
  }

  async #checkEnd(change: Change, owner: SimPlatform | undefined, run: RunFacts): Promise<void> {
    const { run_id: runId, new_state: state, reason } = change;
    const process = owner?.name ?? "nobody";
    if (state === "cancelled") return this.#checkCancelled(change, process, run);
    const isAnswer = state === "success" || reason?.startsWith("The app answered") === true;
    if (isAnswer) return this.#checkAnswer(change, process, await this.#options.resultOf(runId));
    if (reason?.startsWith("interrupted: ") === true)
      return this.#checkInterrupted(change, process, run);
    const wasSent = this.#options.replicas.callsOf(runId).length > 0;
    this.expect(
      wasSent || state === "timeout",
      runId,
      `ended as ${state}, and no replica had begun it: ${reason}`,
    );
    const isReported = this.#reported.has(`${process} ${runId} ${reason}`);
    this.expect(
      isReported,
      runId,
      `ended as ${state} for a reason that ${process} was never told: ${reason}`,
    );
  }

  #checkCancelled(
    { run_id: runId, reason, old_state: before }: Change,
    process: string,
    run: RunFacts,
  ): void {
    this.expect(run.isCancelAsked, runId, "was cancelled, and nobody had asked for it");
    this.expect(
      reason?.startsWith("It was cancelled") === true,
      runId,
      `was cancelled, but the reason is: ${reason}`,
    );
    const calls = this.#options.replicas.callsOf(runId);
    const isUnsent = reason?.endsWith("sent to the app.") !== true || calls.length === 0;
    this.expect(isUnsent, runId, `was sent to the app, but the reason is: ${reason}`);
    // The function of an attempt that was given up ends with the acknowledgement, which is on its
    // way.
    if (before !== "running" || run.isAttemptOver) return;
    const isReached = (call: ReplicaCall): boolean =>
      call.replica.keepsAnswers || call.sender === process;
    const working = calls.find((call) => !call.isOver && isReached(call));
    const isEnded = working === undefined || working.isStubborn;
    this.expect(isEnded, runId, `was cancelled, and call ${working?.number} goes on working`);
  }

  #checkAnswer(change: Change, process: string, result: KeptResult | undefined): void {
    const { run_id: runId, status_code: status } = change;
    const body = result?.body?.toString() ?? "";
    const latest = this.#options.replicas.callsOf(runId).at(-1);
    if (body === "withdrawn")
      return this.expect(
        (latest?.answer ?? null) === null,
        runId,
        "has an answer, and another was kept",
      );
    const isTrue = latest?.answer?.body.toString() === body && latest.answer.status === status;
    this.expect(
      isTrue,
      runId,
      `ended with ${status} "${body}", which is not the answer of its latest call`,
    );
    const isHeard = latest !== undefined && this.#heard.get(process)?.has(latest) === true;
    this.expect(isHeard, runId, `was ended by ${process}, which never had the answer`);
  }

  #checkInterrupted(change: Change, process: string, run: RunFacts): void {
    const { run_id: runId, reason } = change;
    this.expect(
      run.takenOverBy === process,
      runId,
      `was interrupted by ${process}, which had not taken it over`,
    );
    if (!this.#options.keepsAnswers(runId)) return;
    // When a start was written down, it cannot be known whether the call has reached a replica that
    // is gone.
    const isGone = this.#options.replicas.byId(change.replica_id)?.isAlive !== true;
    const isLost =
      isGone || this.#reported.has(`${process} ${heldIdOf(runId, change.starts)} lost`);
    this.expect(isLost, runId, `was interrupted although its answer could be had: ${reason}`);
  }
}
