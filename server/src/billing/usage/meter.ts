// Metering: turns the run time of replicas and builds, and the size of storage, into usage slices,
// sums and ledger entries. All inputs are durable rows. One transaction per step of a project
// writes results and progress, under the lock of the project's billing account: a crash at any time
// neither loses nor doubles anything.
import { readApplied } from "#billing/coupons/applied-store.ts";
import { openAccount } from "#billing/coupons/coupon-store.ts";
import { postUsage } from "#billing/posting.ts";
import { closeStatements } from "#billing/statements/statement-queries.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import type { MeterStep } from "./meter-step.ts";
import * as store from "./meter-store.ts";
import type { Metered, MeteredSource } from "./metered-source.ts";
import { rateAt, storageRateAt, type Prices } from "./prices.ts";
import { slicesUpTo } from "./slices.ts";
import { bordersOf, cutsOf } from "./stretches.ts";
import { addToDays, addToStretches, cutStretch, readStretches } from "./usage-sums-store.ts";
import { changesOf } from "./usage-sums.ts";

export type MeterOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly prices: Prices;
  readonly intervalMs: number;
  /** The maximum delay until usage is posted to the ledger. */
  readonly postingDelayMs: number;
  /** Called after usage of a project was counted. Must return at once and not throw. */
  readonly onPosted: (projectId: ProjectId) => void;
  /** For tests, which kill the process after a step. */
  readonly onStep: (step: MeterStep) => void;
};

/** The maximum number of sources of each kind per step. */
const sourcesMax = 200;
/**
 * How many slices of one source a step makes, enough for about four days. A longer backlog takes
 * more steps.
 */
const slicesMax = 100;
/** How many steps of a project a turn takes; the next turn continues. */
const stepsMax = 1_000;

/**
 * Meters all projects periodically, between `loop.start()` and `loop.stop()`, which waits for the
 * project in progress.
 */
export class Meter {
  readonly #options: MeterOptions;
  readonly loop: Loop;

  constructor(options: MeterOptions) {
    const { clock, log, intervalMs } = options;
    this.#options = options;
    this.loop = new Loop({
      name: "metering",
      intervalMs,
      clock,
      log,
      turn: (signal) => this.turn(signal),
    });
  }

  /** Meters everything that is due. An error of one project does not block the others. */
  async turn(signal?: AbortSignal): Promise<void> {
    const { clock, db, log } = this.#options;
    for (const projectId of await store.readProjectsToMeter(db)) {
      if (signal?.aborted) return;
      try {
        await this.#meterProject(projectId, signal);
      } catch (error) {
        log.error(
          { err: error, projectId },
          "a project could not be metered; the next turn tries again",
        );
      }
    }
    // A closed statement never changes, so a clock that may be far off closes none.
    if (clock.isSettled()) await closeStatements(this.#options, signal);
  }

  async #meterProject(projectId: ProjectId, signal?: AbortSignal): Promise<void> {
    const { db, onPosted, onStep } = this.#options;
    let isChanged = false;
    for (let step = 0; step < stepsMax && !signal?.aborted; step++) {
      const result = await db
        .transaction()
        .execute((tx) => meterStep(tx, projectId, this.#options));
      if (result === "busy") break;
      onStep("usage counted");
      isChanged ||= result.isChanged;
      if (!result.isMore) break;
    }
    if (isChanged) onPosted(projectId);
  }
}

type StepOptions = Pick<MeterOptions, "clock" | "prices" | "postingDelayMs" | "onStep">;

/**
 * One step of one project; "busy" when another process meters the project. `isMore`: the step has
 * not metered everything.
 */
async function meterStep(
  tx: Tx,
  projectId: ProjectId,
  { clock, prices, postingDelayMs, onStep }: StepOptions,
): Promise<"busy" | { readonly isChanged: boolean; readonly isMore: boolean }> {
  const currency = await openAccount(tx, projectId);
  const account = await store.lockAccount(tx, projectId);
  if (account === null) return "busy";
  const applied = await readApplied(tx, projectId);
  const borders = bordersOf(applied);
  const hasCut = await cutStretches(tx, projectId, borders);

  const sources = await store.readSources(tx, projectId, sourcesMax);
  const metered = sources.map((source) => meterSource(source, borders, prices));
  // A build is counted once, however many steps it takes.
  const builds = metered
    .filter(({ source, isDone }) => source.kind === "build" && isDone)
    .map(({ source }) => source);
  const changes = changesOf(metered, builds, borders);
  await store.writeSlices(tx, metered);
  onStep("slices written");
  await addToDays(tx, projectId, changes.days);
  await addToStretches(tx, projectId, changes.stretches);
  await store.writeProgress(tx, metered);
  onStep("progress written");
  const isChanged = changes.days.length > 0;
  if (account.isPostingDue || (isChanged && postingDelayMs === 0)) {
    await postUsage(tx, {
      projectId,
      currency,
      applied,
      postings: account.postings,
      nowMs: clock.now(),
    });
    onStep("usage posted");
  } else if (isChanged || hasCut) {
    // A cut stretch can change discounts even without new usage.
    await store.wantPosting(tx, projectId, postingDelayMs);
  }
  // With a full list, some sources may have been left out.
  const isMore =
    sources.length >= sourcesMax || metered.some(({ source, untilMs }) => untilMs < source.endMs);
  return { isChanged, isMore };
}

/**
 * Cuts stretches at the borders of coupons applied since the last step; false when no stretch was
 * cut.
 */
async function cutStretches(
  tx: Tx,
  projectId: ProjectId,
  borders: readonly number[],
): Promise<boolean> {
  if (borders.length === 0) return false;
  const known = new Set((await readStretches(tx, projectId)).map(({ atMs }) => atMs));
  const cuts = cutsOf(borders, known);
  for (const cut of cuts) await cutStretch(tx, projectId, cut);
  return cuts.length > 0;
}

function meterSource(source: MeteredSource, borders: readonly number[], prices: Prices): Metered {
  const { kind, resources, startMs, endMs, known, isEnded } = source;
  const rate = (atMs: number): bigint =>
    kind === "storage"
      ? storageRateAt(prices, resources.gbThousandths, atMs)
      : rateAt(prices, resources, atMs);
  const slices = slicesUpTo({ startMs, endMs, borders, known, slicesMax, rateAt: rate });
  const last = slices.at(-1);
  // Without a slice there is no time left to meter.
  const reachedMs = last === undefined ? endMs : last.beginsAtMs + last.ms;
  return { source, slices, untilMs: reachedMs, isDone: isEnded && reachedMs >= endMs };
}
