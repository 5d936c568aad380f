// Cold starts of the Docker driver: a call to an app that is scaled to zero, through a whole
// platform, compared with a container of the same image that the docker command line starts.
import { request } from "node:http";
import type { Benchmark } from "./harness/benchmark.ts";
import { defaultDockerHost, docker, imageOf } from "./harness/docker.ts";
import { digits, medianAndRange, table } from "./harness/markdown.ts";
import { startApp, untilAsleep, type BenchApp } from "./harness/platform.ts";
import { alternate } from "./harness/rounds.ts";
import { ratioOfRounds } from "./harness/statistics.ts";

const main = `def run():\n    return {"answered": True}\n`;
const answerWaitMs = 60_000;

/** `docker` */
export const dockerColdStart: Benchmark<{
  readonly rounds: number;
  readonly "docker-host": string;
}> = {
  name: "docker",
  measures: "A call to an app that has scaled to zero, in a container",
  heading: "Cold start with Docker",
  options: { rounds: 7, "docker-host": defaultDockerHost },
  async run({ rounds, "docker-host": host }, { t, print }) {
    const app = await startApp(t, {
      name: "cold",
      files: { "main.py": main },
      fields: { cooldownPeriodSeconds: 0 },
      dockerHost: host,
    });
    const image = await imageOf(host, app);
    const { cold, bare } = await alternate(
      { cold: () => coldCall(app), bare: () => bareRun(host, image) },
      { rounds, print, show: (ms) => `${ms.toFixed(0)} ms` },
    );
    const row = (what: string, all: readonly number[]): string[] => [
      what,
      ...medianAndRange(all, digits(0), " ms"),
    ];
    return {
      conditions: `${rounds} alternating rounds.`,
      body: [
        ...table(
          ["what", "median", "min – max"],
          [
            row("call to an app at zero replicas, sent → answered", cold),
            row("`docker run` of the same image → its first answer", bare),
          ],
        ),
        `A call to an app at zero replicas takes ${ratioOfRounds(cold, bare).toFixed(2)} × as long as \`docker run\` (median of the ratios of each round).`,
      ],
    };
  },
};

async function coldCall({ platform, name, appId }: BenchApp): Promise<number> {
  await untilAsleep(platform, [appId]);
  const began = performance.now();
  const answer = await platform.call(name, "run", {});
  await answer.text();
  if (answer.status !== 200) throw new Error(`the call was answered with ${answer.status}`);
  return performance.now() - began;
}

/** From `docker run` to the first answer of the container. */
async function bareRun(host: string, image: string): Promise<number> {
  const began = performance.now();
  const listen = "--env=SLIPWAY_LISTEN=0.0.0.0:8000";
  const id = await docker(host, "run", "--detach", "--init", listen, image);
  const address = await docker(host, "inspect", "--format={{.NetworkSettings.IPAddress}}", id);
  while (!(await answers(address))) {
    if (performance.now() - began > answerWaitMs)
      throw new Error("the bare container does not answer");
  }
  const tookMs = performance.now() - began;
  await docker(host, "rm", "--force", id);
  return tookMs;
}

function answers(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host: address, port: 8000, path: "/run", method: "POST", agent: false };
    const call = request(options, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode === 200));
    });
    call.on("error", () => setImmediate(() => resolve(false)));
    call.setHeader("Content-Type", "application/json").end("{}");
  });
}
