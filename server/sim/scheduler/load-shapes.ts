// The loads that scaling is compared under: an hour of calls each, drawn from a seed, so that every
// contender gets the same.
import { Seeded } from "#test/support/seeded.ts";

/** One call of a load. */
export type LoadCall = { readonly atMs: number; readonly durationMs: number };

/** A load by its name: calls per second at each second, from 0 to `hourSeconds`. */
export type LoadShape = {
  readonly name: string;
  readonly about: string;
  readonly callsPerSecond: (second: number) => number;
};

/** How long each load lasts. */
export const hourSeconds = 3600;
/**
 * Mean time that a call takes, drawn from an exponential distribution of at most ten times that.
 */
const meanMs = 1000;
const durationMsMax = 10 * meanMs;
/** The rate from which calls are drawn by thinning: no load is above it. */
const rateMax = 200;

/** Between two seconds: from one rate to the other. */
function line(
  second: number,
  [fromSecond, from]: readonly number[],
  [toSecond, to]: readonly number[],
): number {
  const share = (second - (fromSecond ?? 0)) / ((toSecond ?? 1) - (fromSecond ?? 0));
  return (from ?? 0) + share * ((to ?? 0) - (from ?? 0));
}

/**
 * Pseudo-random levels of the noisy load: each holds for 20 s and is between 10 and 70, now and
 * then three times that.
 */
const levels = ((): readonly number[] => {
  const seeded = new Seeded(7);
  return Array.from(
    { length: hourSeconds / 20 + 1 },
    () => seeded.integer(10, 70) * (seeded.chance(0.05) ? 3 : 1),
  );
})();

/** All loads. */
export const loadShapes: readonly LoadShape[] = [
  {
    name: "step",
    about: "none, 50 calls/s from minute 5 on, none from minute 55 on",
    callsPerSecond: (second) => (second >= 300 && second < 3300 ? 50 : 0),
  },
  {
    name: "ramp",
    about: "from 0 to 100 calls/s in 25 minutes, 10 minutes of it, and back to 0",
    callsPerSecond(second) {
      if (second < 1500) return line(second, [0, 0], [1500, 100]);
      return second < 2100 ? 100 : line(second, [2100, 100], [3600, 0]);
    },
  },
  {
    name: "spike",
    about: "10 calls/s, and 150 calls/s for a minute every 15 minutes",
    callsPerSecond: (second) => (second % 900 >= 600 && second % 900 < 660 ? 150 : 10),
  },
  {
    name: "diurnal",
    about: "a day in an hour: between 4 and 80 calls/s, as a sine",
    callsPerSecond: (second) => 42 - 38 * Math.cos((2 * Math.PI * second) / hourSeconds),
  },
  {
    name: "noisy",
    about: "another level every 20 s, between 10 and 70 calls/s, one in twenty three times that",
    callsPerSecond: (second) => Math.min(rateMax, levels[Math.floor(second / 20)] ?? 0),
  },
];

/** Draws the calls of a load: random arrivals at its rate, sorted by their times. */
export function callsOf({ callsPerSecond }: LoadShape, seed: number): readonly LoadCall[] {
  const seeded = new Seeded(seed);
  const calls: LoadCall[] = [];
  const gapMs = (): number => -Math.log(1 - seeded.next()) * (1000 / rateMax);
  for (let atMs = gapMs(); atMs < hourSeconds * 1000; atMs += gapMs()) {
    if (seeded.next() * rateMax >= callsPerSecond(atMs / 1000)) continue;
    calls.push({
      atMs,
      durationMs: Math.min(durationMsMax, -Math.log(1 - seeded.next()) * meanMs),
    });
  }
  return calls;
}
