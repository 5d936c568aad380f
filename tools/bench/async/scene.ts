// What the parts of the async run benchmark share: what they run with, and CPU time per run.
import { setTimeout as sleep } from "node:timers/promises";
import type { Context } from "#bench/harness/context.ts";
import type { DatabaseServer } from "#bench/harness/database-server.ts";
import type { Contender } from "./contender.ts";

/** Duration and number of rounds, and the number of callers. */
export type AsyncOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
};

/** What a part runs with. */
export type Scene = Context & { readonly server: DatabaseServer; readonly options: AsyncOptions };

/** Rounds by contender and mode. */
export type Rounds<Round> = Readonly<Record<string, readonly Round[]>>;

/** CPU time per run or job, in microseconds: of the contender's process, and of PostgreSQL. */
export type Cpu = { readonly ownUs: number; readonly databaseUs: number };

const settleMs = 300;

/** Measures with the CPU time that it takes; `count`: the number of runs in what was measured. */
export async function withCpu<Measured>(
  { server }: Scene,
  contender: Contender,
  {
    work,
    count,
  }: {
    readonly work: () => Promise<Measured>;
    readonly count: (measured: Measured) => number;
  },
): Promise<Measured & Cpu> {
  const before = { own: contender.cpuSeconds(), database: server.cpuSeconds() };
  const measured = await work();
  // Otherwise PostgreSQL processes that are just exiting would be missed.
  await sleep(settleMs);
  const usOf = (seconds: number): number => (seconds * 1e6) / count(measured);
  const ownUs = usOf(contender.cpuSeconds() - before.own);
  return { ...measured, ownUs, databaseUs: usOf(server.cpuSeconds() - before.database) };
}
