// Starts Debian's Docker engine for tests: with folders, a bridge, addresses and control groups of
// its own, so that it neither sees nor disturbs another engine of the machine. The engine stays in
// the machine's network: the rules that a driver makes for containers act on it. `engine-traces.ts`
// removes what it leaves on the machine.
import { execFile, execFileSync, spawn, spawnSync, type ChildProcess } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  openSync,
  closeSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  endProcessesBelow,
  enginePath,
  makeBridge,
  removeTraces,
  type EngineNetwork,
} from "./engine-traces.ts";
import { until } from "./until.ts";
import { errorMessage } from "#lib/error-message.ts";

const programs = ["dockerd", "docker", "containerd", "runc", "iptables", "ip", "setpriv"];
/**
 * A folder with the programs of another engine than Debian's: dockerd, containerd with its shim,
 * runc, docker-proxy.
 */
const otherEngine = process.env["SLIPWAY_TEST_DOCKERD"];
const path = otherEngine === undefined ? enginePath : `${otherEngine}:${enginePath}`;
const clientProgram = "/usr/bin/docker";
const startWaitMs = 90_000;
/** It ends its containers first. */
const endWaitMs = 60_000;
/** One that does not answer has nothing to end. */
const failedEndWaitMs = 10_000;
const clientWaitMs = 120_000;
/** Whoever waits for the engine looks at other things meanwhile, which this blocks. */
const askWaitMs = 10_000;

/** The engine's second OCI runtime: runc, which leaves a trace. */
export const tracedRuntime = "traced";

/** An engine that runs. */
export type Engine = {
  readonly socketPath: string;
  /** The value for DOCKER_HOST. */
  readonly dockerHost: string;
  /** Where the engine keeps images and containers. */
  readonly dataRoot: string;
  /**
   * What its second runtime was called with: a line for each, which contains the container's id.
   */
  readonly tracedFile: string;
  /**
   * The machine's address at the engine's default bridge: containers reach servers of a test there.
   */
  readonly hostAddress: string;
};

/** An engine and the way to end it. */
export type StartedEngine = Engine & {
  /** Containers and networks that are there, by name. */
  left(): string[];
  /**
   * Ends the engine, `SIGKILL` as if it had crashed. `startEngine` with the same folder goes on.
   * Rejects when it had to be killed because it did not end.
   */
  end(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Ends the engine and its containers, and removes all that it made outside its folder. */
  stop(): Promise<void>;
};

/** Why no engine can be started here; false when one can. */
export function engineObstacle(): string | false {
  if (process.platform !== "linux" || process.getuid?.() !== 0)
    return "only root on Linux can start a Docker engine";
  const folders = path.split(":");
  const missing = programs.find(
    (name) => !folders.some((folder) => existsSync(join(folder, name))),
  );
  return missing === undefined ? false : `there is no ${missing}, which a Docker engine needs`;
}

/** Runs Debian's client with the engine and returns its output. Throws when it fails. */
export function runDocker(
  { dockerHost }: Pick<Engine, "dockerHost">,
  ...parameters: readonly string[]
): string {
  return execFileSync(clientProgram, parameters, {
    ...clientOptions(dockerHost),
    stdio: "pipe",
  }).trim();
}

/** As `runDocker`, for a test that calls the platform meanwhile. */
export async function runDockerBeside(
  { dockerHost }: Pick<Engine, "dockerHost">,
  ...parameters: readonly string[]
): Promise<string> {
  const client = promisify(execFile)(clientProgram, parameters, clientOptions(dockerHost));
  return (await client).stdout.trim();
}

function clientOptions(dockerHost: string) {
  const env = {
    PATH: enginePath,
    DOCKER_HOST: dockerHost,
    DOCKER_CONFIG: "/nonexistent",
    DOCKER_BUILDKIT: "1",
  };
  return { env, encoding: "utf8", timeout: clientWaitMs } as const;
}

/**
 * Starts an engine in the folder, whose path must be short because of its sockets. `isLocal`: its
 * containers do not get beyond the machine, and it leaves the tables of iptables alone, which an
 * engine that starts empties while others use them.
 */
export async function startEngine(
  folder: string,
  { isLocal = false, waitMs = startWaitMs } = {},
): Promise<StartedEngine> {
  mkdirSync(join(folder, "tmp"), { recursive: true });
  const network = await makeBridge(folder);
  const socketPath = join(folder, "docker.sock");
  const dataRoot = join(folder, "data");
  const engine = {
    socketPath,
    dockerHost: `unix://${socketPath}`,
    dataRoot,
    hostAddress: network.address,
    tracedFile: join(folder, "traced"),
  };
  const child = spawnEngine(folder, { ...engine, network, isLocal });
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const end = async (signal: "SIGTERM" | "SIGKILL", deadlineMs = endWaitMs): Promise<void> => {
    child.kill(signal);
    try {
      await until("the engine ends", isOver, { deadlineMs });
    } catch (error) {
      child.kill("SIGKILL");
      await until("the killed engine ends", isOver, { deadlineMs });
      throw error;
    } finally {
      // The kernel ends a killed engine's containerd; until init has collected it, the next engine
      // would wait for its answers.
      rmSync(join(folder, "exec/containerd/containerd.pid"), { force: true });
    }
  };
  const stop = async (deadlineMs?: number): Promise<void> => {
    try {
      await end("SIGTERM", deadlineMs);
    } finally {
      await endProcessesBelow(folder);
      await removeTraces(folder, network);
    }
  };
  try {
    await until("the engine answers", () => isOver() || answers(engine), { deadlineMs: waitMs });
    if (isOver()) throw new Error("it ended");
  } catch (error) {
    const log = readFileSync(join(folder, "log"), "utf8").slice(-2000);
    await stop(failedEndWaitMs).catch(() => undefined);
    const why = errorMessage(error);
    throw new Error(`the engine of ${otherEngine ?? "Debian"} did not start (${why}): ${log}`, {
      cause: error,
    });
  }
  return { ...engine, left: () => listLeft(engine), end, stop: () => stop() };
}

function answers({ dockerHost }: Pick<Engine, "dockerHost">): boolean {
  const env = { PATH: enginePath, DOCKER_HOST: dockerHost, DOCKER_CONFIG: "/nonexistent" };
  return spawnSync(clientProgram, ["version"], { env, timeout: askWaitMs }).status === 0;
}

/**
 * `setpriv`: the engine ends in order when its starter is killed. Without a file for the
 * configuration, it reads the machine's.
 */
function spawnEngine(
  folder: string,
  given: Engine & { readonly network: EngineNetwork; readonly isLocal: boolean },
): ChildProcess {
  const { network, dataRoot, dockerHost, tracedFile, isLocal } = given;
  const { name, bridge, pool } = network;
  const runtime = join(folder, "runtime");
  writeFileSync(runtime, `#!/bin/sh\necho "$*" >> ${tracedFile}\nexec runc "$@"\n`, {
    mode: 0o700,
  });
  const runtimes = { [tracedRuntime]: { path: runtime } };
  writeFileSync(join(folder, "daemon.json"), JSON.stringify({ runtimes }));
  const options = {
    "config-file": join(folder, "daemon.json"),
    "data-root": dataRoot,
    "exec-root": join(folder, "exec"),
    pidfile: join(folder, "docker.pid"),
    host: dockerHost,
    bridge,
    "default-address-pool": `base=${pool},size=26`,
    "cgroup-parent": `/${name}`,
    "containerd-namespace": name,
    "containerd-plugins-namespace": `${name}-plugins`,
    // Forwarding is on already. An engine that turns it on also drops what others forward.
    "ip-forward": "false",
    ...(isLocal ? { iptables: "false", "ip-masq": "false" } : {}),
    "shutdown-timeout": "2",
  };
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
  const words = Object.entries(options).map(([option, value]) => `--${option}=${value}`);
  const log = openSync(join(folder, "log"), "a");
  try {
    const env = { PATH: path, TMPDIR: join(folder, "tmp") };
    const stdio = ["ignore", log, log] as const;
    return spawn("setpriv", ["--pdeathsig", "TERM", "dockerd", ...words], {
      env,
      cwd: "/",
      stdio: [...stdio],
    });
  } finally {
    closeSync(log);
  }
}

const networksOfEngine = ["bridge", "host", "none"];

function listLeft(engine: Engine): string[] {
  const list = (...parameters: string[]): string[] =>
    runDocker(engine, ...parameters)
      .split("\n")
      .filter(Boolean);
  const networks = list("network", "ls", "--format", "{{.Name}}").filter(
    (name) => !networksOfEngine.includes(name),
  );
  const containers = list("ps", "-a", "--format", "{{.Names}} ({{.Image}})");
  return [
    ...containers.map((one) => `the container ${one}`),
    ...networks.map((one) => `the network ${one}`),
  ];
}

/** The processes whose files are of a container or a step of the engine. */
export function programsIn({ dataRoot }: Engine): string[] {
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && rootOf(pid).includes(dataRoot));
}

function rootOf(pid: string): string {
  try {
    const mounts = readFileSync(`/proc/${pid}/mountinfo`, "utf8").split("\n");
    return mounts.find((line) => line.split(" ")[4] === "/") ?? "";
  } catch {
    return "";
  }
}
