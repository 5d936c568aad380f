// Starts the whole platform as a process of its own, as `npm start` does, on a free port and an empty data folder,
// and stops it, its database and its replicas after the test.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { until } from "./until.ts";

/** What the first start writes into `bootstrap.json`. */
export type Bootstrap = {
  readonly baseUrl: string;
  readonly apiUrl: string;
  readonly dashboardUrl: string;
  readonly projectId: string;
  readonly ownerEmail: string;
  readonly ownerPassword: string;
  readonly serviceAccountToken: string;
  readonly inferenceToken: string;
  readonly operatorToken: string;
};

/** A running platform under test. */
export type PlatformProcess = {
  readonly dataDir: string;
  readonly bootstrap: Bootstrap;
  /** All that it printed so far, both streams. */
  output(): string;
  /** The process id, for signals. */
  pid(): number;
  /** Ends it with the signal and waits until it is gone; returns the exit code. */
  end(signal: "SIGTERM" | "SIGKILL" | "SIGINT"): Promise<number | null>;
  /** Starts it again on the same data folder (and another port when 0 was asked for). */
  restart(): Promise<void>;
  /** A call of the management API with the owner's service account. */
  api(method: string, path: string, body?: unknown): Promise<{ status: number; body: any; headers: Headers }>;
  /** A call of an app with the inference token. */
  call(app: string, path: string, body?: unknown, init?: RequestInit): Promise<Response>;
};

const entry = join(import.meta.dirname, "../../src/main.ts");

/** `settings` are SLIPWAY_… variables. The platform stops, and its replicas with it, when the test ends. */
export async function startPlatform(t: TestContext, settings: Record<string, string> = {}): Promise<PlatformProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), "slipway-test-"));
  let printed = "";
  let child: ChildProcess | undefined;
  let bootstrap: Bootstrap | undefined;

  const start = async (): Promise<void> => {
    const before = printed.length;
    const started = spawn(process.execPath, [entry], {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...cleanEnvironment(),
        SLIPWAY_PORT: "0",
        SLIPWAY_DATA_DIR: dataDir,
        SLIPWAY_DRIVER: "process",
        ...settings,
      },
    });
    child = started;
    for (const stream of [started.stdout, started.stderr]) {
      stream?.on("data", (chunk: Buffer) => (printed += chunk.toString()));
    }
    await until(
      "the platform says that it is ready",
      () => {
        if (started.exitCode !== null) throw new Error(`the platform ended with ${started.exitCode}:\n${printed}`);
        return /^slipway ready /m.test(printed.slice(before));
      },
      { deadlineMs: 60_000 },
    );
    bootstrap = JSON.parse(await readFile(join(dataDir, "bootstrap.json"), "utf8")) as Bootstrap;
  };

  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    const gone = once(child, "exit");
    child.kill(signal);
    await gone;
    return child.exitCode;
  };

  t.after(async () => {
    if (process.env["SLIPWAY_TEST_SHOW"] === "1") process.stderr.write(printed);
    await end("SIGTERM");
    await endReplicas(dataDir);
    await endDatabase(dataDir);
    await rm(dataDir, { recursive: true, force: true });
  });
  await start();
  const ready = (): Bootstrap => {
    if (bootstrap === undefined) throw new Error("the platform has not started");
    return bootstrap;
  };
  return {
    dataDir,
    get bootstrap() {
      return ready();
    },
    output: () => printed,
    pid: () => child?.pid ?? -1,
    end,
    restart: start,
    async api(method, path, body) {
      const response = await fetch(`${ready().baseUrl}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${ready().serviceAccountToken}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, headers: response.headers, body: text === "" ? null : JSON.parse(text) };
    },
    call(app, path, body, init = {}) {
      return fetch(`${ready().apiUrl}/v4/${ready().projectId}/${app}/${path}`, {
        method: "POST",
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...init,
        headers: {
          authorization: `Bearer ${ready().inferenceToken}`,
          "content-type": "application/json",
          ...(init.headers as Record<string, string> | undefined),
        },
      });
    },
  };
}

/** The environment without settings of a platform that may run beside. */
function cleanEnvironment(): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && !name.startsWith("SLIPWAY_") && !name.startsWith("NODE_")) kept[name] = value;
  }
  return kept;
}

/** Replicas outlive the platform by design: end those that this data folder's records name. */
async function endReplicas(dataDir: string): Promise<void> {
  await endProcessesWith(
    (environment, line) => line.includes(join(dataDir, "builds")) || environment.includes(join(dataDir, "replicas")),
  );
}

/** A platform that was killed leaves its database running until the next start. */
async function endDatabase(dataDir: string): Promise<void> {
  await endProcessesWith((_environment, line) => line.includes(join(dataDir, "postgres")));
}

async function endProcessesWith(matches: (environment: string, commandLine: string) => boolean): Promise<void> {
  const alive = async (): Promise<number[]> => {
    const found: number[] = [];
    for (const name of await readdir("/proc")) {
      if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
      const read = (file: string): Promise<string> => readFile(`/proc/${name}/${file}`, "utf8").catch(() => "");
      if (matches(await read("environ"), await read("cmdline"))) found.push(Number(name));
    }
    return found;
  };
  await until(
    "processes of the test's data folder are gone",
    async () => {
      const pids = await alive();
      for (const pid of pids) {
        try {
          process.kill(pid, "SIGKILL");
        } catch {
          // It ended by itself meanwhile.
        }
      }
      return pids.length === 0;
    },
    { deadlineMs: 15_000 },
  );
}
