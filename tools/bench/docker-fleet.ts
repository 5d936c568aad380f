// Many containers at once: an app that goes from no replica to a hundred and back, through a whole
// platform, compared with the docker command line that starts and removes as many containers of the
// same image, a few at a time. Counts what the platform asks the engine.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { deploy, replicaCount } from "@slipway/server/test/support/examples.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { startRelay } from "@slipway/server/test/support/socket-relay.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { dockerSettings, startBenchPlatform } from "./docker.ts";
import { inContext } from "./in-context.ts";
import { median } from "./report.ts";

type Turn = { readonly startMs: number; readonly stopMs: number };

/** Of each round. `calls`: requests to the engine for all starts and ends of a round. */
export type FleetResult = {
  readonly ours: readonly Turn[];
  readonly bare: readonly Turn[];
  readonly calls: number[];
};

const size = 100;
/** As many as the platform starts at once. */
const bareAtOnce = 8;
const waitMs = 600_000;
const toml = `[cerebrium.deployment]\npython_version = "3.11"\n`;
const fields = { cpu: 0.25, memory: 0.25, maxReplicaCount: size, cooldownPeriodSeconds: 0 };

/** Runs `rounds` rounds; prints as it goes. `host`: of the engine, a Unix socket. */
export async function benchFleet(
  { rounds, host }: { readonly rounds: number; readonly host: string },
  print: (line: string) => void,
): Promise<FleetResult> {
  return await inContext(async (t) => {
    let engineCalls = 0;
    const socketPath = await startRelay(t, host.replace(/^unix:\/\//, ""), (sent) => {
      engineCalls += sent.toString("latin1").match(/^[A-Z]+ \/\S* HTTP\/1\.1\r$/gm)?.length ?? 0;
    });
    const git = await startGitServer(t);
    await git.createRepo("bench", "fleet", {
      "main.py": "def run():\n    return 1\n",
      "slipway.toml": toml,
    });
    const settings = { ...dockerSettings(`unix://${socketPath}`), SLIPWAY_OVERCOMMIT: "100" };
    const platform = await startBenchPlatform(t, { SLIPWAY_GIT_URL: git.urlTemplate, ...settings });
    const app = await deploy(platform, { name: "fleet", gitRepo: "bench/fleet", ...fields });
    if (app.status !== "success") throw new Error(`the build ended with ${app.status}\n${app.log}`);
    const image = await docker(
      host,
      "image",
      "ls",
      "--quiet",
      `--filter=label=slipway.app=${app.appId}`,
    );
    const result: { ours: Turn[]; bare: Turn[]; calls: number[] } = {
      ours: [],
      bare: [],
      calls: [],
    };
    for (let round = 1; round <= rounds; round++) {
      const before = engineCalls;
      const ours = await ourTurn(platform, app.appId);
      const calls = engineCalls - before;
      const bare = await bareTurn(host, image);
      result.ours.push(ours);
      result.bare.push(bare);
      result.calls.push(calls);
      const text = ({ startMs, stopMs }: Turn): string =>
        `${(startMs / 1000).toFixed(1)} + ${(stopMs / 1000).toFixed(1)} s`;
      print(
        `round ${round}: ${text(ours)}, ${calls} engine calls; docker run and rm: ${text(bare)}`,
      );
    }
    return result;
  });
}

async function ourTurn(platform: PlatformProcess, appId: string): Promise<Turn> {
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  const isThere = async (): Promise<boolean> => {
    const listed = (await platform.api("GET", `${path}/containers`)).body as {
      containerState: string;
    }[];
    return listed.filter(({ containerState }) => containerState === "RUNNING").length === size;
  };
  const isGone = async (): Promise<boolean> => (await replicaCount(platform, appId)) === 0;
  const began = performance.now();
  await platform.api("PATCH", path, { minReplicaCount: size });
  await until("all run", isThere, { deadlineMs: waitMs });
  const ready = performance.now();
  await platform.api("PATCH", path, { minReplicaCount: 0 });
  await until("all are gone", isGone, { deadlineMs: waitMs });
  return { startMs: ready - began, stopMs: performance.now() - ready };
}

/** Until the last `docker run --detach` has returned: the app in it is not waited for. */
async function bareTurn(host: string, image: string): Promise<Turn> {
  const ids: string[] = [];
  const began = performance.now();
  let left = size;
  const starter = async (): Promise<void> => {
    while (left-- > 0) {
      ids.push(
        await docker(host, "run", "--detach", "--init", "--memory=250m", "--cpus=0.25", image),
      );
    }
  };
  await Promise.all(Array.from({ length: bareAtOnce }, starter));
  const ready = performance.now();
  const remover = async (): Promise<void> => {
    for (let id = ids.pop(); id !== undefined; id = ids.pop())
      await docker(host, "rm", "--force", id);
  };
  await Promise.all(Array.from({ length: bareAtOnce }, remover));
  return { startMs: ready - began, stopMs: performance.now() - ready };
}

async function docker(host: string, ...parameters: readonly string[]): Promise<string> {
  return (await promisify(execFile)("docker", ["--host", host, ...parameters])).stdout.trim();
}

/** The section of the document, in Markdown. */
export function fleetSection({ ours, bare, calls }: FleetResult, machine: string): string {
  const seconds = (all: readonly number[]): string =>
    `${(median(all) / 1000).toFixed(1)} s (${(Math.min(...all) / 1000).toFixed(1)} – ${(Math.max(...all) / 1000).toFixed(1)})`;
  const row = (what: string, all: readonly Turn[]): string =>
    `| ${what} | ${seconds(all.map(({ startMs }) => startMs))} | ${seconds(all.map(({ stopMs }) => stopMs))} |`;
  return [
    "## A hundred containers",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine}. ${ours.length} alternating rounds, median (min – max).`,
    "",
    "| what | started | removed |",
    "|---|---|---|",
    row(`an app from 0 to ${size} replicas that take calls, and back`, ours),
    row(
      `\`docker run\` and \`docker rm\` of the same image, ${bareAtOnce} at a time, without waiting for the app in it`,
      bare,
    ),
    "",
    `The platform asks the engine ${(median(calls) / size).toFixed(1)} times for each replica, from its start to its removal.`,
    "",
  ].join("\n");
}
