// Shortens tests with many cases. By default each run draws some of them by a seed, so that many
// runs together cover all. SLIPWAY_TEST_COMPLETE=1 runs all, and so does a run of single files, or
// of a file that differs from the main branch: the runner sets SLIPWAY_TEST_CASES to "all" or to
// the paths of files. Each run prints what it left out and how to repeat the draw.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { unseenSeed } from "./drawn-seed.ts";
import { Seeded } from "./seeded.ts";

/** Run everything, however long it takes. The full fault tests take longer still. */
const isComplete =
  process.env["SLIPWAY_TEST_COMPLETE"] === "1" ||
  isNamed(process.env["SLIPWAY_TEST_CASES"] ?? "") ||
  process.env["SLIPWAY_TEST_FAULTS"] === "full";

/** The seed for the cases of this file. */
const seed = Number(process.env["SLIPWAY_TEST_SEED"] ?? unseenSeed());

/**
 * `max` of all cases, in their order, or all of them in the complete form. `what` names them in the
 * printed line. The draw contains at least one case of each kind, even if that exceeds `max`.
 */
export function drawCases<T>(
  all: readonly T[],
  given: { readonly what: string; readonly max: number; readonly kindOf?: (one: T) => string },
): readonly T[] {
  const { what, max, kindOf = () => "" } = given;
  if (isComplete || max >= all.length) return all;
  const drawn = drawSome(all, { seed, max, kindOf });
  say(`${drawn.length} of ${all.length} ${what}`);
  return drawn;
}

/**
 * `test` of node, for a file whose short run executes a drawn `max` of its `count` tests. The file
 * fails if it calls the result any other number of times.
 */
export function drawTests(given: {
  readonly what: string;
  readonly count: number;
  readonly max: number;
}): typeof test {
  const { what, count, max } = given;
  const taken = new Set(drawCases([...Array(count).keys()], { what, max }));
  let calls = 0;
  after(() => assert.equal(calls, count, `there are ${calls} ${what}: say so to drawTests`));
  const drawn = (...parameters: Parameters<typeof test>): Promise<void> => {
    return taken.has(calls++) ? test(...parameters) : Promise.resolve();
  };
  return Object.assign(drawn, test);
}

/** The number of events: `complete` in the complete form, else `short`. */
export function countOf(given: {
  readonly what: string;
  readonly complete: number;
  readonly short: number;
}): number {
  const { what, complete, short } = given;
  if (isComplete) return complete;
  say(`${short} of ${complete} ${what}`);
  return short;
}

/** Like `drawCases`, with an explicit seed. */
export function drawSome<T>(
  all: readonly T[],
  given: { readonly seed: number; readonly max: number; readonly kindOf: (one: T) => string },
): readonly T[] {
  const seeded = new Seeded(given.seed);
  const shuffled = all
    .map((_, index) => ({ index, place: seeded.next() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ index }) => index);
  const kinds = all.map((one) => given.kindOf(one));
  const first = shuffled.filter(
    (index, place) => shuffled.findIndex((other) => kinds[other] === kinds[index]) === place,
  );
  const rest = shuffled.filter((index) => !first.includes(index));
  const taken = new Set([...first, ...rest].slice(0, Math.max(given.max, first.length)));
  return all.filter((_, index) => taken.has(index));
}

function isNamed(files: string): boolean {
  const own = (process.argv[1] ?? "").replaceAll("\\", "/");
  return (
    files === "all" || files.split(",").some((path) => path !== "" && own.endsWith(`/${path}`))
  );
}

function say(what: string): void {
  process.stdout.write(
    `ℹ short form: ${what}; all with SLIPWAY_TEST_COMPLETE=1, the same with SLIPWAY_TEST_SEED=${seed}\n`,
  );
}
