// Latency of a call to an app that is scaled to zero, from sending it to the answer, through a
// whole platform with its sandbox, compared with starting the same Python directly; and of ten such
// apps at once, compared with ten Pythons at once. The cases take turns, so that other load affects
// all.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { join } from "node:path";
import { deploy, replicaCount } from "@slipway/server/test/support/examples.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { inContext } from "./in-context.ts";
import { cpuSecondsOf, endedCpuSecondsOf } from "./child.ts";

/** Until the last start was answered, or has ended; `cpuMs`: of all processes that took part. */
export type Starts = { readonly ms: number; readonly cpuMs: number };

/** Each round. `many…`: `atOnce` starts. */
export type ColdStartResult = Readonly<
  Record<"cold" | "bare" | "manyCold" | "manyBare", readonly Starts[]>
>;

/** How many apps start at once in the second case. */
export const atOnce = 10;

/** The answer differs for each start of a replica, so that a warm call would be noticed. */
const main = `import os

started = os.urandom(8).hex()


def run():
    return {"started": started}
`;
const toml = `[cerebrium.deployment]\npython_version = "3.11"\n[cerebrium.scaling]\ncooldown = 0\n`;
const names = Array.from({ length: atOnce }, (_, index) => `cold-${index}`);

/** Runs `rounds` rounds; prints as it goes. Rejects when a call was not cold. */
export async function benchColdStart(
  options: { readonly rounds: number },
  print: (line: string) => void,
): Promise<ColdStartResult> {
  return await inContext(async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("bench", "cold", { "main.py": main, "slipway.toml": toml });
    const platform = await startPlatform(t, { SLIPWAY_GIT_URL: git.urlTemplate });
    const appIds: string[] = [];
    for (const name of names) {
      const app = await deploy(platform, { name, gitRepo: "bench/cold" });
      if (app.status !== "success")
        throw new Error(`the build of ${name} ended with ${app.status}\n${app.log}`);
      appIds.push(app.appId);
    }
    return await runRounds(new Stage(platform, appIds), { rounds: options.rounds, print });
  });
}

/** The platform with its apps, and the starts that have answered so far. */
class Stage {
  readonly #platform: PlatformProcess;
  readonly #appIds: readonly string[];
  readonly #starts = new Set<string>();
  /** The Python of the apps' environment: the machine's own may import more at its start. */
  readonly #python: string;

  constructor(platform: PlatformProcess, appIds: readonly string[]) {
    this.#platform = platform;
    this.#appIds = appIds;
    const [python = ""] = globSync(
      join(platform.dataDir, "builds/cache/environments/*/bin/python"),
    );
    this.#python = python;
  }

  /** Replicas that end must not disturb what is measured next. */
  async #asleep(): Promise<void> {
    const counts = (): Promise<number[]> =>
      Promise.all(this.#appIds.map((appId) => replicaCount(this.#platform, appId)));
    const areAsleep = async (): Promise<boolean> =>
      (await counts()).every((replicas) => replicas === 0);
    await until("the apps sleep", areAsleep, { deadlineMs: 60_000 });
  }

  /** Calls the first `count` apps once all sleep. */
  async cold(count: number): Promise<Starts> {
    await this.#asleep();
    const cpuBefore = cpuSecondsOf(this.#platform.pid());
    const before = this.#starts.size;
    const began = performance.now();
    await Promise.all(names.slice(0, count).map((name) => this.#call(name)));
    const tookMs = performance.now() - began;
    const cpuMs = (cpuSecondsOf(this.#platform.pid()) - cpuBefore) * 1000;
    if (this.#starts.size !== before + count)
      throw new Error("a replica of the round before answered");
    return { ms: tookMs, cpuMs };
  }

  /** Starts `count` Pythons together, which import what the runtime imports, and end. */
  async bare(count: number): Promise<Starts> {
    await this.#asleep();
    const cpuBefore = endedCpuSecondsOf(process.pid);
    const began = performance.now();
    const starts = Array.from({ length: count }, async () => {
      const child = spawn(this.#python, ["-c", "import asyncio, json"], { stdio: "ignore" });
      const [code] = (await once(child, "exit")) as [number | null];
      if (code !== 0) throw new Error(`${this.#python} ended with ${String(code)}`);
    });
    await Promise.all(starts);
    return {
      ms: performance.now() - began,
      cpuMs: (endedCpuSecondsOf(process.pid) - cpuBefore) * 1000,
    };
  }

  async #call(name: string): Promise<void> {
    const answer = await this.#platform.call(name, "run", {});
    const { result } = (await answer.json()) as { result: { started: string } };
    this.#starts.add(result.started);
  }
}

type Run = { readonly rounds: number; readonly print: (line: string) => void };

async function runRounds(stage: Stage, { rounds, print }: Run): Promise<ColdStartResult> {
  const result: Record<keyof ColdStartResult, Starts[]> = {
    cold: [],
    bare: [],
    manyCold: [],
    manyBare: [],
  };
  for (let round = 0; round <= rounds; round++) {
    const cold = await stage.cold(1);
    const bare = await stage.bare(1);
    const manyCold = await stage.cold(atOnce);
    const manyBare = await stage.bare(atOnce);
    // The first round warms the caches of all.
    if (round === 0) continue;
    const all = { cold, bare, manyCold, manyBare };
    const names = Object.keys(result) as (keyof ColdStartResult)[];
    for (const name of names) result[name].push(all[name]);
    const shown = names.map(
      (name) => `${name} ${all[name].ms.toFixed(1)} ms (CPU ${all[name].cpuMs.toFixed(0)} ms)`,
    );
    print(`round ${round}: ${shown.join(", ")}`);
  }
  return result;
}
