// Measures what all replicas use, for scaling, charts, metrics and the API. Asks the driver only
// when a reader asks for it, and at most every two seconds.
import type { Driver, ReplicaUsage } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";

export type ReplicaUse = ReplicaUsage & {
  /**
   * The mean since the reader's previous answer; null when that answer lacks the replica or is
   * older than the reader's `meanMsMax`.
   */
  readonly cpuCores: number | null;
};

export type MeasuredUses = {
  /** When they were measured, by `Clock.monotonicMs`. */
  readonly atMs: number;
  /** The use of all replicas that could be measured. */
  readonly uses: ReadonlyMap<ReplicaId, ReplicaUse>;
};

type Sample = { readonly atMs: number; readonly usage: ReadonlyMap<ReplicaId, ReplicaUsage> };

/** How long readers share a sample. A mean of cores therefore covers at least this time. */
const freshMs = 2_000;

export type UsageSamplerParts = {
  readonly driver: Pick<Driver, "usage">;
  readonly clock: Clock;
};

/** Takes samples, which all readers share. */
export class UsageSampler {
  readonly #parts: UsageSamplerParts;
  #latest: Sample | undefined;
  /** The measurement in progress. Everybody who reads while it goes on waits for it. */
  #measuring: Promise<Sample> | undefined;

  constructor(parts: UsageSamplerParts) {
    this.#parts = parts;
  }

  /**
   * A reader, whose means cover the time since its own previous answer. When the previous answer is
   * older than `meanMsMax`, there is no mean.
   */
  reader(meanMsMax = Infinity): UsageReader {
    return new UsageReader(() => this.#sample(), meanMsMax);
  }

  async #sample(): Promise<Sample> {
    const latest = this.#latest;
    if (latest !== undefined && this.#parts.clock.monotonicMs() - latest.atMs < freshMs)
      return latest;
    this.#measuring ??= this.#measure();
    return await this.#measuring;
  }

  async #measure(): Promise<Sample> {
    const { driver, clock } = this.#parts;
    try {
      const usage = await driver.usage();
      this.#latest = { usage, atMs: clock.monotonicMs() };
      return this.#latest;
    } finally {
      this.#measuring = undefined;
    }
  }
}

/** Reads the use of replicas for one purpose. */
export class UsageReader {
  readonly #sample: () => Promise<Sample>;
  readonly #meanMsMax: number;
  /** The previous answer, and the sample from which it was made. */
  #last: { readonly sample: Sample; readonly answer: MeasuredUses } | undefined;

  constructor(sample: () => Promise<Sample>, meanMsMax: number) {
    this.#sample = sample;
    this.#meanMsMax = meanMsMax;
  }

  /**
   * The use of all replicas that could be measured, at most two seconds ago. Rejects when the
   * driver does not answer.
   */
  async read(): Promise<MeasuredUses> {
    const sample = await this.#sample();
    const last = this.#last;
    if (last?.sample === sample) return last.answer;
    // Without a previous answer, the time since then is infinite.
    const sinceMs = sample.atMs - (last?.sample.atMs ?? -Infinity);
    const before = sinceMs <= this.#meanMsMax ? last?.sample.usage : undefined;
    const uses = new Map<ReplicaId, ReplicaUse>();
    for (const [replicaId, used] of sample.usage) {
      const cpuCores = coresOf(used, before?.get(replicaId), sinceMs / 1000);
      uses.set(replicaId, { ...used, cpuCores });
    }
    const answer: MeasuredUses = { atMs: sample.atMs, uses };
    this.#last = { sample, answer };
    return answer;
  }
}

/** The cores that a replica used between two measurements; null without the earlier measurement. */
function coresOf(
  now: ReplicaUsage,
  before: ReplicaUsage | undefined,
  seconds: number,
): number | null {
  if (before === undefined) return null;
  // The processor time may be lower than before, since it may leave out processes that have exited.
  return Math.max(0, now.cpuSeconds - before.cpuSeconds) / seconds;
}
