// The connection to a Docker engine, through dockerode.
import { existsSync, readFileSync } from "node:fs";
import Docker from "dockerode";

/** One engine of this machine. */
export type Engine = {
  /** For requests with one answer; each ends within `callWaitMs` without a byte. */
  readonly calls: Docker;
  /** For asking whether it answers: it does at once, unless it hangs. */
  readonly pings: Docker;
  /** For answers that go on: events and logs. */
  readonly streams: Docker;
  readonly facts: EngineFacts;
};

/** What the engine says about itself. */
export type EngineFacts = {
  readonly version: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /**
   * Open files that a process in a container may have: the engine can allow no more than it may
   * have itself.
   */
  readonly filesMax: number;
  /** Where it keeps images, containers and running builds. */
  readonly dataRoot: string;
  /** OCI runtimes that it had when it was connected. */
  readonly runtimes: readonly string[];
  /**
   * False: in a virtual machine, or started by another user, so that containers are reached only
   * through published ports.
   */
  readonly hasReachableContainers: boolean;
};

const callWaitMs = 60_000;
const pingWaitMs = 5_000;
const filesMost = 65_536;

/** Rejects when no engine answers at the socket. */
export async function connectEngine(socketPath: string, waitMs = callWaitMs): Promise<Engine> {
  const calls = new Docker({ socketPath, timeout: waitMs });
  const info = (await calls.info()) as EngineInfo;
  const isRootless = (info.SecurityOptions ?? []).some((option) =>
    option.startsWith("name=rootless"),
  );
  const isDesktop = process.platform !== "linux" || info.OperatingSystem === "Docker Desktop";
  return {
    calls,
    pings: pingsAt(socketPath),
    streams: new Docker({ socketPath }),
    facts: {
      version: info.ServerVersion,
      cores: info.NCPU,
      memoryBytes: info.MemTotal,
      dataRoot: info.DockerRootDir,
      filesMax: Math.min(filesMost, ownFilesMax()),
      runtimes: runtimesIn(info),
      hasReachableContainers: !isRootless && !isDesktop,
    },
  };
}

/** See `Engine`. */
export function pingsAt(socketPath: string): Docker {
  return new Docker({ socketPath, timeout: pingWaitMs });
}

/**
 * The OCI runtimes that the engine has now, for example `runc`. Its operator may add and remove
 * some while it runs.
 */
export async function runtimesOf({ calls }: Pick<Engine, "calls">): Promise<readonly string[]> {
  return runtimesIn((await calls.info()) as EngineInfo);
}

/** The registry of image names that name none. */
export async function usualRegistry({ calls }: Pick<Engine, "calls">): Promise<string> {
  return ((await calls.info()) as EngineInfo).IndexServerAddress;
}

function runtimesIn({ Runtimes }: EngineInfo): readonly string[] {
  return Object.keys(Runtimes ?? {});
}

/** The limit of this process, which the engine on the same machine is assumed to have too. */
function ownFilesMax(): number {
  const limits = existsSync("/proc/self/limits") ? readFileSync("/proc/self/limits", "utf8") : "";
  return Number(/^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1] ?? filesMost);
}

/** The parts of the engine's answer that are used; dockerode has no type for it. */
type EngineInfo = {
  readonly ServerVersion: string;
  readonly DockerRootDir: string;
  readonly IndexServerAddress: string;
  readonly NCPU: number;
  readonly MemTotal: number;
  readonly OperatingSystem: string;
  readonly SecurityOptions: readonly string[] | null;
  readonly Runtimes: Readonly<Record<string, unknown>> | null;
};

/** The HTTP status of the engine's refusal; null when it did not answer. */
export function engineStatus(error: unknown): number | null {
  const status: unknown = error instanceof Error && "statusCode" in error ? error.statusCode : null;
  return typeof status === "number" ? status : null;
}

/** Error codes of a connection that broke, or of a request that took too long. */
const brokenCodes = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT"]);

/** True when there was no answer at all, as while the engine is down. */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error) || engineStatus(error) !== null) return false;
  const { code = "", syscall } = error as NodeJS.ErrnoException;
  return syscall === "connect" || brokenCodes.has(code);
}

/**
 * Ignores the engine's refusals with one of these statuses, such as 404 when something is already
 * gone.
 */
export async function unlessStatus<Answer>(
  statuses: readonly number[],
  call: Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await call;
  } catch (error) {
    if (statuses.includes(engineStatus(error) ?? 0)) return undefined;
    throw error;
  }
}
