// Many containers at once: an app that goes from no replica to a hundred and back, through a whole
// platform, compared with the docker command line that starts and removes as many containers of the
// same image, a few at a time. Counts what the platform asks the engine.
import type { TestContext } from "node:test";
import { replicaCount } from "@slipway/server/test/support/examples.ts";
import { startRelay } from "@slipway/server/test/support/socket-relay.ts";
import { until } from "@slipway/server/test/support/until.ts";
import type { Benchmark } from "./harness/benchmark.ts";
import { workThrough } from "./harness/closed-loop.ts";
import { defaultDockerHost, docker, imageOf } from "./harness/docker.ts";
import { digits, medianAndRange, table } from "./harness/markdown.ts";
import { startApp, type BenchApp } from "./harness/platform.ts";
import { alternate } from "./harness/rounds.ts";
import { median } from "./harness/statistics.ts";

/** All containers started and removed once. `engineCalls`: what the platform asked the engine. */
type Turn = { readonly startMs: number; readonly stopMs: number; readonly engineCalls: number };

const size = 100;
/** As many as the platform starts at once. */
const bareAtOnce = 8;
const waitMs = 600_000;
const fields = { cpu: 0.25, memory: 0.25, maxReplicaCount: size, cooldownPeriodSeconds: 0 };

/** `docker-fleet`. The engine's address must be a Unix socket. */
export const dockerFleet: Benchmark<{ readonly rounds: number; readonly "docker-host": string }> = {
  name: "docker-fleet",
  measures: "A hundred containers of one app, started and removed",
  heading: "A hundred containers",
  options: { rounds: 7, "docker-host": defaultDockerHost },
  async run({ rounds, "docker-host": host }, { t, print }) {
    const counted = await countedEngine(t, host);
    const app = await startApp(t, {
      name: "fleet",
      files: { "main.py": "def run():\n    return 1\n" },
      fields,
      // What is left is removed without the counting socket: this process waits for it meanwhile.
      settings: { SLIPWAY_DOCKER_HOST: counted.host, SLIPWAY_OVERCOMMIT: "100" },
      dockerHost: host,
    });
    const image = await imageOf(host, app);
    const ourTurn = async (): Promise<Turn> => {
      const before = counted.calls();
      const times = await scaleUpAndDown(app);
      return { ...times, engineCalls: counted.calls() - before };
    };
    const bareTurn = async (): Promise<Turn> => ({
      ...(await runAndRemove(host, image)),
      engineCalls: 0,
    });
    const { ours, bare } = await alternate(
      { ours: ourTurn, bare: bareTurn },
      // A round takes minutes, so none is left out.
      { rounds, warmUps: 0, print, show: turnText },
    );
    const asked = median(ours.map(({ engineCalls }) => engineCalls)) / size;
    return {
      conditions: `${rounds} alternating rounds, median (min – max).`,
      body: [
        ...table(
          ["what", "started", "removed"],
          [
            [`an app from 0 to ${size} replicas that take calls, and back`, ...cellsOf(ours)],
            [
              `\`docker run\` and \`docker rm\` of the same image, ${bareAtOnce} at a time, without waiting for the app in it`,
              ...cellsOf(bare),
            ],
          ],
        ),
        `The platform asks the engine ${asked.toFixed(1)} times for each replica, from its start to its removal.`,
      ],
    };
  },
};

function turnText({ startMs, stopMs, engineCalls }: Turn): string {
  const [started, removed] = [startMs, stopMs].map((ms) => (ms / 1000).toFixed(1));
  return `started in ${started} s, removed in ${removed} s, ${engineCalls} engine calls`;
}

function cellsOf(turns: readonly Turn[]): string[] {
  return [turns.map(({ startMs }) => startMs), turns.map(({ stopMs }) => stopMs)].map((times) => {
    const seconds = times.map((ms) => ms / 1000);
    const [middle, range] = medianAndRange(seconds, digits(1));
    return `${middle} s (${range})`;
  });
}

/** The engine behind a socket that counts the requests to it. */
async function countedEngine(t: TestContext, host: string) {
  let calls = 0;
  const socketPath = await startRelay(t, host.replace(/^unix:\/\//, ""), (sent) => {
    calls += sent.toString("latin1").match(/^[A-Z]+ \/\S* HTTP\/1\.1\r$/gm)?.length ?? 0;
  });
  return { host: `unix://${socketPath}`, calls: () => calls };
}

type Times = Pick<Turn, "startMs" | "stopMs">;

async function scaleUpAndDown({ platform, path, appId }: BenchApp): Promise<Times> {
  const areThere = async (): Promise<boolean> => {
    const listed = (await platform.api("GET", `${path}/containers`)).body as {
      containerState: string;
    }[];
    return listed.filter(({ containerState }) => containerState === "RUNNING").length === size;
  };
  const areGone = async (): Promise<boolean> => (await replicaCount(platform, appId)) === 0;
  const began = performance.now();
  await platform.api("PATCH", path, { minReplicaCount: size });
  await until("all run", areThere, { deadlineMs: waitMs });
  const ready = performance.now();
  await platform.api("PATCH", path, { minReplicaCount: 0 });
  await until("all are gone", areGone, { deadlineMs: waitMs });
  return { startMs: ready - began, stopMs: performance.now() - ready };
}

/** Until the last `docker run --detach` has returned: the app in it is not waited for. */
async function runAndRemove(host: string, image: string): Promise<Times> {
  const ids: string[] = [];
  const run = ["run", "--detach", "--init", "--memory=250m", "--cpus=0.25", image];
  const began = performance.now();
  await workThrough(size, bareAtOnce, async () => {
    ids.push(await docker(host, ...run));
  });
  const ready = performance.now();
  await workThrough(size, bareAtOnce, async (index) => {
    await docker(host, "rm", "--force", ids[index] ?? "");
  });
  return { startMs: ready - began, stopMs: performance.now() - ready };
}
