// Latency of a call to a sleeping app that imports large packages: started from a zygote, and by an
// import of its own, on two platforms side by side; and the memory of ten replicas of one app.
import type { TestContext } from "node:test";
import { readdirSync, readFileSync } from "node:fs";
import { until } from "@slipway/server/test/support/until.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { digits, medianAndRange, table } from "./harness/markdown.ts";
import { startApp, untilAsleep } from "./harness/platform.ts";
import { alternate, timed } from "./harness/rounds.ts";
import { ratioOfRounds } from "./harness/statistics.ts";

/** How many replicas of one app start at once. */
const atOnce = 10;

/** An app with packages whose import takes more than a second. */
const files = {
  "slipway.toml": `[cerebrium.deployment]
python_version = "3.11"

[cerebrium.dependencies.pip]
pandas = "2.3.3"
scikit-learn = "1.7.2"
fastapi = "0.121.0"
`,
  "main.py": `import os

import fastapi
import pandas
import sklearn.ensemble

imported_by = os.getpid()


def run(wait=0.0):
    import time

    time.sleep(wait)
    return {"isForked": os.getpid() != imported_by, "replica": os.environ.get("SLIPWAY_REPLICA_ID"), "started": os.urandom(4).hex()}
`,
};
const fields = {
  cooldownPeriodSeconds: 0,
  replicaConcurrency: 1,
  maxReplicaCount: atOnce,
  memory: 1,
  cpu: 1,
};

/** `zygotes` */
export const zygotes: Benchmark<{ readonly rounds: number }> = {
  name: "zygotes",
  measures: "A call to a sleeping app with large imports, with and without zygotes",
  heading: "Zygotes",
  options: { rounds: 9 },
  async run({ rounds }, { t, print }) {
    const forked = await openStage(t, { hasZygotes: true });
    const imported = await openStage(t, { hasZygotes: false });
    const cases = {
      forked: () => forked.wake(1),
      imported: () => imported.wake(1),
      manyForked: () => forked.wake(atOnce),
    };
    const starts = await alternate(cases, { rounds, print, show: (ms) => `${ms.toFixed(1)} ms` });
    // Only then all processes of the runtime belong to the other platform.
    await imported.asleep();
    const one = await forked.memoryMb(1);
    const ten = await forked.memoryMb(atOnce);
    const row = (what: string, all: readonly number[]): string[] => [
      what,
      ...medianAndRange(all, digits(1), " ms"),
    ];
    const ratio = ratioOfRounds(starts.imported, starts.forked).toFixed(1);
    const together = ratioOfRounds(starts.manyForked, starts.forked).toFixed(1);
    return {
      conditions: `${rounds} alternating rounds; an app that imports pandas, scikit-learn and FastAPI.`,
      body: [
        ...table(
          ["what", "median", "min – max"],
          [
            row("call to a sleeping app with a zygote, sent → answered", starts.forked),
            row("the same app without zygotes", starts.imported),
            row(`${atOnce} calls that start ${atOnce} replicas of it at once`, starts.manyForked),
          ],
        ),
        `With a zygote, the call takes ${ratio} times less; ${atOnce} replicas at once take ${together} × one (medians of`,
        `the ratios of each round). The processes of one replica and its zygote hold ${one.toFixed(0)} MB together, of ${atOnce}`,
        `replicas ${ten.toFixed(0)} MB (proportional set size).`,
      ],
    };
  },
};

type Stage = {
  /** Sends so many calls at once to the sleeping app; milliseconds until all are answered. */
  wake(count: number): Promise<number>;
  /** Resolves when the app has no replica. */
  asleep(): Promise<void>;
  /** The proportional set size of all processes of the app, while so many replicas run. */
  memoryMb(count: number): Promise<number>;
};

type Answer = { readonly isForked: boolean };

async function openStage(
  t: TestContext,
  { hasZygotes }: { readonly hasZygotes: boolean },
): Promise<Stage> {
  const settings = { SLIPWAY_ZYGOTE_MEMORY_PERCENT: hasZygotes ? "10" : "0" };
  const { platform, appId } = await startApp(t, { name: "heavy", files, fields, settings });
  const call = async (wait: number): Promise<Answer> => {
    const answer = await platform.call("heavy", "run", { wait });
    return ((await answer.json()) as { result: Answer }).result;
  };
  const callMany = (count: number, wait: number): Promise<Answer[]> =>
    Promise.all(Array.from({ length: count }, () => call(wait)));
  if (hasZygotes)
    await until(
      "the app has a zygote",
      async () => {
        const { isForked } = await call(0);
        await untilAsleep(platform, [appId]);
        return isForked;
      },
      { deadlineMs: 300_000 },
    );
  return {
    async wake(count) {
      await untilAsleep(platform, [appId]);
      let answers: readonly Answer[] = [];
      const ms = await timed(async () => {
        answers = await callMany(count, 0);
      });
      if (answers.some(({ isForked }) => isForked !== hasZygotes))
        throw new Error("a replica was not started as intended");
      return ms;
    },
    async asleep() {
      await untilAsleep(platform, [appId]);
    },
    async memoryMb(count) {
      await untilAsleep(platform, [appId]);
      const calls = callMany(count, 5);
      // The zygote, and of each replica its first process and the app.
      await until("all replicas run", () => pythons().length >= 1 + 2 * count);
      const mb = pythons().reduce((sum, pid) => sum + proportionalMb(pid), 0);
      await calls;
      return mb;
    },
  };
}

/** The processes that run the runtime of cortex apps. */
function pythons(): string[] {
  return readdirSync("/proc").filter(
    (pid) => /^\d+$/.test(pid) && read(`/proc/${pid}/cmdline`).includes("start.py"),
  );
}

function proportionalMb(pid: string): number {
  const rollup = read(`/proc/${pid}/smaps_rollup`);
  return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1] ?? 0) / 1000;
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
