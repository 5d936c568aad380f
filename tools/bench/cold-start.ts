// Latency of a call to an app that is scaled to zero, from sending it to the answer, through a
// whole platform with its sandbox, compared with starting the same Python directly; and of ten such
// apps at once, compared with ten Pythons at once.
import type { TestContext } from "node:test";
import type { Benchmark } from "./harness/benchmark.ts";
import { digits, medianAndRange, milliseconds, table } from "./harness/markdown.ts";
import { deployApp, startApp, untilAsleep } from "./harness/platform.ts";
import { cpuSecondsOf, endedCpuSecondsOf } from "./harness/process-use.ts";
import { pythonAlone, pythonAloneText } from "./harness/python-alone.ts";
import { alternate, timed } from "./harness/rounds.ts";
import { median, ratioOfRounds } from "./harness/statistics.ts";

/** How many apps start at once in the second case. */
const atOnce = 10;

/** Until the last start was answered, or has ended; `cpuMs`: of all processes that took part. */
type Starts = { readonly ms: number; readonly cpuMs: number };

/** The answer differs for each start of a replica, so that a warm call would be noticed. */
const main = `import os

started = os.urandom(8).hex()


def run():
    return {"started": started}
`;
const fields = { cooldownPeriodSeconds: 0 };

/** `cold-start` */
export const coldStart: Benchmark<{ readonly rounds: number }> = {
  name: "cold-start",
  measures: "A call to an app that has scaled to zero",
  heading: "Cold start",
  options: { rounds: 7 },
  async run({ rounds }, { t, print }) {
    const stage = await openStage(t);
    const cases = {
      cold: () => stage.cold(1),
      bare: () => stage.bare(1),
      manyCold: () => stage.cold(atOnce),
      manyBare: () => stage.bare(atOnce),
    };
    const show = ({ ms, cpuMs }: Starts): string => `${ms.toFixed(1)} ms (CPU ${cpuMs.toFixed(0)})`;
    const starts = await alternate(cases, { rounds, print, show });
    return { conditions: `${rounds} alternating rounds.`, body: bodyOf(starts) };
  },
};

function bodyOf(starts: Record<"cold" | "bare" | "manyCold" | "manyBare", Starts[]>): string[] {
  const { cold, bare, manyCold, manyBare } = starts;
  const row = (what: string, all: readonly Starts[]): string[] => [
    what,
    ...medianAndRange(all.map(msOf), digits(1), " ms"),
    milliseconds(median(all.map(cpuMsOf)), 0),
  ];
  const alone = ratioOfRounds(cold.map(msOf), bare.map(msOf)).toFixed(2);
  const together = ratioOfRounds(manyCold.map(msOf), manyBare.map(msOf)).toFixed(2);
  const cpu = ratioOfRounds(manyCold.map(cpuMsOf), manyBare.map(cpuMsOf)).toFixed(2);
  return [
    ...table(
      ["what", "median", "min – max", "CPU time of all processes, median"],
      [
        row("call to an app at zero replicas, sent → answered", cold),
        row(pythonAloneText, bare),
        row(`calls to ${atOnce} such apps at once, sent → all answered`, manyCold),
        row(`${atOnce} such Pythons at once`, manyBare),
      ],
    ),
    `A call to an app at zero replicas takes ${alone} × the startup time of its Python alone; ${atOnce} at once take`,
    `${together} × that of as many Pythons at once, and ${cpu} × their CPU time (medians of the ratios of each round).`,
  ];
}

function msOf({ ms }: Starts): number {
  return ms;
}

function cpuMsOf({ cpuMs }: Starts): number {
  return cpuMs;
}

type Stage = {
  /** Calls so many of the apps at once, when all sleep. */
  cold(count: number): Promise<Starts>;
  /** Starts so many Pythons at once, which import what the runtime imports, and end. */
  bare(count: number): Promise<Starts>;
};

/** A platform with as many apps as are called at once. */
async function openStage(t: TestContext): Promise<Stage> {
  const names = Array.from({ length: atOnce }, (_, index) => `cold-${index}`);
  const [first = "", ...others] = names;
  const { platform, appId } = await startApp(t, {
    name: first,
    files: { "main.py": main },
    fields,
  });
  const appIds = [appId];
  for (const name of others) {
    const app = await deployApp(platform, { name, gitRepo: `bench/${first}`, ...fields });
    appIds.push(app.appId);
  }
  const startPython = pythonAlone(platform);
  const seen = new Set<string>();
  const call = async (name: string): Promise<void> => {
    const answer = await platform.call(name, "run", {});
    const { result } = (await answer.json()) as { result: { started: string } };
    seen.add(result.started);
  };
  return {
    async cold(count) {
      await untilAsleep(platform, appIds);
      const before = seen.size;
      const starts = await measure(
        () => cpuSecondsOf(platform.pid()),
        () => names.slice(0, count).map(call),
      );
      if (seen.size !== before + count) throw new Error("a replica of the round before answered");
      return starts;
    },
    async bare(count) {
      await untilAsleep(platform, appIds);
      return await measure(
        () => endedCpuSecondsOf(process.pid),
        () => Array.from({ length: count }, startPython),
      );
    },
  };
}

/** Until all that `start` starts has ended. */
async function measure(
  cpuSeconds: () => number,
  start: () => readonly Promise<unknown>[],
): Promise<Starts> {
  const cpuBefore = cpuSeconds();
  const ms = await timed(() => Promise.all(start()));
  return { ms, cpuMs: (cpuSeconds() - cpuBefore) * 1000 };
}
