// Throughput of accepting and of executing single runs. In each round every contender accepts runs
// over HTTP while nothing is executed yet, and then works off the backlog.
import { runLoad, type Load } from "#bench/load.ts";
import type { Closed } from "./closed-loop.ts";
import type { Contender } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Drained } from "./queue-peer.ts";
import type { Server } from "./stage.ts";

/** Duration and number of rounds. */
export type AsyncBenchOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
};

/** CPU time per run or job, in microseconds: of the contender's process, and of PostgreSQL. */
export type Cpu = { readonly ownUs: number; readonly databaseUs: number };

/** One round of accepting. */
export type Accepted = (Load | Closed) & Cpu;

/** One round of working off. */
export type Finished = Drained & Cpu & { readonly perSecond: number };

/** Rounds by contender and mode. */
export type Rounds<Round> = ReadonlyMap<string, readonly Round[]>;

/** The results of the rounds. */
export type AcceptAndFinish = {
  readonly accepted: Rounds<Accepted>;
  readonly finished: Rounds<Finished>;
};

/** The parameters of a scenario. */
export type Scene = {
  readonly server: Server;
  readonly folder: string;
  readonly options: AsyncBenchOptions;
  readonly print: (line: string) => void;
};

/** Long enough for the load generator to finish before anything is executed. */
const marginMs = 1_500;
/** The number of jobs to execute when none were accepted before. */
const fillCount = 5_000;
const fillMs = 12_000;
const warmSeconds = 2;
const settleMs = 300;

/**
 * The contender, and whether accepting is measured; `calmly`: also with half the callers, which
 * queue less for each other.
 */
export type Part = {
  readonly contender: Contender;
  readonly accepts: boolean;
  readonly calmly?: boolean;
};

/** Runs all rounds. Rejects when a call was not accepted or a run failed. */
export async function acceptAndFinish(
  parts: readonly Part[],
  scene: Scene,
): Promise<AcceptAndFinish> {
  const { rounds, seconds } = scene.options;
  const accepted = new Gathered<Accepted>(scene.print);
  const finished = new Gathered<Finished>(scene.print);
  for (let round = 0; round <= rounds; round++) {
    // The first round warms up: node compiles hot code, and the tables get rows.
    const inRound = {
      ...scene,
      options: { ...scene.options, seconds: round === 0 ? warmSeconds : seconds },
    };
    for (const part of parts) {
      const one = await onePart(part, inRound);
      if (round === 0) continue;
      for (const [name, measured] of one.accepted)
        accepted.add(name, measured, `${rate(measured.callsPerSecond)} accepted/s`);
      for (const [name, measured] of one.finished)
        finished.add(name, measured, `${rate(measured.perSecond)} finished/s`);
    }
  }
  return { accepted: accepted.rounds, finished: finished.rounds };
}

type OneRound = {
  readonly accepted: [string, Accepted][];
  readonly finished: [string, Finished][];
};

async function onePart(
  { contender, accepts, calmly = false }: Part,
  scene: Scene,
): Promise<OneRound> {
  const { name, modes, bare } = contender;
  const [first = "", ...others] = modes;
  const accepted: [string, Accepted][] = [];
  const finished: [string, Finished][] = [];
  const drain = async (mode: string): Promise<void> => {
    finished.push([`${name}: ${mode}`, await measureDrain(contender, mode, scene)]);
  };
  if (accepts) accepted.push([name, await measureAccept(contender, scene)]);
  else await contender.fill(fillCount, monotonicMs() + fillMs);
  await drain(first);
  for (const mode of others) {
    await contender.fill(fillCount, 0);
    await drain(mode);
  }
  if (calmly) {
    const connections = Math.ceil(scene.options.connections / 2);
    const calm = { ...scene, options: { ...scene.options, connections } };
    accepted.push([`${name}, ${connections} callers`, await measureAccept(contender, calm)]);
    await contender.drain(first);
  }
  if (bare !== null) {
    const measured = await withCpu(
      contender,
      scene.server,
      () => bare(scene.options),
      ({ calls }) => calls,
    );
    accepted.push([`${name}, without HTTP`, measured]);
    await contender.drain(modes.at(-1) ?? "");
  }
  return { accepted, finished };
}

/** Accepts for some seconds while nothing is executed. */
export async function measureAccept(
  contender: Contender,
  { server, folder, options, print }: Scene,
): Promise<Accepted> {
  const openAtMs = monotonicMs() + options.seconds * 1000 + marginMs;
  const asked = contender.asked(openAtMs);
  const load = (): Promise<Load> => runLoad(asked, { ...options, core: null, folder });
  const measured = await withCpu(contender, server, load, ({ calls }) => calls);
  if (measured.failures > 0)
    print(`  ${measured.failures} of ${measured.calls} calls of ${contender.name} failed`);
  return measured;
}

async function measureDrain(
  contender: Contender,
  mode: string,
  { server }: Scene,
): Promise<Finished> {
  const drained = await withCpu(
    contender,
    server,
    () => contender.drain(mode),
    ({ jobs }) => jobs,
  );
  return { ...drained, perSecond: drained.jobs / drained.seconds };
}

async function withCpu<Measured>(
  contender: Contender,
  server: Server,
  act: () => Promise<Measured>,
  count: (measured: Measured) => number,
): Promise<Measured & Cpu> {
  const before = { own: contender.cpuSeconds(), database: server.cpuSeconds() };
  const measured = await act();
  // Otherwise PostgreSQL processes that are just exiting would be missed.
  await new Promise((resolve) => setTimeout(resolve, settleMs));
  const usOf = (seconds: number): number => (seconds * 1e6) / count(measured);
  const ownUs = usOf(contender.cpuSeconds() - before.own);
  return { ...measured, ownUs, databaseUs: usOf(server.cpuSeconds() - before.database) };
}

/** Rounds by name, printed as they arrive. */
export class Gathered<Round> {
  readonly #rounds = new Map<string, Round[]>();
  readonly #print: (line: string) => void;

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  get rounds(): Rounds<Round> {
    return this.#rounds;
  }

  /** Stores one round and prints it as `line`. */
  add(name: string, round: Round, line: string): void {
    const list = this.#rounds.get(name) ?? [];
    list.push(round);
    this.#rounds.set(name, list);
    this.#print(`${name}, round ${list.length}: ${line}`);
  }
}

function rate(perSecond: number): string {
  return String(Math.round(perSecond));
}
