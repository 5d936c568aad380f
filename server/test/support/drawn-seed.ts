// Values that are drawn from a seed before its simulation starts, so that the seed alone determines
// everything.
import { randomInt } from "node:crypto";
import { Seeded } from "./seeded.ts";

/** A seed with the size of its simulation. */
export type Drawn = {
  readonly seed: number;
  /**
   * The number of events: 60 to 600, by a logarithmic draw: most bugs need few, and more seeds are
   * tried in the same time.
   */
  readonly events: number;
  /** The scheduler's simulation is at a project's limit. */
  readonly isLimited: boolean;
  /** In it, people stop and start apps. */
  readonly isStopping: boolean;
};

const seedsMax = 2 ** 31;

/** The start of a range of seeds that nobody has tried. */
export function unseenSeed(): number {
  return randomInt(1_000_000, seedsMax);
}

const eventsMin = 60;
const eventsMax = 600;

/** Deterministic: the same seed gives the same result. */
export function drawnOf(seed: number): Drawn {
  const seeded = new Seeded(seed + seedsMax);
  const events = Math.round(eventsMin * (eventsMax / eventsMin) ** seeded.next());
  return { seed, events, isLimited: seeded.chance(0.5), isStopping: seeded.chance(0.5) };
}

/** How the command that repeats a seed of the scheduler names its kind. */
export function kindOf({ isLimited, isStopping }: Pick<Drawn, "isLimited" | "isStopping">): string {
  return `${isLimited ? " limited" : ""}${isStopping ? " stopping" : ""}`;
}
