// What is drawn of a seed before its world begins, so that a seed's number alone says all of it.
import { randomInt } from "node:crypto";
import { Seeded } from "./seeded.ts";

/** A seed with the size of its world. */
export type Drawn = {
  readonly seed: number;
  /** How many things happen in it: 60 to 600. */
  readonly events: number;
  /** The scheduler's world is at the limit of a project. */
  readonly isLimited: boolean;
};

const seedsMax = 2 ** 31;

/** Where a row of seeds begins that nobody has tried. */
export function unseenSeed(): number {
  return randomInt(1_000_000, seedsMax);
}

/** The same for the same seed. */
export function drawnOf(seed: number): Drawn {
  const seeded = new Seeded(seed + seedsMax);
  return { seed, events: seeded.integer(60, 600), isLimited: seeded.chance(0.5) };
}
