// Throughput of accepting and of executing single runs. In each round every contender accepts runs
// over HTTP while nothing is executed yet, and then works off the backlog.
import type { ClosedLoop } from "#bench/harness/closed-loop.ts";
import { byName, inRounds, roundText } from "#bench/harness/rounds.ts";
import { runLoad, type Load } from "#bench/harness/wrk.ts";
import type { Contender } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Drained } from "./queue-peer.ts";
import { withCpu, type Cpu, type Rounds, type Scene } from "./scene.ts";

/** One round of accepting. */
export type Accepted = (Load | ClosedLoop) & Cpu;

/** One round of working off. */
export type Finished = Drained & Cpu & { readonly perSecond: number };

/** The results of the rounds. */
export type AcceptAndFinish = {
  readonly accepted: Rounds<Accepted>;
  readonly finished: Rounds<Finished>;
};

/** Long enough for the load generator to finish before anything is executed. */
const marginMs = 1_500;
/** The number of jobs to execute when none were accepted before. */
const fillCount = 5_000;
const fillMs = 12_000;
const warmSeconds = 2;

/**
 * The contender, and whether accepting is measured; `calmly`: also with half the callers, which
 * queue less for each other.
 */
export type Part = {
  readonly contender: Contender;
  readonly accepts: boolean;
  readonly calmly?: boolean;
};

/** Runs all rounds. Rejects when a run failed. */
export async function acceptAndFinish(
  parts: readonly Part[],
  scene: Scene,
): Promise<AcceptAndFinish> {
  const { rounds, seconds } = scene.options;
  const all = await inRounds(rounds, async (round) => {
    const options = { ...scene.options, seconds: round > 0 ? seconds : warmSeconds };
    const results = { accepted: {}, finished: {} };
    for (const part of parts) {
      const { accepted, finished } = await onePart(part, { ...scene, options });
      for (const [name, { callsPerSecond }] of Object.entries(accepted))
        scene.print(`${roundText(round)}, ${name}: ${callsPerSecond.toFixed(0)} accepted/s`);
      for (const [name, { perSecond }] of Object.entries(finished))
        scene.print(`${roundText(round)}, ${name}: ${perSecond.toFixed(0)} finished/s`);
      Object.assign(results.accepted, accepted);
      Object.assign(results.finished, finished);
    }
    return results;
  });
  return {
    accepted: byName(all.map(({ accepted }) => accepted)),
    finished: byName(all.map(({ finished }) => finished)),
  };
}

type OneRound = {
  readonly accepted: Record<string, Accepted>;
  readonly finished: Record<string, Finished>;
};

async function onePart(
  { contender, accepts, calmly = false }: Part,
  scene: Scene,
): Promise<OneRound> {
  const { name, modes, bare } = contender;
  const [first = "", ...others] = modes;
  const accepted: OneRound["accepted"] = {};
  const finished: OneRound["finished"] = {};
  const drain = async (mode: string): Promise<void> => {
    finished[`${name}: ${mode}`] = await measureDrain(contender, mode, scene);
  };
  if (accepts) accepted[name] = await measureAccept(contender, scene);
  else await contender.fill(fillCount, monotonicMs() + fillMs);
  await drain(first);
  for (const mode of others) {
    await contender.fill(fillCount, 0);
    await drain(mode);
  }
  if (calmly) {
    const connections = Math.ceil(scene.options.connections / 2);
    const calm = { ...scene, options: { ...scene.options, connections } };
    accepted[`${name}, ${connections} callers`] = await measureAccept(contender, calm);
    await contender.drain(first);
  }
  if (bare !== null) {
    const work = (): Promise<ClosedLoop> => bare(scene.options);
    accepted[`${name}, without HTTP`] = await withCpu(scene, contender, { work, count: callsOf });
    await contender.drain(modes.at(-1) ?? "");
  }
  return { accepted, finished };
}

/** Accepts for some seconds while nothing is executed. */
export async function measureAccept(contender: Contender, scene: Scene): Promise<Accepted> {
  const { seconds, connections } = scene.options;
  const request = contender.runRequest(monotonicMs() + seconds * 1000 + marginMs);
  const work = (): Promise<Load> => runLoad(request, { seconds, connections });
  const measured = await withCpu(scene, contender, { work, count: callsOf });
  if (measured.failures > 0)
    scene.print(`  ${measured.failures} of ${measured.calls} calls of ${contender.name} failed`);
  return measured;
}

async function measureDrain(contender: Contender, mode: string, scene: Scene): Promise<Finished> {
  const work = (): Promise<Drained> => contender.drain(mode);
  const drained = await withCpu(scene, contender, { work, count: ({ jobs }) => jobs });
  return { ...drained, perSecond: drained.jobs / drained.seconds };
}

function callsOf({ calls }: { readonly calls: number }): number {
  return calls;
}
