// `slipway dev`: runs the app of a folder on this machine, without a platform, and again at each
// save.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readAppFolder, tableOf, type AppFolder } from "./app-folder.ts";
import { curlCall, exampleOf } from "./call-example.ts";
import { command, type Given } from "./command.ts";
import { DevProcess } from "./dev-process.ts";
import { devPython } from "./dev-python.ts";
import { DevWatch } from "./dev-watch.ts";
import { readEnvFile } from "./env-file.ts";
import { freePort } from "./free-port.ts";
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";

const about = `
Run the app of a folder on this machine, with the runtime that the platform has, and again at each save. It needs a Python,
and no platform: packages are installed in a virtual environment below ~/.cache/slipway. Variables, such as secrets, come from
the file .env. Not isolated, and without the system packages, build commands and storage of a deployment: the app sees this
machine's own folders at /persistent-storage and other paths. Ctrl-C ends it.`;

/** The command that runs the app of a folder on this machine. */
export const dev = command({
  name: "dev",
  about,
  examples: ["dev", "dev shop --port 9000 --env shop/.env.local"],
  endsItself: true,
  operands: [{ name: "folder", about: "The app's folder. Default: this one.", isOptional: true }],
  options: {
    port: {
      value: "<port>",
      about: "Where it answers. Default: the first free port from the app's own on.",
      short: "p",
    },
    env: {
      value: "<file>",
      about: "A file with variables of the app. Default: .env in its folder.",
    },
  },
  async run(given, machine) {
    const path = readAppFolder(given.operand("folder")).path;
    const variables =
      given.text("env") === undefined ? join(path, ".env") : resolve(given.text("env") ?? "");
    if (given.has("env") && !existsSync(variables))
      throw new Refused(`${variables} does not exist.`, { exitCode: 2 });
    const session = new DevSession({ path, variables, port: portOf(given), machine });
    return await session.run();
  },
});

type DevOptions = {
  readonly path: string;
  readonly variables: string;
  /** Null: any. */
  readonly port: number | null;
  readonly machine: Machine;
};

class DevSession {
  readonly #given: DevOptions;
  readonly #stop = new AbortController();
  #port: number | null = null;

  constructor(given: DevOptions) {
    this.#given = given;
  }

  /** Until a signal; then nothing of the app is left. */
  async run(): Promise<number> {
    const { path, variables, machine } = this.#given;
    let code = 130;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (signal !== "SIGINT") code = 143;
      this.#stop.abort();
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, onSignal);
    const watch = new DevWatch(path, [variables]);
    try {
      while (!this.#stop.signal.aborted) {
        await watch.look();
        await this.#runOnce(watch);
        if (!this.#stop.signal.aborted) machine.tell("\nFiles have changed: starting again …");
      }
    } finally {
      watch.close();
    }
    machine.tell("\nThe app has ended.");
    return code;
  }

  /** Runs the app until something changes, or until it ends. */
  async #runOnce(watch: DevWatch): Promise<void> {
    const { machine } = this.#given;
    const { signal } = this.#stop;
    let app: DevProcess | null = null;
    try {
      app = await this.#start();
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      machine.tell(`${error.message}\nWaiting for a change …`);
    }
    let isEnding = false;
    // What it printed before says why.
    void app
      ?.ended()
      .then(
        (why) =>
          isEnding ||
          signal.aborted ||
          machine.tell(`The app has ended: ${why}. Waiting for a change …`),
      );
    try {
      await watch.changed(signal);
    } finally {
      isEnding = true;
      await app?.end();
    }
  }

  async #start(): Promise<DevProcess> {
    const { path, variables, port, machine } = this.#given;
    const folder = readAppFolder(path);
    requireRunnable(folder, machine);
    const python = await devPython(folder, machine, this.#stop.signal);
    // It stays the same, so that callers find the app again.
    this.#port ??= await freePort(port, folder.custom?.port ?? usualPort);
    const given = existsSync(variables) ? readEnvFile(readFileSync(variables), variables) : {};
    const beganMs = performance.now();
    const environment = { ...machine.environment, ...given };
    const app = new DevProcess({ folder, python, port: this.#port, environment });
    const url = `http://127.0.0.1:${this.#port}`;
    void app.ready().then((isReady) => {
      if (!isReady) return;
      const seconds = ((performance.now() - beganMs) / 1000).toFixed(1);
      machine.tell(
        `${folder.name ?? "The app"} runs at ${url} (ready after ${seconds} s); a save starts it again.`,
      );
      machine.tell(`  Call it: ${curlCall(url, exampleOf(folder), null)}\n`);
    });
    return app;
  }
}

/** The port on which replicas listen unless the settings name another. */
const usualPort = 8000;

function requireRunnable(folder: AppFolder, machine: Machine): void {
  const { custom, path, settings, storagePath } = folder;
  if (custom?.isDockerfile === true) {
    throw new Refused(
      "The app is built from a Dockerfile, which slipway dev does not do. Use docker build and docker run.",
    );
  }
  if (custom === null && !existsSync(join(path, "main.py"))) {
    throw new Refused(`There is no main.py in ${path}. To begin an app here: slipway init`);
  }
  const deployment = tableOf(settings["deployment"]);
  const left = ["pre_build_commands", "shell_commands"].filter((name) =>
    [deployment[name]].flat().some((one) => typeof one === "string" && one.trim() !== ""),
  );
  if (left.length > 0)
    machine.tell(
      `Not run here, only by deployments: ${left.join(" and ")} of ${folder.toml?.file}.`,
    );
  if (storagePath !== null)
    machine.tell(
      `Not here, only in deployments: storage of the app's own. At ${storagePath} it sees this machine's folder.`,
    );
}

function portOf(given: Given): number | null {
  const text = given.text("port");
  if (text === undefined) return null;
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port > 0 && port < 65_536) return port;
  throw new Refused(`--port is "${text}", but must be a port from 1 to 65535.`, { exitCode: 2 });
}
