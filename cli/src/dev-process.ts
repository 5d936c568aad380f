// One run of an app on this machine for `slipway dev`: a process group of its own, so that all that
// it starts ends with it.
import { spawn, type ChildProcess } from "node:child_process";
import { connect } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import {
  keepOnLoopback,
  replacePort,
} from "@slipway/server/src/drivers/process/entrypoint-port.ts";
import type { AppFolder } from "./app-folder.ts";
import type { DevPython } from "./dev-python.ts";
import { runtimeFolder } from "./own-files.ts";
import { Refused } from "./refused.ts";

export type DevRun = {
  readonly folder: AppFolder;
  readonly python: DevPython;
  readonly port: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
};

/** How long an app has to end when it is asked to. */
const graceMs = 5_000;
const lookEveryMs = 50;
const readyFd = 3;

/** A running app. */
export class DevProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<string>;
  readonly #ready: Promise<boolean>;

  /** Starts it. Its output goes to this terminal. */
  constructor(given: DevRun) {
    const { folder, port } = given;
    const [file = "", ...words] = commandOf(given);
    this.#child = spawn(file, words, {
      cwd: folder.path,
      env: environmentOf(given),
      detached: true,
      stdio: ["ignore", "inherit", "inherit", "pipe"],
    });
    this.#ended = new Promise((resolve) => {
      this.#child.on("error", (error) => resolve(`${file} cannot be started: ${error.message}`));
      this.#child.on("exit", (code, signal) =>
        resolve(`it exited with ${signal ?? `code ${code}`}`),
      );
    });
    this.#ready = folder.custom === null ? this.#saysReady() : this.#listens(port);
    this.#ready.catch(() => undefined);
  }

  /** True when it takes calls, false when it has ended before. */
  ready(): Promise<boolean> {
    return Promise.race([this.#ready, this.#ended.then(() => false)]);
  }

  /** Why it has ended, once it has. */
  ended(): Promise<string> {
    return this.#ended;
  }

  /** Ends it and all that it has started. */
  async end(): Promise<void> {
    this.#signal("SIGTERM");
    const deadlineMs = performance.now() + graceMs;
    while (this.#isThere()) {
      if (performance.now() > deadlineMs) this.#signal("SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  }

  #isThere(): boolean {
    return this.#signal(0);
  }

  /** False when nothing of the group is left. */
  #signal(signal: NodeJS.Signals | 0): boolean {
    const { pid } = this.#child;
    if (pid === undefined) return false;
    try {
      process.kill(-pid, signal);
      return true;
    } catch {
      // ESRCH: it has ended.
      return false;
    }
  }

  /** The runtime writes a line of JSON when the app is imported, or never will be. */
  async #saysReady(): Promise<boolean> {
    let text = "";
    for await (const part of (this.#child.stdio[readyFd] as Readable).setEncoding("utf8")) {
      text += part;
      if (/"ready": ?true/.test(text)) return true;
    }
    return false;
  }

  async #listens(port: number): Promise<boolean> {
    while (this.#child.exitCode === null && this.#child.signalCode === null) {
      if (await answers(port)) return true;
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    return false;
  }
}

function commandOf({ folder, python, port }: DevRun): readonly string[] {
  const { custom } = folder;
  if (custom === null) return [python.program, join(runtimeFolder(), "start.py")];
  const { entrypoint } = custom;
  const words = typeof entrypoint === "string" ? [entrypoint] : entrypoint;
  const [only = ""] = words;
  if (words.length === 0)
    throw new Refused(`runtime.custom in ${folder.toml?.file} has no entrypoint.`);
  if (words.length === 1 && /\s/.test(only)) return keepOnLoopback(["sh", "-c", only]);
  const moved = port === custom.port ? words : replacePort(words, custom.port, port);
  if (moved !== null) return keepOnLoopback(moved);
  throw new Refused(
    `Port ${custom.port} is taken, and the entrypoint does not name it, so that it cannot be changed.`,
  );
}

function environmentOf({ folder, python, port, environment }: DevRun): NodeJS.ProcessEnv {
  const kept = Object.entries(environment).filter(
    ([name]) => !name.startsWith("SLIPWAY_") && name !== "PYTHONHOME",
  );
  return {
    ...Object.fromEntries(kept),
    PATH: `${join(python.folder, "bin")}:${environment["PATH"] ?? ""}`,
    VIRTUAL_ENV: python.folder,
    PYTHONUNBUFFERED: "1",
    APP_NAME: folder.name ?? "app",
    ...(folder.custom === null
      ? {
          SLIPWAY_LISTEN: `127.0.0.1:${port}`,
          SLIPWAY_READY_FD: String(readyFd),
          SLIPWAY_GRACE_SECONDS: "2",
          // No token is asked for here: only who knows this machine may call, not a web page
          // whose name leads to it.
          SLIPWAY_LOCAL_HOSTS: "1",
        }
      : { PORT: String(port) }),
  };
}

async function answers(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.on("connect", () => (socket.destroy(), resolve(true))).on("error", () => resolve(false));
  });
}
