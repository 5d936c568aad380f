// Starts the whole platform as a separate process, as `npm start` does, on a free port and an empty
// data folder, and stops it, its database and its replicas after the test.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { groupNames } from "#drivers/process/cgroup.ts";
import { detectCgroups, releaseCgroups, removeLeftGroups } from "#drivers/process/cgroup-detect.ts";
import type { Json } from "./management-api.ts";
import "./checked-answers.ts";
import { givePip } from "./give-pip.ts";
import { until } from "./until.ts";

/** What the first start writes to `bootstrap.json`. */
export type Bootstrap = {
  readonly baseUrl: string;
  readonly apiUrl: string;
  readonly dashboardUrl: string;
  /** The platform on its own machine, where `baseUrl` may not be reachable. */
  readonly localUrl: string;
  readonly projectId: string;
  readonly ownerEmail: string;
  readonly ownerPassword: string;
  readonly serviceAccountToken: string;
  readonly inferenceToken: string;
  readonly operatorToken: string;
};

/** Only the process itself knows its id, which the protocol of systemd asks for. */
const withSocket = ["sh", "-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"', "sh"];

const entry = join(import.meta.dirname, "../../src/main.ts");

/**
 * `settings` are SLIPWAY_… variables, `socket` is one that it is to use. The platform and its
 * replicas stop when the test ends.
 */
export async function startPlatform(
  t: TestContext,
  settings: Record<string, string> = {},
  { socket }: { readonly socket?: number } = {},
): Promise<PlatformProcess> {
  const dataDir = await mkdtemp(join(tmpdir(), "slipway-test-"));
  const platform = new PlatformProcess(dataDir, settings);
  t.after(() => platform.remove());
  await platform.restart(socket === undefined ? {} : { socket });
  return platform;
}

/** A platform, however it was started. */
export type CalledPlatform = Pick<PlatformProcess, "bootstrap" | "api">;

/** Calls the management API with the owner's service account. */
export async function callApi(
  { baseUrl, serviceAccountToken }: Bootstrap,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; body: Json; headers: Headers }> {
  const hasBody = body !== undefined;
  const response = await fetch(`${baseUrl}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${serviceAccountToken}`,
      ...(hasBody ? { "content-type": "application/json" } : {}),
    },
    ...(hasBody ? { body: typeof body === "string" ? body : JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text === "" ? null : JSON.parse(text),
  };
}

/** A running platform under test. */
export class PlatformProcess {
  readonly dataDir: string;
  readonly #settings: Record<string, string>;
  #printed = "";
  #child: ChildProcess | undefined;
  #bootstrap: Bootstrap | undefined;

  constructor(dataDir: string, settings: Record<string, string>) {
    this.dataDir = dataDir;
    givePip(join(dataDir, "builds"));
    this.#settings = settings;
  }

  get bootstrap(): Bootstrap {
    if (this.#bootstrap === undefined) throw new Error("the platform has not started");
    return this.#bootstrap;
  }

  /** Everything it has printed so far, both streams. */
  output(): string {
    return this.#printed;
  }

  /** The process id, for signals. */
  pid(): number {
    return this.#child?.pid ?? -1;
  }

  /**
   * Starts it (again) on its data folder and waits until it reports that it is ready. `entry`: a
   * program other than the platform's own. `inherited`: further open file descriptors of the
   * process, by number. `socket`: the descriptor of a listening socket that it is to use.
   */
  async restart(
    other: {
      readonly entry?: string;
      readonly environment?: Record<string, string>;
      readonly inherited?: Readonly<Record<number, number>>;
      readonly socket?: number;
    } = {},
  ): Promise<void> {
    const before = this.#printed.length;
    const own = { SLIPWAY_PORT: "0", SLIPWAY_DATA_DIR: this.dataDir, SLIPWAY_DRIVER: "process" };
    const stdio: (number | "ignore" | "pipe")[] = ["ignore", "pipe", "pipe"];
    for (const [number, open] of Object.entries(other.inherited ?? {}))
      stdio[Number(number)] = open;
    if (other.socket !== undefined) stdio[3] = other.socket;
    const program = [process.execPath, other.entry ?? entry];
    const words = other.socket === undefined ? program : [...withSocket, ...program];
    const child = spawn(words[0] ?? "", words.slice(1), {
      stdio: Array.from(stdio, (one) => one ?? "ignore"),
      env: { ...cleanEnvironment(), ...own, ...this.#settings, ...other.environment },
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on("data", (chunk: Buffer) => (this.#printed += chunk.toString()));
    }
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`the platform ended with ${String(code)}:\n${this.#printed}`);
    });
    const isReady = (): boolean => /^slipway ready /m.test(this.#printed.slice(before));
    const isDecided = (): boolean => isReady() || this.hasEnded();
    await Promise.race([
      until("the platform says that it is ready", isDecided, { deadlineMs: 60_000 }),
      ended,
    ]);
    if (!isReady()) await ended;
    ended.catch(() => undefined);
    const file = await readFile(join(this.dataDir, "bootstrap.json"), "utf8");
    this.#bootstrap = JSON.parse(file) as Bootstrap;
  }

  /** True when its process does not exist, whoever ended it. */
  hasEnded(): boolean {
    const child = this.#child;
    return child === undefined || child.exitCode !== null || child.signalCode !== null;
  }

  /** Resolves when it has exited on its own. */
  async ended(): Promise<void> {
    await until("the platform ends by itself", () => this.hasEnded(), { deadlineMs: 60_000 });
  }

  /** Sends the signal and waits until it has exited; returns the exit code. */
  async end(signal: "SIGTERM" | "SIGKILL" | "SIGINT"): Promise<number | null> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return child?.exitCode ?? null;
    child.kill(signal);
    try {
      await until(`the platform ends after ${signal}`, () => this.hasEnded(), {
        deadlineMs: 90_000,
      });
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
    return child.exitCode;
  }

  /** Stops it, its replicas and its database, and removes its data folder. */
  async remove(): Promise<void> {
    await this.end("SIGTERM");
    if (process.env["SLIPWAY_TEST_SHOW"] === "1") process.stderr.write(this.#printed);
    const ours = ["builds", "replicas", "sandbox", "postgres"].map((name) =>
      join(this.dataDir, name),
    );
    await endProcessesThatName(ours);
    await this.#removeCgroups();
    await rm(this.dataDir, { recursive: true, force: true });
  }

  /** Left behind by a killed platform, or by one whose replicas were killed. */
  async #removeCgroups(): Promise<void> {
    const instanceId = await readFile(join(this.dataDir, "instance.id"), "utf8").catch(() => "");
    if (instanceId === "") return;
    const cgroups = detectCgroups(instanceId.trim());
    await until("the cgroups of the test's replicas are gone", () => {
      removeLeftGroups(cgroups, () => false);
      return cgroups.parents.every((parent) => groupNames(parent).length === 0);
    });
    releaseCgroups(cgroups);
  }

  /** A call of the management API with the owner's service account. */
  async api(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; body: Json; headers: Headers }> {
    return await callApi(this.bootstrap, method, path, body);
  }

  /** A call of an app with the inference token. */
  call(app: string, path: string, body?: unknown, init: RequestInit = {}): Promise<Response> {
    const { apiUrl, projectId, inferenceToken } = this.bootstrap;
    return fetch(`${apiUrl}/v4/${projectId}/${app}/${path}`, {
      method: "POST",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...init,
      headers: {
        authorization: `Bearer ${inferenceToken}`,
        "content-type": "application/json",
        ...(init.headers as Record<string, string> | undefined),
      },
    });
  }
}

/**
 * The environment without settings of a surrounding platform, and with the test run's compile
 * cache.
 */
function cleanEnvironment(): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    const isOthers =
      name.startsWith("SLIPWAY_") || (name.startsWith("NODE_") && name !== "NODE_COMPILE_CACHE");
    if (value !== undefined && !isOthers) kept[name] = value;
  }
  return kept;
}

/**
 * Replicas outlive the platform by design, and a killed platform leaves its database: ends
 * processes that name the folders.
 */
async function endProcessesThatName(folders: readonly string[]): Promise<void> {
  const alive = async (): Promise<number[]> => {
    const found: number[] = [];
    for (const name of await readdir("/proc")) {
      if (!/^\d+$/.test(name) || Number(name) === process.pid) continue;
      const read = (file: string): Promise<string> =>
        readFile(`/proc/${name}/${file}`, "utf8").catch(() => "");
      const text = (await read("environ")) + (await read("cmdline"));
      if (folders.some((folder) => text.includes(folder))) found.push(Number(name));
    }
    return found;
  };
  const endAll = async (): Promise<boolean> => {
    const pids = await alive();
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has exited in the meantime.
      }
    }
    return pids.length === 0;
  };
  await until("processes of the test's data folder are gone", endAll, { deadlineMs: 60_000 });
}
