// How many single runs are accepted durably in a second, and how many are worked off: in each round everybody is asked over
// HTTP while nothing is worked off yet, and then works off what has gathered.
import { runLoad, type Load } from "#bench/load.ts";
import type { Closed } from "./closed-loop.ts";
import type { Contender } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Drained } from "./queue-peer.ts";
import type { Server } from "./stage.ts";

/** How long and how often. */
export type AsyncBenchOptions = { readonly rounds: number; readonly seconds: number; readonly connections: number };

/** Processor time for one run or job, in microseconds: of the own process, and of PostgreSQL. */
export type Cpu = { readonly ownUs: number; readonly databaseUs: number };

/** One round of accepting. */
export type Accepted = (Load | Closed) & Cpu;

/** One round of working off. */
export type Finished = Drained & Cpu & { readonly perSecond: number };

/** Rounds by who was measured and how. */
export type Rounds<Round> = ReadonlyMap<string, readonly Round[]>;

/** What the rounds gave. */
export type AcceptAndFinish = { readonly accepted: Rounds<Accepted>; readonly finished: Rounds<Finished> };

/** What a scenario works with. */
export type Scene = {
  readonly server: Server;
  readonly folder: string;
  readonly options: AsyncBenchOptions;
  readonly print: (line: string) => void;
};

/** Long enough for the load generator to have ended before anything is worked off. */
const marginMs = 1_500;
/** Jobs that are worked off where none were accepted before. */
const fillCount = 5_000;
const fillMs = 12_000;
const warmSeconds = 2;
const settleMs = 300;

/** Who takes part, and whether accepting is measured too; `calmly`: also with half the callers, who wait less for each other. */
export type Part = { readonly contender: Contender; readonly accepts: boolean; readonly calmly?: boolean };

/** Runs all rounds. Rejects when a call was not accepted or a run failed. */
export async function acceptAndFinish(parts: readonly Part[], scene: Scene): Promise<AcceptAndFinish> {
  const { rounds, seconds } = scene.options;
  const accepted = new Gathered<Accepted>(scene.print);
  const finished = new Gathered<Finished>(scene.print);
  for (let round = 0; round <= rounds; round++) {
    // The first round is for node to compile what is hot, and for the tables to have had rows.
    const inRound = { ...scene, options: { ...scene.options, seconds: round === 0 ? warmSeconds : seconds } };
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

type OneRound = { readonly accepted: [string, Accepted][]; readonly finished: [string, Finished][] };

async function onePart({ contender, accepts, calmly = false }: Part, scene: Scene): Promise<OneRound> {
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

/** Accepts for some seconds, while nothing is worked off. */
export async function measureAccept(
  contender: Contender,
  { server, folder, options, print }: Scene,
): Promise<Accepted> {
  const openAtMs = monotonicMs() + options.seconds * 1000 + marginMs;
  const asked = contender.asked(openAtMs);
  const load = (): Promise<Load> => runLoad(asked, { ...options, core: null, folder });
  const measured = await withCpu(contender, server, load, ({ calls }) => calls);
  if (measured.failures > 0) print(`  ${measured.failures} of ${measured.calls} calls of ${contender.name} failed`);
  return measured;
}

async function measureDrain(contender: Contender, mode: string, { server }: Scene): Promise<Finished> {
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
  // Processes of PostgreSQL that are just ending would be missed.
  await new Promise((resolve) => setTimeout(resolve, settleMs));
  const usOf = (seconds: number): number => (seconds * 1e6) / count(measured);
  const ownUs = usOf(contender.cpuSeconds() - before.own);
  return { ...measured, ownUs, databaseUs: usOf(server.cpuSeconds() - before.database) };
}

/** Rounds by name, printed as they come. */
export class Gathered<Round> {
  readonly #rounds = new Map<string, Round[]>();
  readonly #print: (line: string) => void;

  constructor(print: (line: string) => void) {
    this.#print = print;
  }

  get rounds(): Rounds<Round> {
    return this.#rounds;
  }

  /** Keeps one round, and prints it as `line`. */
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
