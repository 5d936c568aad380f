// What replicas use now, for people and metrics: asked of the driver when somebody wants to know,
// and then kept for moments. Scaling measures by itself (`utilization.ts`).
import type { Driver, ReplicaUsage } from "#drivers/driver.ts";
import { CachedAnswer } from "#lib/cached-answer.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { coresOf } from "./utilization.ts";
import type { Foundation } from "#store/foundation.ts";

/**
 * `cpuCores`: the mean since the measurement before; null after the first one of the last minute.
 */
export type ReplicaUse = ReplicaUsage & { readonly cpuCores: number | null };

export type ReplicaUses = ReadonlyMap<ReplicaId, ReplicaUse>;

type Measured = { readonly atMs: number; readonly usage: ReadonlyMap<ReplicaId, ReplicaUsage> };

const nothing: Measured = { atMs: 0, usage: new Map() };
/** Also the shortest time over which the mean of cores is taken. */
const freshMs = 2_000;
const waitMs = 2_000;
/** The longest one. */
const meanMsMax = 60_000;

export type UseOfReplicasOptions = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Pick<Driver, "usage">;
};

/** One instance per platform. */
export class UseOfReplicas {
  readonly #options: UseOfReplicasOptions;
  readonly #answer: CachedAnswer<ReplicaUses>;
  #before = nothing;

  constructor(options: UseOfReplicasOptions) {
    this.#options = options;
    this.#answer = new CachedAnswer({
      freshMs,
      waitMs,
      clock: options.clock,
      look: () => this.#look(),
    });
  }

  /**
   * Returns the use of all replicas that could be measured; none when the driver does not answer in
   * time. Never rejects.
   */
  async get(): Promise<ReplicaUses> {
    return (await this.#answer.get()) ?? new Map();
  }

  async #look(): Promise<ReplicaUses> {
    const { driver, clock, log } = this.#options;
    try {
      const now = { usage: await driver.usage(), atMs: clock.monotonicMs() };
      const before = now.atMs - this.#before.atMs <= meanMsMax ? this.#before : nothing;
      this.#before = now;
      const seconds = (now.atMs - before.atMs) / 1000;
      return new Map(
        Array.from(now.usage, ([id, used]) => [
          id,
          { ...used, cpuCores: coresOf(used, before.usage.get(id), seconds) },
        ]),
      );
    } catch (error) {
      log.warn({ err: error }, "the use of replicas could not be measured");
      return new Map();
    }
  }
}
