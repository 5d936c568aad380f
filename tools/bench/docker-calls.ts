// Throughput to a container and to a process: the same app on two platforms, one for each driver,
// with the same load in turn.
import type { Benchmark } from "./harness/benchmark.ts";
import { defaultDockerHost } from "./harness/docker.ts";
import { milliseconds, table } from "./harness/markdown.ts";
import { startApp, type BenchApp } from "./harness/platform.ts";
import { alternate } from "./harness/rounds.ts";
import { median, ratioOfRounds } from "./harness/statistics.ts";
import { jsonHeaders, runLoad, type Load } from "./harness/wrk.ts";

type CallsOptions = {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  readonly "docker-host": string;
};

const main = 'def run(name: str):\n    return {"hello": name}\n';
const fields = {
  cpu: 1,
  memory: 0.5,
  minReplicaCount: 1,
  maxReplicaCount: 1,
  replicaConcurrency: 1000,
};

/** `docker-calls` */
export const dockerCalls: Benchmark<CallsOptions> = {
  name: "docker-calls",
  measures: "Calls through the platform to a container and to a process",
  heading: "Calls to a container",
  options: { rounds: 7, seconds: 4, connections: 64, "docker-host": defaultDockerHost },
  async run({ rounds, seconds, connections, "docker-host": host }, { t, print }) {
    const app = { name: "calls", files: { "main.py": main }, fields };
    const inContainer = await startApp(t, { ...app, dockerHost: host });
    const inProcess = await startApp(t, app);
    const load = ({ platform: { bootstrap }, name }: BenchApp): Promise<Load> => {
      const url = `${bootstrap.apiUrl}/v4/${bootstrap.projectId}/${name}/run`;
      const call = { url, token: bootstrap.inferenceToken, body: '{"name": "x"}' };
      return runLoad({ ...call, headers: jsonHeaders }, { seconds, connections });
    };
    const measured = await alternate(
      { container: () => load(inContainer), process: () => load(inProcess) },
      { rounds, print, show: ({ callsPerSecond }) => `${callsPerSecond.toFixed(0)} calls/s` },
    );
    const ratio = ratioOfRounds(speedsOf(measured.container), speedsOf(measured.process));
    return {
      conditions: `${rounds} alternating rounds of ${seconds} s, ${connections} connections, a Python function through the whole platform.`,
      body: [
        ...table(
          ["replica", "calls/s", "p50", "p99", "failed"],
          [row("container", measured.container), row("process", measured.process)],
        ),
        `A container takes ${ratio.toFixed(2)} × the calls of a process (median of the ratios of each round).`,
      ],
    };
  },
};

function row(replica: string, loads: readonly Load[]): string[] {
  return [
    replica,
    median(speedsOf(loads)).toFixed(0),
    milliseconds(median(loads.map(({ p50Ms }) => p50Ms)), 1),
    milliseconds(median(loads.map(({ p99Ms }) => p99Ms)), 1),
    String(loads.reduce((sum, { failures }) => sum + failures, 0)),
  ];
}

function speedsOf(loads: readonly Load[]): number[] {
  return loads.map(({ callsPerSecond }) => callsPerSecond);
}
