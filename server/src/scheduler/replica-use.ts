// Measures what replicas use now, for people and metrics, whenever somebody asks.
import type { ReplicaId } from "#lib/ids.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { Foundation } from "#store/foundation.ts";
import type { ReplicaUse, UsageReader, UsageSampler } from "./usage-sampler.ts";

/** The use of each replica that could be measured. */
export type ReplicaUses = ReadonlyMap<ReplicaId, ReplicaUse>;

/**
 * How long the driver may take to answer. The time is short because somebody waits for the result.
 */
const waitMs = 2_000;
/** The longest time over which the mean number of used cores is taken. */
const meanMsMax = 60_000;

export type UseOfReplicasOptions = Pick<Foundation, "clock" | "log"> & {
  readonly sampler: UsageSampler;
};

/** Measures the use of replicas; one instance per platform. */
export class UseOfReplicas {
  readonly #options: UseOfReplicasOptions;
  readonly #reader: UsageReader;

  constructor(options: UseOfReplicasOptions) {
    this.#options = options;
    this.#reader = options.sampler.reader(meanMsMax);
  }

  /**
   * Returns the use of all replicas that could be measured; none when the driver does not answer in
   * time. Never rejects.
   */
  async get(): Promise<ReplicaUses> {
    const { clock, log } = this.#options;
    const reading = this.#reader.read().then(
      ({ uses }) => uses,
      (error: unknown) => {
        log.warn({ err: error }, "the use of replicas could not be measured");
        return null;
      },
    );
    // At the deadline, `withDeadline` rejects.
    const result = await withDeadline(clock, waitMs, reading).catch(() => null);
    return result ?? new Map();
  }
}
