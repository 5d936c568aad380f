// What callers notice of a roll-out: latencies before it, while the new release is built, and while
// the calls move to it in five steps, through a whole platform with its sandbox.
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@slipway/server/test/support/until.ts";
import { appCaller } from "./harness/app-caller.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { milliseconds, table } from "./harness/markdown.ts";
import { openLoop, type TimedCall } from "./harness/open-loop.ts";
import { startApp, type BenchApp } from "./harness/platform.ts";
import { byName, inRounds, roundText } from "./harness/rounds.ts";
import { quantile } from "./harness/statistics.ts";

/** `rate`: calls per second; `seconds`: of the time before the roll-out. */
type RollOutOptions = { readonly rounds: number; readonly rate: number; readonly seconds: number };

type Calls = readonly TimedCall<boolean>[];

const rollOutSeconds = 5;
const deadlineMs = 120_000;
const mainOf = (version: number): string => `def run():\n    return ${version}\n`;
const fields = {
  replicaConcurrency: 20,
  maxReplicaCount: 4,
  rollOutDurationSeconds: rollOutSeconds,
};

/** `roll-out` */
export const rollOut: Benchmark<RollOutOptions> = {
  name: "roll-out",
  measures: "What callers notice of a roll-out at `--rate` calls per second",
  heading: "Roll-out under load",
  options: { rounds: 7, rate: 300, seconds: 4 },
  async run({ rounds, rate, seconds }, { t, print }) {
    const app = await startApp(t, {
      name: "rolled",
      files: { "main.py": mainOf(0) },
      fields,
      settings: { SLIPWAY_GIT_POLL_SECONDS: "0" },
    });
    const call = appCaller(t, app);
    const all = await inRounds(rounds, async (round) => {
      await app.git.push("bench", app.name, { "main.py": mainOf(round + 1) });
      const rolling = rollOutAfter(app, seconds);
      const calls = await openLoop(call, { rate, isOver: rolling.isOver });
      const parts = partsOf(calls, await rolling.times);
      print(`${roundText(round)}: ${rowsOf(parts).join("; ")}`);
      return parts;
    });
    const calls = Object.entries(byName(all)).map(([part, ofRounds]) => [part, ofRounds.flat()]);
    return {
      conditions: `${rounds} roll-outs of a cortex app at ${rate} calls/s.`,
      body: table(
        ["while", "calls", "failed", "p50", "p99", "max"],
        rowsOf(Object.fromEntries(calls) as Record<string, Calls>),
      ),
    };
  },
};

/** In milliseconds since the wait began: when the build began, and the roll-out. */
type Times = { readonly builtFromMs: number; readonly rolledFromMs: number };

/** Deploys the newest commit after so many seconds. `isOver`: all calls have moved. */
function rollOutAfter({ platform, path }: BenchApp, seconds: number) {
  let isOver = false;
  const stateIs = async (state: string): Promise<boolean> => {
    const answer: { readonly body: unknown } = await platform.api("GET", `${path}/rollout`);
    return (answer.body as { readonly state?: string }).state === state;
  };
  const change = async (): Promise<Times> => {
    const began = performance.now();
    await sleep(seconds * 1000);
    const builtFromMs = performance.now() - began;
    await platform.api("POST", `${path}/builds`, {});
    await until("the roll-out begins", () => stateIs("running"), { deadlineMs });
    const rolledFromMs = performance.now() - began;
    await until("the roll-out ends", () => stateIs("finished"), { deadlineMs });
    return { builtFromMs, rolledFromMs };
  };
  const times = change().finally(() => (isOver = true));
  return { isOver: () => isOver, times };
}

function partsOf(calls: Calls, { builtFromMs, rolledFromMs }: Times): Record<string, Calls> {
  return {
    before: calls.filter(({ dueMs }) => dueMs < builtFromMs),
    "build and first start": calls.filter(
      ({ dueMs }) => dueMs >= builtFromMs && dueMs < rolledFromMs,
    ),
    [`roll-out, ${rollOutSeconds} s`]: calls.filter(({ dueMs }) => dueMs >= rolledFromMs),
  };
}

function rowsOf(parts: Readonly<Record<string, Calls>>): string[][] {
  return Object.entries(parts).map(([part, calls]) => {
    const latencies = calls.map(({ dueMs, endMs }) => endMs - dueMs);
    const failed = calls.filter(({ answer }) => !answer).length;
    const shown = [quantile(latencies, 0.5), quantile(latencies, 0.99), Math.max(...latencies)];
    return [part, String(calls.length), String(failed), ...shown.map((ms) => milliseconds(ms, 1))];
  });
}
