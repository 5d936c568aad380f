// Builds the environment of an app: a small clean base, the platform's variables for every app,
// then the app's own variables and secrets. Passes nothing from the platform's own environment.
// Pure.
import type { ReplicaSpec } from "./driver.ts";
import { Secret } from "#lib/secret.ts";

export type AppPaths = {
  readonly homeDir: string;
  readonly temporaryDir: string;
  /** The project's persistent storage, as the app sees it. */
  readonly storageDir: string;
  /** The app's virtual environment; null: the app has none, or its image names it. */
  readonly venvDir: string | null;
  /** The path of the Python to use; null: the image sets PATH. */
  readonly python: string | null;
  /** The ids of the GPUs that the app gets. */
  readonly gpus: readonly string[];
  /** Whether the app's server (uvicorn) gets the path at which clients see the app. */
  readonly takesRootPath: boolean;
};

/** Where the app must listen. */
export type ListenAddress = {
  /** The port of a web server; null: the app may choose one. */
  readonly port: number | null;
  /** The path of a cortex app's socket, as the app sees it; null: it listens on a port. */
  readonly socket: string | null;
  /** The address on which a cortex app opens its port. */
  readonly host: string;
  /** The file descriptor on which a cortex app reports its start; null: it reports nothing. */
  readonly readyFd: number | null;
};

/** Returns the secrets in plain text too, so pass the result only to the app's process. */
export function appEnvironment(
  spec: ReplicaSpec,
  paths: AppPaths,
  at: ListenAddress,
): Record<string, string> {
  const environment: Record<string, string> = {
    ...pathOf(paths),
    HOME: paths.homeDir,
    USER: "app",
    LOGNAME: "app",
    LANG: "C.UTF-8",
    TMPDIR: paths.temporaryDir,
    HF_HOME: `${paths.storageDir}/.cache/huggingface`,
    APP_NAME: spec.appName,
    PROJECT_ID: spec.projectId,
    BUILD_ID: spec.buildId,
  };
  if (paths.venvDir !== null) environment["VIRTUAL_ENV"] = paths.venvDir;
  if (spec.runtime === "custom") environment["PYTHONUNBUFFERED"] = "1";
  // uvicorn puts this root path in front of the path of each call, which must not contain it yet.
  const takesRootPath = paths.takesRootPath && !spec.keepsPathPrefix;
  if (takesRootPath) environment["UVICORN_ROOT_PATH"] = `/v4/${spec.projectId}/${spec.appName}`;
  for (const [name, value] of Object.entries(spec.environment)) {
    environment[name] = value instanceof Secret ? value.reveal() : value;
  }
  // CUDA_VISIBLE_DEVICES is empty for an app without GPUs, so that it uses no card of another
  // replica.
  return {
    ...environment,
    ...platformVariables(spec, at),
    CUDA_VISIBLE_DEVICES: cardsAmong(paths.gpus).join(","),
  };
}

/** Returns the ids of the real cards of a claim; simulated GPUs have other ids. */
export function cardsAmong(gpus: readonly string[]): string[] {
  return gpus.filter((id) => id.startsWith("GPU-"));
}

/** Returns PATH, in which the app's Python comes first; nothing when the image sets PATH. */
function pathOf({ python, venvDir }: AppPaths): Record<string, string> {
  if (python === null) return {};
  const pythonDir = venvDir === null ? python.slice(0, python.lastIndexOf("/")) : `${venvDir}/bin`;
  return { PATH: `${pythonDir}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin` };
}

/** Returns the variables without which no call reaches the app: they override the app's own. */
function platformVariables(
  spec: ReplicaSpec,
  { port, socket, host, readyFd }: ListenAddress,
): Record<string, string> {
  const marker = { SLIPWAY_REPLICA_ID: spec.replicaId };
  if (spec.runtime === "custom") return port === null ? marker : { ...marker, PORT: String(port) };
  // With port 0, the app chooses a port.
  return {
    ...marker,
    SLIPWAY_LISTEN: socket === null ? `${host}:${port ?? 0}` : `unix:${socket}`,
    ...(readyFd === null ? {} : { SLIPWAY_READY_FD: String(readyFd) }),
    SLIPWAY_CONCURRENCY: String(spec.concurrency),
    SLIPWAY_GRACE_SECONDS: String(spec.graceSeconds),
    SLIPWAY_LOG_FRAMES: "1",
    SLIPWAY_LOG_LEVEL: spec.logLevel,
  };
}
