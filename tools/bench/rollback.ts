// How long a rollback takes under load: from sending the command to the first answer of the old
// release, through a whole platform with its sandbox, while callers call all the time. No replica
// of the old release is left when it is sent.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { deploy } from "@slipway/server/test/support/examples.ts";
import { startGitServer } from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { inContext } from "./in-context.ts";
import { machine, median } from "./report.ts";

export type RollbackResult = {
  /**
   * Milliseconds of each round: until the command was answered, and until the first answer of the
   * old release.
   */
  readonly commandMs: readonly number[];
  readonly firstMs: readonly number[];
  /** Of the same Python without the platform, with the same callers at work. */
  readonly bareMs: readonly number[];
  readonly callers: number;
  /** Calls that were answered while rollbacks ran; the bench rejects when one failed. */
  readonly calls: number;
};

const callers = 8;
const pauseMs = 5;
const mainOf = (version: number): string =>
  `import os\n\ndef run():\n    return {"version": ${version}, "python": os.path.realpath("/proc/self/exe")}\n`;
const toml = `[cerebrium.deployment]\nname = "back"\npython_version = "3.11"\n[cerebrium.scaling]\nreplica_concurrency = 100\n`;

/** Runs `rounds` rounds after one that warms caches; prints as it goes. */
export async function benchRollback(
  options: { readonly rounds: number },
  print: (line: string) => void,
): Promise<RollbackResult> {
  return await inContext(async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("bench", "back", { "main.py": mainOf(1), "slipway.toml": toml });
    const platform = await startPlatform(t, { SLIPWAY_GIT_URL: git.urlTemplate });
    const app = await deploy(platform, { name: "back", gitRepo: "bench/back" });
    if (app.status !== "success")
      throw new Error(`the app's build ended with ${app.status}\n${app.log}`);
    await git.push("bench", "back", { "main.py": mainOf(2) });
    const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${app.appId}`;
    await platform.api("POST", `${path}/builds`, {});
    const isLive = async (): Promise<boolean> =>
      (await get<{ liveRelease: number }>(platform, path)).liveRelease === 2;
    await until("the second release is live", isLive, { deadlineMs: 60_000 });
    return await runRounds(platform, { path, rounds: options.rounds, print });
  });
}

/** The section of the document, in Markdown. */
export function rollbackSection({
  commandMs,
  firstMs,
  bareMs,
  callers: callersOf,
  calls,
}: RollbackResult): string {
  const row = (name: string, times: readonly number[]): string => {
    const [min, middle, max] = [Math.min(...times), median(times), Math.max(...times)].map((ms) =>
      ms.toFixed(1),
    );
    return `| ${name} | ${middle} ms | ${min} – ${max} ms |`;
  };
  const { length: rounds } = firstMs;
  return [
    "## Rollback",
    "",
    `${new Date().toISOString().slice(0, 10)}, ${machine()}. ${rounds} rounds, ${callersOf} callers. Node ${process.version}.`,
    "",
    "| what | median | min – max |",
    "|---|---|---|",
    row("command sent → answered", commandMs),
    row("command sent → first answer of the old release", firstMs),
    row('`python3 -c "import asyncio, json"`', bareMs),
    "",
    `None of the ${calls} calls failed that were made meanwhile.`,
    "",
  ].join("\n");
}

type Run = {
  readonly path: string;
  readonly rounds: number;
  readonly print: (line: string) => void;
};

async function runRounds(
  platform: PlatformProcess,
  { path, rounds, print }: Run,
): Promise<RollbackResult> {
  const load = startLoad(platform);
  const commandMs: number[] = [];
  const firstMs: number[] = [];
  const bareMs: number[] = [];
  try {
    for (let round = 0; round <= rounds; round++) {
      const live = round % 2 === 0 ? 2 : 1;
      await until("only the live release runs", async () => await runsOnly(platform, path, live), {
        deadlineMs: 60_000,
      });
      const first = load.firstOf(3 - live);
      const began = performance.now();
      const answer = await platform.api("POST", `${path}/rollback`, { release: 3 - live });
      const answeredMs = performance.now() - began;
      if (answer.status !== 200) throw new Error(`the rollback was answered ${answer.status}`);
      const { atMs, python } = await first;
      const tookMs = atMs - began;
      const bare = await bareStart(python);
      if (round === 0) continue;
      bareMs.push(bare);
      commandMs.push(answeredMs);
      firstMs.push(tookMs);
      print(
        `round ${round}: answered after ${answeredMs.toFixed(1)} ms, the old release after ${tookMs.toFixed(1)} ms, bare Python ${bare.toFixed(1)} ms`,
      );
    }
  } finally {
    await load.stop();
  }
  if (load.failures.length > 0)
    throw new Error(`${load.failures.length} calls failed, first: ${load.failures[0]}`);
  return { commandMs, firstMs, bareMs, callers, calls: load.calls() };
}

async function runsOnly(platform: PlatformProcess, path: string, live: number): Promise<boolean> {
  type Built = { readonly buildId: string };
  const release = await get<Built>(platform, `${path}/releases/${live}`);
  const replicas = await get<readonly Built[]>(platform, `${path}/containers`);
  return replicas.length > 0 && replicas.every(({ buildId }) => buildId === release.buildId);
}

async function get<Answer>(platform: PlatformProcess, path: string): Promise<Answer> {
  const answer: { readonly body: unknown } = await platform.api("GET", path);
  return answer.body as Answer;
}

/** On the clock of `performance`, and the path of the app's Python. */
type FirstAnswer = { readonly atMs: number; readonly python: string };

/** Callers that call again and again until `stop`. */
function startLoad(platform: PlatformProcess) {
  const failures: string[] = [];
  let calls = 0;
  let waiting:
    | { readonly version: number; readonly found: (answer: FirstAnswer) => void }
    | undefined;
  const ended = new AbortController();
  const call = async (): Promise<void> => {
    while (!ended.signal.aborted) {
      const response = await platform.call("back", "run", {});
      const text = await response.text();
      calls++;
      if (response.status !== 200) failures.push(`${response.status} ${text}`);
      else if (waiting !== undefined) {
        const { result } = JSON.parse(text) as {
          readonly result: { readonly version: number; readonly python: string };
        };
        if (result.version === waiting.version) {
          waiting.found({ atMs: performance.now(), python: result.python });
          waiting = undefined;
        }
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  };
  const all = Array.from({ length: callers }, call);
  return {
    failures,
    calls: () => calls,
    /** The next answer of a version. */
    firstOf: (version: number): Promise<FirstAnswer> =>
      new Promise((found) => (waiting = { version, found })),
    async stop() {
      ended.abort();
      await Promise.all(all);
    },
  };
}

async function bareStart(python: string): Promise<number> {
  const began = performance.now();
  const child = spawn(python, ["-c", "import asyncio, json"], { stdio: "ignore" });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`${python} ended with ${String(code)}`);
  return performance.now() - began;
}
