// A step from nothing to many calls per second, through a whole platform with its sandbox to an app
// at zero replicas: how long callers wait, and how many replicas come.
import { replicaCount } from "@slipway/server/test/support/examples.ts";
import { appCaller } from "./harness/app-caller.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { closedLoop, overAfter } from "./harness/closed-loop.ts";
import { digits, medianAndRange, milliseconds, table } from "./harness/markdown.ts";
import { openLoop, type TimedCall } from "./harness/open-loop.ts";
import { startApp, untilAsleep } from "./harness/platform.ts";
import { inRounds, roundText } from "./harness/rounds.ts";
import { quantile } from "./harness/statistics.ts";

/** `rate`: calls per second of the step. */
type StepOptions = { readonly rounds: number; readonly rate: number; readonly seconds: number };

/** One step. Latencies count from the time at which a call is due. */
type Step = {
  readonly firstMs: number;
  /** From then on no call took longer than `calmMs`; null: that never came. */
  readonly calmAfterMs: number | null;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly failed: number;
  readonly replicas: number;
};

/** A call that takes longer has waited. */
const calmMs = 100;
const callers = 64;
const main = `def run():\n    return {"answered": True}\n`;
const fields = { replicaConcurrency: 20, maxReplicaCount: 4, cooldownPeriodSeconds: 2 };

/** `step` */
export const step: Benchmark<StepOptions> = {
  name: "step",
  measures: "A step from 0 to `--rate` calls per second, to an app that has scaled to zero",
  heading: "A step of calls",
  options: { rounds: 7, rate: 1000, seconds: 4 },
  async run({ rounds, rate, seconds }, { t, print }) {
    // The line must hold what comes during a cold start of a busy machine.
    const settings = { SLIPWAY_LINE_LENGTH: String(rate * 10) };
    const app = await startApp(t, { name: "step", files: { "main.py": main }, fields, settings });
    const call = appCaller(t, app);
    const steps = await inRounds(rounds, async (round) => {
      await untilAsleep(app.platform, [app.appId]);
      const calls = await openLoop(call, { rate, isOver: (sent) => sent >= rate * seconds });
      const measured = stepOf(calls, await replicaCount(app.platform, app.appId));
      const { firstMs, p50Ms, p99Ms, failed } = measured;
      const [first, p50, p99] = [firstMs, p50Ms, p99Ms].map((ms) => milliseconds(ms, 0));
      print(`${roundText(round)}: first answer ${first}, p50 ${p50}, p99 ${p99}, ${failed} failed`);
      return measured;
    });
    const waiting = async (): Promise<void> => {
      if (!(await call())) throw new Error("a call of a caller that waits for its answer failed");
    };
    const reached = await closedLoop(waiting, { callers, isOver: overAfter(seconds) });
    const { replicaConcurrency, maxReplicaCount } = fields;
    return {
      conditions:
        `${rounds} steps from 0 to ${rate} calls/s for ${seconds} s, to a cortex app at zero replicas ` +
        `(\`replicaConcurrency\` ${replicaConcurrency}, \`maxReplicaCount\` ${maxReplicaCount}).`,
      body: [
        ...tableOf(steps, seconds),
        `The load generator shares the machine. ${callers} callers that wait for each answer get ${reached.callsPerSecond.toFixed(0)} calls/s from the same app.`,
      ],
    };
  },
};

function stepOf(calls: readonly TimedCall<boolean>[], replicas: number): Step {
  const latencies = calls.map(({ dueMs, endMs }) => endMs - dueMs);
  const lastSlow = latencies.findLastIndex((ms) => ms > calmMs);
  return {
    firstMs: Math.min(...calls.map(({ endMs }) => endMs)),
    calmAfterMs: lastSlow === calls.length - 1 ? null : (calls[lastSlow + 1]?.dueMs ?? 0),
    p50Ms: quantile(latencies, 0.5),
    p99Ms: quantile(latencies, 0.99),
    maxMs: Math.max(...latencies),
    failed: calls.filter(({ answer }) => !answer).length,
    replicas,
  };
}

function tableOf(steps: readonly Step[], seconds: number): string[] {
  const row = (what: string, valueOf: (one: Step) => number, unit: string): string[] => [
    what,
    ...medianAndRange(steps.map(valueOf), digits(0), unit),
  ];
  const isCalm = steps.every(({ calmAfterMs }) => calmAfterMs !== null);
  return table(
    ["what", "median", "min – max"],
    [
      row("first answer after", ({ firstMs }) => firstMs, " ms"),
      row(
        `no call takes over ${calmMs} ms from`,
        ({ calmAfterMs }) => calmAfterMs ?? seconds * 1000,
        isCalm ? " ms on" : " ms on (the whole time in some)",
      ),
      row("latency, p50", ({ p50Ms }) => p50Ms, " ms"),
      row("latency, p99", ({ p99Ms }) => p99Ms, " ms"),
      row("latency, max", ({ maxMs }) => maxMs, " ms"),
      row("failed calls", ({ failed }) => failed, ""),
      row("replicas at the end", ({ replicas }) => replicas, ""),
    ],
  );
}
