// A step from nothing to many calls per second, through a whole platform with its sandbox to an app
// at zero replicas: how long callers wait, and how many replicas come. Calls are sent at their
// times, whether earlier ones are answered or not.
import { deploy, replicaCount } from "@slipway/server/test/support/examples.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { inContext } from "./in-context.ts";
import { AppCaller } from "./open-loop.ts";
import { median } from "./report.ts";

/** `rate`: calls per second of the step. */
export type StepOptions = {
  readonly rounds: number;
  readonly rate: number;
  readonly seconds: number;
};

/** One step. Latencies count from the time at which a call is due. */
export type Step = {
  readonly firstMs: number;
  /** From then on no call took longer than `calmMs`; null: that never came. */
  readonly calmAfterMs: number | null;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly failed: number;
  readonly replicas: number;
};

/** All rounds, and how many calls per second 64 callers get that always wait for their answers. */
export type StepResult = { readonly steps: readonly Step[]; readonly reachable: number };

/** A call that takes longer has waited. */
export const calmMs = 100;
/** What the app is set to. */
export const stepSettings = {
  replicaConcurrency: 20,
  maxReplicaCount: 4,
  cooldownPeriodSeconds: 2,
} as const;
const callers = 64;
const main = `def run():\n    return {"answered": True}\n`;
const toml = `[cerebrium.deployment]\npython_version = "3.11"\n`;

/** Runs `rounds` steps of `seconds`; prints as it goes. */
export async function benchStep(
  options: StepOptions,
  print: (line: string) => void,
): Promise<StepResult> {
  return await inContext(async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("bench", "step", { "main.py": main, "slipway.toml": toml });
    // The line must hold what comes during a cold start of a busy machine.
    const line = { SLIPWAY_LINE_LENGTH: String(options.rate * 10) };
    const platform = await startPlatform(t, { SLIPWAY_GIT_URL: git.urlTemplate, ...line });
    const app = await deploy(platform, { name: "step", gitRepo: "bench/step", ...stepSettings });
    if (app.status !== "success")
      throw new Error(`the app's build ended with ${app.status}\n${app.log}`);
    const caller = new Caller(platform, app.appId);
    t.after(() => caller.close());
    const steps: Step[] = [];
    for (let round = 0; round <= options.rounds; round++) {
      const step = await caller.step(options);
      print(`round ${round}: ${JSON.stringify(step)}`);
      // The first one warms the caches.
      if (round > 0) steps.push(step);
    }
    return { steps, reachable: await caller.closedLoop(options.seconds) };
  });
}

class Caller extends AppCaller {
  readonly #platform: PlatformProcess;
  readonly #appId: string;

  constructor(platform: PlatformProcess, appId: string) {
    super(platform, "step");
    this.#platform = platform;
    this.#appId = appId;
  }

  /** Waits until the app sleeps, then sends the step; resolves when all calls have an answer. */
  async step({ rate, seconds }: StepOptions): Promise<Step> {
    const replicas = (): Promise<number> => replicaCount(this.#platform, this.#appId);
    await until("the app sleeps", async () => (await replicas()) === 0, { deadlineMs: 60_000 });
    const ended = await this.send(rate, (sent) => sent >= rate * seconds);
    const latencies = ended
      .map(({ dueMs, endMs }) => endMs - dueMs)
      .toSorted((left, right) => left - right);
    const lastSlow = ended.findLastIndex(({ dueMs, endMs }) => endMs - dueMs > calmMs);
    return {
      firstMs: Math.min(...ended.map(({ endMs }) => endMs)),
      calmAfterMs: lastSlow === ended.length - 1 ? null : (ended[lastSlow + 1]?.dueMs ?? 0),
      p50Ms: median(latencies),
      p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
      maxMs: latencies.at(-1) ?? 0,
      failed: ended.filter(({ isGood }) => !isGood).length,
      replicas: await replicas(),
    };
  }

  /** Calls per second of callers that wait for each answer. */
  async closedLoop(seconds: number): Promise<number> {
    const endMs = performance.now() + seconds * 1000;
    let answered = 0;
    const loop = async (): Promise<void> => {
      while (performance.now() < endMs) if (await this.call()) answered++;
    };
    await Promise.all(Array.from({ length: callers }, loop));
    return answered / seconds;
  }
}
