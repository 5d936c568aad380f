// Computes how usage sums change when slices are replaced: pure. `usage-sums-store.ts` writes the
// changes.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { dayOf } from "#billing/period.ts";
import type { Slice } from "./slices.ts";
import { poolOf, type Metered, type MeteredSource } from "./metered-source.ts";
import { stretchOf } from "./stretches.ts";

/** A change of one row of sums by day. Several may concern the same row; see `shapeOf`. */
export type DayChange = {
  /** Any source of the change: all of them have the same app, kind, resources and pool. */
  readonly source: MeteredSource;
  readonly day: string;
  ms: bigint;
  builds: number;
  micros: bigint;
};

/** The changes of sums. Days whose sums stay the same are left out. */
export type SumChanges = {
  readonly days: readonly DayChange[];
  /** The changes of stretches in micro-units, by the start of the stretch. */
  readonly stretches: ReadonlyMap<number, bigint>;
};

/**
 * Computes the changes when the new slices of each source replace its known ones, and each of
 * `builds` is counted on the day of its start. `borders` are in time order.
 */
export function changesOf(
  metered: readonly Metered[],
  builds: readonly MeteredSource[],
  borders: readonly number[],
): SumChanges {
  const days = new Map<string, DayChange>();
  const stretches = new Map<number, bigint>();
  const dayFor = (source: MeteredSource, atMs: number): DayChange => {
    const day = dayOf(atMs);
    const { compute, computeTier } = source.resources;
    const key = [
      day,
      source.appId,
      source.kind,
      compute,
      computeTier,
      poolOf(source.resources),
      shapeOf(source),
    ].join(" ");
    return getOrInsert(days, key, () => ({ source, day, ms: 0n, builds: 0, micros: 0n }));
  };
  const add = (source: MeteredSource, { beginsAtMs, ms, micros }: Slice, sign: 1n | -1n): void => {
    const change = dayFor(source, beginsAtMs);
    change.ms += sign * BigInt(ms);
    change.micros += sign * micros;
    const stretch = stretchOf(borders, beginsAtMs);
    stretches.set(stretch, (stretches.get(stretch) ?? 0n) + sign * micros);
  };
  for (const { source, slices } of metered) {
    for (const slice of source.known) add(source, slice, -1n);
    for (const slice of slices) add(source, slice, 1n);
  }
  for (const build of builds) dayFor(build, build.startMs).builds += 1;
  return {
    days: [...days.values()].filter(
      ({ ms, micros, builds: count }) => ms !== 0n || micros !== 0n || count !== 0,
    ),
    stretches,
  };
}

/**
 * The size of a source. Replicas of one app may differ in size between releases, so times are
 * summed up by size before they are multiplied by it.
 */
function shapeOf({ resources }: MeteredSource): string {
  return `${resources.gpuCount} ${resources.coreThousandths} ${resources.gbThousandths}`;
}
