// Cold starts of the Docker driver: a call to an app that is scaled to zero, through a whole
// platform, compared with a container of the same image that the docker command line starts; and a
// change of code from the push to its first answer. The cases of a round take turns, so that other
// load affects all.
import { execFileSync } from "node:child_process";
import { request } from "node:http";
import type { TestContext } from "node:test";
import { leaveNothing } from "@slipway/server/test/support/docker-platform.ts";
import { deploy, replicaCount } from "@slipway/server/test/support/examples.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { inContext } from "./in-context.ts";
import { median } from "./report.ts";

/** Milliseconds of each round. */
export type DockerResult = Readonly<Record<"cold" | "bare", readonly number[]>>;

const main = `import os\n\nstarted = os.urandom(8).hex()\n\n\ndef run():\n    return {"started": started}\n`;
const toml = `[cerebrium.deployment]\npython_version = "3.11"\n[cerebrium.scaling]\ncooldown = 0\n`;
const name = "cold";
const answerWaitMs = 60_000;

/** The settings of a platform that uses this engine. */
export function dockerSettings(host: string): Record<string, string> {
  return { SLIPWAY_DRIVER: "docker", SLIPWAY_DOCKER_HOST: host };
}

/** A platform that leaves nothing in its engine, if it uses one. */
export async function startBenchPlatform(
  t: TestContext,
  settings: Record<string, string>,
): Promise<PlatformProcess> {
  const platform = await startPlatform(t, settings);
  const dockerHost = settings["SLIPWAY_DOCKER_HOST"];
  if (dockerHost === undefined) return platform;
  await leaveNothing(t, platform, { dockerHost });
  // Before that, as the last thing comes first.
  t.after(() => platform.end("SIGTERM"));
  return platform;
}

/** Runs `rounds` rounds; prints as it goes. `host`: of the engine. */
export async function benchDocker(
  options: { readonly rounds: number; readonly host: string },
  print: (line: string) => void,
): Promise<DockerResult> {
  return await inContext(async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("bench", "cold", { "main.py": main, "slipway.toml": toml });
    const platform = await startBenchPlatform(t, {
      SLIPWAY_GIT_URL: git.urlTemplate,
      ...dockerSettings(options.host),
    });
    const app = await deploy(platform, { name, gitRepo: "bench/cold" });
    if (app.status !== "success") throw new Error(`the build ended with ${app.status}\n${app.log}`);
    const result: Record<keyof DockerResult, number[]> = { cold: [], bare: [] };
    const image = docker(
      options.host,
      "image",
      "ls",
      "--quiet",
      `--filter=label=slipway.app=${app.appId}`,
    );
    for (let round = 0; round <= options.rounds; round++) {
      const cold = await coldCall(platform, app.appId);
      const bare = await bareRun(options.host, image);
      // The first round warms the caches of both.
      if (round === 0) continue;
      result.cold.push(cold);
      result.bare.push(bare);
      print(`round ${round}: cold ${cold.toFixed(0)} ms, bare ${bare.toFixed(0)} ms`);
    }
    return result;
  });
}

async function coldCall(platform: PlatformProcess, appId: string): Promise<number> {
  const isAsleep = async (): Promise<boolean> => (await replicaCount(platform, appId)) === 0;
  await until("the app sleeps", isAsleep, { deadlineMs: answerWaitMs });
  const began = performance.now();
  const answer = await platform.call(name, "run", {});
  await answer.text();
  if (answer.status !== 200) throw new Error(`the call was answered with ${answer.status}`);
  return performance.now() - began;
}

/** From `docker run` to the first answer of the container. */
async function bareRun(host: string, image: string): Promise<number> {
  const began = performance.now();
  const id = docker(host, "run", "--detach", "--init", "--env=SLIPWAY_LISTEN=0.0.0.0:8000", image);
  const address = docker(host, "inspect", "--format={{.NetworkSettings.IPAddress}}", id);
  while (!(await answers(address))) {
    if (performance.now() - began > answerWaitMs)
      throw new Error("the bare container does not answer");
  }
  const tookMs = performance.now() - began;
  docker(host, "rm", "--force", id);
  return tookMs;
}

function answers(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asked = request({
      host: address,
      port: 8000,
      path: "/run",
      method: "POST",
      agent: false,
    });
    asked.on("response", (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode === 200));
    });
    asked.on("error", () => setImmediate(() => resolve(false)));
    asked.setHeader("Content-Type", "application/json").end("{}");
  });
}

function docker(host: string, ...parameters: readonly string[]): string {
  return execFileSync("docker", ["--host", host, ...parameters], { encoding: "utf8" }).trim();
}

/** The section of the document, in Markdown. */
export function dockerSection({ cold, bare }: DockerResult, machine: string): string {
  const row = (what: string, all: readonly number[]): string =>
    `| ${what} | ${median(all).toFixed(0)} ms | ${Math.min(...all).toFixed(0)} – ${Math.max(...all).toFixed(0)} ms |`;
  const ratio = median(cold.map((ms, index) => ms / (bare[index] ?? ms)));
  return [
    "## Cold start with Docker",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine}. ${cold.length} alternating rounds.`,
    "",
    "| what | median | min – max |",
    "|---|---|---|",
    row("call to an app at zero replicas, sent → answered", cold),
    row("`docker run` of the same image → its first answer", bare),
    "",
    `A call to an app at zero replicas takes ${ratio.toFixed(2)} × as long as \`docker run\` (median of the ratios of each round).`,
    "",
  ].join("\n");
}
