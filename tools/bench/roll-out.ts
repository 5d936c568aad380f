// What callers notice of a roll-out: latencies before it, while the new release is built, and while
// the calls move to it in five steps, through a whole platform with its sandbox. Calls are sent at
// their times, whether earlier ones are answered or not.
import { deploy } from "@slipway/server/test/support/examples.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { inContext } from "./in-context.ts";
import { AppCaller, type TimedCall } from "./open-loop.ts";
import { machine, median } from "./report.ts";

/** `rate`: calls per second; `seconds`: of the time before the roll-out. */
export type RollOutOptions = {
  readonly rounds: number;
  readonly rate: number;
  readonly seconds: number;
};

/** The calls of one part of all rounds. */
type Part = { readonly name: string; readonly calls: readonly TimedCall[] };

const rollOutSeconds = 5;
const deadlineMs = 120_000;
const mainOf = (version: number): string => `def run():\n    return ${version}\n`;
const toml = `[cerebrium.deployment]\npython_version = "3.11"\n`;
const settings = {
  replicaConcurrency: 20,
  maxReplicaCount: 4,
  rollOutDurationSeconds: rollOutSeconds,
};

/** Runs `rounds` roll-outs after one that warms caches; prints as it goes. */
export async function benchRollOut(
  options: RollOutOptions,
  print: (line: string) => void,
): Promise<readonly Part[]> {
  return await inContext(async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("bench", "rolled", { "main.py": mainOf(0), "slipway.toml": toml });
    const platform = await startPlatform(t, {
      SLIPWAY_GIT_URL: git.urlTemplate,
      SLIPWAY_GIT_POLL_SECONDS: "0",
    });
    const app = await deploy(platform, { name: "rolled", gitRepo: "bench/rolled", ...settings });
    if (app.status !== "success")
      throw new Error(`the app's build ended with ${app.status}\n${app.log}`);
    const caller = new AppCaller(platform, "rolled");
    t.after(() => caller.close());
    const parts: Part[] = [];
    for (let round = 0; round <= options.rounds; round++) {
      await git.push("bench", "rolled", { "main.py": mainOf(round + 1) });
      const measured = await runRound(platform, { caller, appId: app.appId, options });
      print(`round ${round}: ${measured.map((part) => rowOf(part)).join(" ")}`);
      if (round > 0) parts.push(...measured);
    }
    const names = [...new Set(parts.map(({ name }) => name))];
    return names.map((name) => ({
      name,
      calls: parts.filter((part) => part.name === name).flatMap(({ calls }) => calls),
    }));
  });
}

async function runRound(
  platform: PlatformProcess,
  given: { readonly caller: AppCaller; readonly appId: string; readonly options: RollOutOptions },
): Promise<Part[]> {
  const { caller, appId } = given;
  const { rate, seconds } = given.options;
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  let isOver = false;
  const stateIs = async (state: string): Promise<boolean> => {
    const answer: { readonly body: unknown } = await platform.api("GET", `${path}/rollout`);
    return (answer.body as { readonly state?: string }).state === state;
  };
  const change = async (): Promise<[number, number]> => {
    const began = performance.now();
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    const builtFromMs = performance.now() - began;
    await platform.api("POST", `${path}/builds`, {});
    await until("the roll-out begins", () => stateIs("running"), { deadlineMs });
    const rolledFromMs = performance.now() - began;
    await until("the roll-out ends", () => stateIs("finished"), { deadlineMs });
    isOver = true;
    return [builtFromMs, rolledFromMs];
  };
  const [calls, [builtFromMs, rolledFromMs]] = await Promise.all([
    caller.send(rate, () => isOver),
    change(),
  ]);
  return [
    { name: "before", calls: calls.filter(({ dueMs }) => dueMs < builtFromMs) },
    {
      name: "build and first start",
      calls: calls.filter(({ dueMs }) => dueMs >= builtFromMs && dueMs < rolledFromMs),
    },
    {
      name: `roll-out, ${rollOutSeconds} s`,
      calls: calls.filter(({ dueMs }) => dueMs >= rolledFromMs),
    },
  ];
}

function rowOf({ name, calls }: Part): string {
  const latencies = calls
    .map(({ dueMs, endMs }) => endMs - dueMs)
    .toSorted((left, right) => left - right);
  const p99 = latencies[Math.floor(latencies.length * 0.99)] ?? 0;
  const failed = calls.filter(({ isGood }) => !isGood).length;
  return `| ${name} | ${calls.length} | ${failed} | ${[median(latencies), p99, latencies.at(-1) ?? 0].map((ms) => `${ms.toFixed(1)} ms`).join(" | ")} |`;
}

/** The section of the document, in Markdown. */
export function rollOutSection(parts: readonly Part[], { rounds, rate }: RollOutOptions): string {
  return [
    "## Roll-out under load",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. ${rounds} roll-outs of a cortex app at ${rate} calls/s. Node ${process.version}.`,
    "",
    "| while | calls | failed | p50 | p99 | max |",
    "|---|---|---|---|---|---|",
    ...parts.map(rowOf),
    "",
  ].join("\n");
}
