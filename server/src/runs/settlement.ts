// Writes the outcomes of runs, many in one transaction: starts, ends with their results and webhook
// deliveries, and runs given back. What became of an attempt is written again and again while the
// database is unavailable, since the app's answer then exists only in this process.
import type { FinalState } from "@slipway/contract/words.ts";
import { Batcher } from "#lib/batcher.ts";
import type { AppId } from "#lib/ids.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import { Tally } from "#lib/tally.ts";
import type { RunEnding } from "#proxy/run-call.ts";
import type { Foundation } from "#store/foundation.ts";
import type { NewDelivery } from "#webhooks/delivery.ts";
import type { Outbox } from "#webhooks/outbox.ts";
import {
  outcomeOf,
  type Answer,
  type Interrupted,
  type JudgedRun,
  type Outcome,
} from "./outcome.ts";
import type { OnRunStep } from "./run-steps.ts";
import type { RunEnd, RunReturn, RunStart, RunStore, RunWork } from "./run-store.ts";

export type SettlementOptions = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly store: RunStore;
  readonly outbox: Pick<Outbox, "add" | "committed">;
  readonly onStep: OnRunStep;
};

type Ending = { readonly end: RunEnd; readonly delivery: NewDelivery | null };

/** How many writes of each kind may wait, far more than a platform has runs at once. */
const waitingMax = 100_000;
/** How many runs one transaction writes at most. */
const batchMax = 500;
/** How many bytes the results of the runs in one transaction may have together. */
const batchBytesMax = 64 * 1_048_576;
const backoff = { firstMs: 50, factor: 2, msMax: 5_000, jitter: 0.2 };
const writeRetry: RetryPolicy = { ...backoff, triesMax: untilStop, hasTryAtStop: true };

/**
 * The context for sealing a caller's X-Webhook-Secret. It names the app and not the run, because a
 * redriven run has another id.
 */
export function callSecretContext(appId: AppId): string {
  return `run-webhook-secret:${appId}`;
}

/** Writes outcomes; one per platform. */
export class RunSettlement {
  /** How many runs this process has ended, by state. */
  readonly ended = new Tally<FinalState>("success", "failure", "cancelled", "timeout");
  readonly #options: SettlementOptions;
  readonly #starts: Batcher<RunStart, boolean>;
  readonly #ends: Batcher<Ending, boolean>;
  readonly #returns: Batcher<RunReturn, boolean>;
  readonly #stopping = new AbortController();
  /** The signal that `stop` aborts. */
  readonly stopping = this.#stopping.signal;

  constructor(options: SettlementOptions) {
    this.#options = options;
    const { store, clock, onStep } = options;
    const limits = { batchMax, queueMax: waitingMax, clock };
    this.#starts = new Batcher({
      ...limits,
      write: async (starts) => {
        const answers = await store.start(starts);
        onStep("run started");
        return answers;
      },
    });
    this.#ends = new Batcher({
      ...limits,
      weigh: ({ end }) => end.result?.body?.length ?? 0,
      batchWeightMax: batchBytesMax,
      write: (endings) => this.#finish(endings),
    });
    this.#returns = new Batcher({
      ...limits,
      write: async (returns) => {
        const answers = await store.giveBack(returns);
        onStep("run given back");
        return answers;
      },
    });
  }

  /**
   * Records that the run is about to be sent; false: it must not be sent. Rejects when the database
   * is unavailable.
   */
  start(start: RunStart): Promise<boolean> {
    return this.#starts.add(start);
  }

  /**
   * Writes the consequences of the ending. False when this platform has lost the run, or stops
   * before a write has succeeded.
   */
  async end(
    work: RunWork,
    ending: RunEnding | Interrupted,
    facts: Pick<JudgedRun, "attempt" | "isCancelled" | "isReclaimed">,
  ): Promise<boolean> {
    const { retriesMax, waitsSinceMs } = work;
    const { clock, log } = this.#options;
    const at = { nowMs: clock.now(), random: clock.random() };
    const outcome = outcomeOf(ending, { ...facts, retriesMax, waitsSinceMs }, at);
    const onFailure = (error: unknown, attempt: number): void =>
      log.warn(
        { err: error, runId: work.runId, attempt },
        "what became of a run could not be written",
      );
    const options = { ...writeRetry, clock, signal: this.stopping, onFailure };
    const isWritten = await retry(options, () => this.#write(work, outcome, facts.attempt));
    // Without a successful write, `retry` gives undefined.
    return isWritten ?? false;
  }

  /** Gives up writes that the database does not accept; resolves when none is in progress. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the platform stops"));
    await Promise.all([this.#starts.stop(), this.#ends.stop(), this.#returns.stop()]);
  }

  #write(work: RunWork, outcome: Outcome, attempt: number): Promise<boolean> {
    const { runId, epoch } = work;
    if (outcome.kind === "again") {
      const { delayMs, statusCode, reason, isCounted } = outcome;
      // The number before this attempt stays if the attempt does not count.
      const countedAttempt = isCounted ? attempt : work.attempt;
      return this.#returns.add({
        runId,
        epoch,
        delayMs,
        statusCode,
        reason,
        attempt: countedAttempt,
      });
    }
    const { state, statusCode, reason, result, forwarded } = outcome;
    const delivery = forwarded === null ? null : this.#deliveryOf(work, forwarded);
    return this.#ends.add({ end: { runId, epoch, state, statusCode, reason, result }, delivery });
  }

  async #finish(endings: readonly Ending[]): Promise<readonly boolean[]> {
    const { db, store, outbox, onStep } = this.#options;
    const ends = endings.map(({ end }) => end);
    const { answers, added } = await db.transaction().execute(async (tx) => {
      const isWritten = await store.finish(ends, tx);
      const deliveries = endings
        .filter((_ending, index) => isWritten[index])
        .map(({ delivery }) => delivery)
        .filter((delivery) => delivery !== null);
      if (deliveries.length === 0) return { answers: isWritten, added: [] };
      return { answers: isWritten, added: await outbox.add(tx, deliveries) };
    });
    for (const [index, { state }] of ends.entries()) {
      if (answers[index]) this.ended.count(state);
    }
    onStep("run ended");
    if (added.length > 0) outbox.committed(added);
    return answers;
  }

  #deliveryOf(
    work: RunWork,
    { status, contentType, contentFields = null, body, bodyBytes }: Answer,
  ): NewDelivery | null {
    const { runId, projectId, appId, webhookEndpoint, webhookSecretSealed } = work;
    if (webhookEndpoint === null) return null;
    const secret =
      webhookSecretSealed === null
        ? null
        : this.#options.sealer.open(webhookSecretSealed, callSecretContext(appId));
    const answer = { statusCode: status, contentType, contentFields, body, bodyBytes };
    return { projectId, appId, runId, url: webhookEndpoint, secret, ...answer };
  }
}
