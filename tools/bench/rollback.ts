// How long a rollback takes under load: from sending the command to the first answer of the old
// release, through a whole platform with its sandbox, while callers call all the time. No replica
// of the old release is left when it is sent.
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@slipway/server/test/support/until.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { closedLoop } from "./harness/closed-loop.ts";
import { digits, medianAndRange, table } from "./harness/markdown.ts";
import { startApp, type BenchApp } from "./harness/platform.ts";
import { pythonAlone, pythonAloneText } from "./harness/python-alone.ts";
import { inRounds, roundText, timed } from "./harness/rounds.ts";

/** Milliseconds of one round. */
type Rollback = {
  /** Until the command was answered. */
  readonly commandMs: number;
  /** Until the first answer of the old release. */
  readonly firstMs: number;
  /** The time of the same Python without the platform, with the same callers at work. */
  readonly bareMs: number;
};

const callers = 8;
const pauseMs = 5;
const deadlineMs = 60_000;
const mainOf = (version: number): string => `def run():\n    return ${version}\n`;
const fields = { replicaConcurrency: 100 };

/** `rollback` */
export const rollback: Benchmark<{ readonly rounds: number }> = {
  name: "rollback",
  measures: "A rollback while calls run, until the old release answers",
  heading: "Rollback",
  options: { rounds: 7 },
  async run({ rounds }, { t, print }) {
    const app = await startApp(t, { name: "back", files: { "main.py": mainOf(1) }, fields });
    await app.git.push("bench", app.name, { "main.py": mainOf(2) });
    await app.platform.api("POST", `${app.path}/builds`, {});
    const isLive = async (): Promise<boolean> =>
      (await get<{ liveRelease: number }>(app, app.path)).liveRelease === 2;
    await until("the second release is live", isLive, { deadlineMs });
    const load = startLoad(t, app);
    const all = await inRounds(rounds, async (round) => {
      const measured = await rollBack(app, load, round % 2 === 0 ? 1 : 2);
      const { commandMs, firstMs, bareMs } = measured;
      print(
        `${roundText(round)}: answered after ${commandMs.toFixed(1)} ms, the old release after ${firstMs.toFixed(1)} ms, bare Python ${bareMs.toFixed(1)} ms`,
      );
      return measured;
    });
    const { calls } = await load.stop();
    const row = (what: string, timeOf: (one: Rollback) => number): string[] => [
      what,
      ...medianAndRange(all.map(timeOf), digits(1), " ms"),
    ];
    return {
      conditions: `${rounds} rounds, ${callers} callers.`,
      body: [
        ...table(
          ["what", "median", "min – max"],
          [
            row("command sent → answered", ({ commandMs }) => commandMs),
            row("command sent → first answer of the old release", ({ firstMs }) => firstMs),
            row(pythonAloneText, ({ bareMs }) => bareMs),
          ],
        ),
        `None of the ${calls} calls failed that were made meanwhile.`,
      ],
    };
  },
};

/** Rolls back to the release, when only the other one runs. */
async function rollBack(app: BenchApp, load: AppLoad, release: number): Promise<Rollback> {
  await until("only the live release runs", () => runsOnly(app, 3 - release), { deadlineMs });
  const first = load.firstAnswerOf(release);
  const began = performance.now();
  const answer = await app.platform.api("POST", `${app.path}/rollback`, { release });
  const commandMs = performance.now() - began;
  if (answer.status !== 200) throw new Error(`the rollback was answered ${answer.status}`);
  const firstMs = (await first) - began;
  const bareMs = await timed(pythonAlone(app.platform));
  return { commandMs, firstMs, bareMs };
}

async function runsOnly(app: BenchApp, live: number): Promise<boolean> {
  type Built = { readonly buildId: string };
  const release = await get<Built>(app, `${app.path}/releases/${live}`);
  const replicas = await get<readonly Built[]>(app, `${app.path}/containers`);
  return replicas.length > 0 && replicas.every(({ buildId }) => buildId === release.buildId);
}

async function get<Answer>({ platform }: BenchApp, path: string): Promise<Answer> {
  const answer: { readonly body: unknown } = await platform.api("GET", path);
  return answer.body as Answer;
}

type AppLoad = {
  /** When a caller gets the next answer of a release, on the clock of `performance`. */
  firstAnswerOf(release: number): Promise<number>;
  /** Rejects when a call has failed. */
  stop(): Promise<{ readonly calls: number }>;
};

/** Callers that call again and again until `stop`. */
function startLoad(t: TestContext, { platform, name }: BenchApp): AppLoad {
  let isOver = false;
  let onAnswer: (release: unknown) => void = () => undefined;
  const call = async (): Promise<void> => {
    const response = await platform.call(name, "run", {});
    const text = await response.text();
    if (response.status !== 200) throw new Error(`a call was answered ${response.status} ${text}`);
    onAnswer((JSON.parse(text) as { readonly result: unknown }).result);
    await sleep(pauseMs);
  };
  const running = closedLoop(call, { callers, isOver: () => isOver });
  // A failure is reported by whoever waits for an answer or for the end.
  running.catch(() => undefined);
  const stop = (): typeof running => {
    isOver = true;
    return running;
  };
  t.after(() => stop().catch(() => undefined));
  return {
    firstAnswerOf: (release) =>
      new Promise((resolve, reject) => {
        onAnswer = (answered) => {
          if (answered === release) resolve(performance.now());
        };
        running.catch(reject);
      }),
    stop,
  };
}
