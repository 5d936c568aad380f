// Measures in rounds. What is compared takes turns in each round, so that other load on the machine
// affects all alike; the order of the turns alternates, so that what follows another one does too.

/**
 * Measures `rounds` times, after as many times that only warm up caches and let Node compile hot
 * code. Rounds count from 1; one that warms up has the number 0 or less.
 */
export async function inRounds<Measured>(
  rounds: number,
  measure: (round: number) => Promise<Measured>,
  { warmUps = 1 } = {},
): Promise<Measured[]> {
  const all: Measured[] = [];
  for (let round = 1 - warmUps; round <= rounds; round++) {
    const measured = await measure(round);
    if (round > 0) all.push(measured);
  }
  return all;
}

/** How often, and how each measurement is printed. */
export type Turns<Measured> = {
  readonly rounds: number;
  readonly warmUps?: number;
  readonly print: (line: string) => void;
  readonly show: (measured: Measured) => string;
};

/** Measures all cases in turn, round after round; returns the rounds of each. */
export async function alternate<Name extends string, Measured>(
  cases: Readonly<Record<Name, (round: number) => Promise<Measured>>>,
  { rounds, warmUps = 1, print, show }: Turns<Measured>,
): Promise<Record<Name, Measured[]>> {
  const measureAll = async (round: number): Promise<Record<Name, Measured>> => {
    const measured = {} as Record<Name, Measured>;
    const names = Object.keys(cases) as Name[];
    for (const name of round % 2 === 0 ? names.toReversed() : names) {
      measured[name] = await cases[name](round);
      print(`${roundText(round)}, ${name}: ${show(measured[name])}`);
    }
    return measured;
  };
  return byName<Name, Measured>(await inRounds(rounds, measureAll, { warmUps }));
}

/** Milliseconds that some work takes. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** `round 3`, or `warming up`. */
export function roundText(round: number): string {
  return round > 0 ? `round ${round}` : "warming up";
}

/** From what was measured in each round to the rounds of each name. */
export function byName<Name extends string, Measured>(
  rounds: readonly Readonly<Record<Name, Measured>>[],
): Record<Name, Measured[]> {
  const all = {} as Record<Name, Measured[]>;
  for (const round of rounds)
    for (const name of Object.keys(round) as Name[]) (all[name] ??= []).push(round[name]);
  return all;
}
