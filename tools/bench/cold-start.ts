// Latency of a call to an app that is scaled to zero, from sending it to the answer, through a whole platform with its
// sandbox, compared with starting the same Python directly. The two take turns, so that other load affects both.
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { deploy, replicaCount } from "@slipway/server/test/support/examples.ts";
import { openGitServer } from "@slipway/server/test/support/git-server.ts";
import { startPlatform, type PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";

/** Milliseconds of each round. */
export type ColdStartResult = { readonly coldMs: readonly number[]; readonly bareMs: readonly number[] };

/** The answer differs for each start of a replica, so that a warm call would be noticed. */
const main = `import os

started = os.urandom(8).hex()


def run():
    return {"started": started, "python": os.path.realpath("/proc/self/exe")}
`;
const toml = `[cerebrium.deployment]\nname = "cold"\npython_version = "3.11"\n[cerebrium.scaling]\ncooldown = 0\n`;

/** Runs `rounds` rounds; prints as it goes. Rejects when a call was not cold. */
export async function benchColdStart(
  options: { readonly rounds: number },
  print: (line: string) => void,
): Promise<ColdStartResult> {
  const cleanups: (() => unknown)[] = [];
  const context = { after: (clean: () => unknown) => void cleanups.unshift(clean) } as unknown as TestContext;
  try {
    const git = await openGitServer();
    cleanups.unshift(() => git.close());
    await git.createRepo("bench", "cold", { "main.py": main, "slipway.toml": toml });
    const platform = await startPlatform(context, { SLIPWAY_GIT_URL: git.urlTemplate });
    const app = await deploy(platform, { name: "cold", gitRepo: "bench/cold" });
    if (app.status !== "success") throw new Error(`the app's build ended with ${app.status}\n${app.log}`);
    return await runRounds(platform, app.appId, { rounds: options.rounds, print });
  } finally {
    for (const clean of cleanups) await clean();
  }
}

type Run = { readonly rounds: number; readonly print: (line: string) => void };

async function runRounds(platform: PlatformProcess, appId: string, { rounds, print }: Run): Promise<ColdStartResult> {
  const coldMs: number[] = [];
  const bareMs: number[] = [];
  const starts = new Set<string>();
  for (let round = 0; round <= rounds; round++) {
    await until("the app sleeps", async () => (await replicaCount(platform, appId)) === 0, { deadlineMs: 30_000 });
    const began = performance.now();
    const answer = await platform.call("cold", "run", {});
    const { result } = (await answer.json()) as { result: { started: string; python: string } };
    const tookMs = performance.now() - began;
    starts.add(result.started);
    if (starts.size !== round + 1) throw new Error("a replica of the round before answered");
    const bare = await bareStart(result.python);
    // The first round warms the caches of both.
    if (round === 0) continue;
    coldMs.push(tookMs);
    bareMs.push(bare);
    print(`round ${round}: call of a sleeping app ${tookMs.toFixed(1)} ms, bare Python ${bare.toFixed(1)} ms`);
  }
  return { coldMs, bareMs };
}

async function bareStart(python: string): Promise<number> {
  const began = performance.now();
  const child = spawn(python, ["-c", "import asyncio, json"], { stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`${python} ended with ${String(code)}`);
  return performance.now() - began;
}
