// Throughput to a container and to a process: the same app on two platforms, one for each driver,
// with the same load in turn.
import { deploy } from "@slipway/server/test/support/examples.ts";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { dockerSettings, startBenchPlatform } from "./docker.ts";
import { inContext } from "./in-context.ts";
import { runLoad, type Load } from "./load.ts";
import { median } from "./report.ts";

export type CallsResult = Readonly<Record<"container" | "process", readonly Load[]>>;

const main = 'def run(name: str):\n    return {"hello": name}\n';
const toml = `[cerebrium.deployment]\npython_version = "3.11"\n`;
const fields = {
  cpu: 1,
  memory: 0.5,
  minReplicaCount: 1,
  maxReplicaCount: 1,
  replicaConcurrency: 1000,
};

type Options = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  readonly host: string;
};

/** Runs `rounds` rounds; prints as it goes. `host`: of the engine. */
export async function benchCalls(
  { rounds, seconds, connections, host }: Options,
  print: (line: string) => void,
): Promise<CallsResult> {
  return await inContext(async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("bench", "calls", { "main.py": main, "slipway.toml": toml });
    const folder = temporaryFolder(t, "load");
    const start = async (settings: Record<string, string>): Promise<PlatformProcess> => {
      const platform = await startBenchPlatform(t, {
        SLIPWAY_GIT_URL: git.urlTemplate,
        ...settings,
      });
      const app = await deploy(platform, { name: "calls", gitRepo: "bench/calls", ...fields });
      if (app.status !== "success")
        throw new Error(`the build ended with ${app.status}\n${app.log}`);
      return platform;
    };
    const platforms = {
      container: await start(dockerSettings(host)),
      process: await start({ SLIPWAY_DRIVER: "process" }),
    };
    const load = ({ bootstrap }: PlatformProcess): Promise<Load> => {
      const url = `${bootstrap.apiUrl}/v4/${bootstrap.projectId}/calls/run`;
      const asked = { url, token: bootstrap.inferenceToken, body: '{"name": "x"}' };
      return runLoad(
        { ...asked, fields: { "Content-Type": "application/json" } },
        { seconds, connections, core: null, folder },
      );
    };
    const result: Record<keyof CallsResult, Load[]> = { container: [], process: [] };
    for (let round = 0; round <= rounds; round++) {
      const container = await load(platforms.container);
      const process = await load(platforms.process);
      // The first round warms both.
      if (round === 0) continue;
      result.container.push(container);
      result.process.push(process);
      print(
        `round ${round}: container ${container.callsPerSecond.toFixed(0)}/s, process ${process.callsPerSecond.toFixed(0)}/s`,
      );
    }
    return result;
  });
}

/** The section of the document, in Markdown. */
export function callsSection(
  { container, process }: CallsResult,
  given: Options,
  machine: string,
): string {
  const row = (what: string, all: readonly Load[]): string => {
    const of = (read: (one: Load) => number): number => median(all.map(read));
    const failures = all.reduce((sum, one) => sum + one.failures, 0);
    return `| ${what} | ${of((one) => one.callsPerSecond).toFixed(0)} | ${of((one) => one.p50Ms).toFixed(1)} ms | ${of((one) => one.p99Ms).toFixed(1)} ms | ${failures} |`;
  };
  const ratio = median(
    container.map((one, round) => one.callsPerSecond / (process[round]?.callsPerSecond ?? 1)),
  );
  return [
    "## Calls to a container",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine}. ${given.rounds} alternating rounds of ${given.seconds} s, ${given.connections} connections, a Python function through the whole platform.`,
    "",
    "| replica | calls/s | p50 | p99 | failed |",
    "|---|---|---|---|---|",
    row("container", container),
    row("process", process),
    "",
    `A container takes ${ratio.toFixed(2)} × the calls of a process (median of the ratios of each round).`,
    "",
  ].join("\n");
}
