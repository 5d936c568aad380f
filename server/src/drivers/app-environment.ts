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
  readonly venvDir: string | null;
  /** Null: the image says what is in its PATH. */
  readonly python: string | null;
  /** The GPUs that it gets: ids of cards. */
  readonly gpus: readonly string[];
  /** Whether to tell the app's server (uvicorn) below which path clients see it. */
  readonly takesRootPath: boolean;
};

/**
 * Where the app must listen. `port`: of a web server, null for any; `socket`: the path of a cortex
 * app's socket, as the app sees it. `readyFd`: the descriptor for the report of a cortex app's
 * start.
 */
export type ListenAddress = {
  readonly port: number | null;
  readonly socket: string | null;
  readonly host: string;
  readonly readyFd: number | null;
};

/** Reveals the secrets: pass the result only to the process. */
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
  // uvicorn puts it in front of the path of a call.
  const takesRootPath = paths.takesRootPath && !spec.keepsPathPrefix;
  if (takesRootPath) environment["UVICORN_ROOT_PATH"] = `/v4/${spec.projectId}/${spec.appName}`;
  for (const [name, value] of Object.entries(spec.environment)) {
    environment[name] = value instanceof Secret ? value.reveal() : value;
  }
  // Empty for an app without GPUs: a card is given to one replica.
  return {
    ...environment,
    ...platformVariables(spec, at),
    CUDA_VISIBLE_DEVICES: cardsAmong(paths.gpus).join(","),
  };
}

/** The ids of real cards among those of a claim: a simulated GPU is none. */
export function cardsAmong(gpus: readonly string[]): string[] {
  return gpus.filter((id) => id.startsWith("GPU-"));
}

function pathOf({ python, venvDir }: AppPaths): Record<string, string> {
  if (python === null) return {};
  const first = venvDir === null ? python.slice(0, python.lastIndexOf("/")) : `${venvDir}/bin`;
  return { PATH: `${first}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin` };
}

/** Required for calls to reach the app, so they override the app's settings. */
function platformVariables(
  spec: ReplicaSpec,
  { port, socket, host, readyFd }: ListenAddress,
): Record<string, string> {
  const marker = { SLIPWAY_REPLICA_ID: spec.replicaId };
  if (spec.runtime === "custom") return port === null ? marker : { ...marker, PORT: String(port) };
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
