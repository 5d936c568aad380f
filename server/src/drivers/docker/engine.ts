// Connects to a Docker engine, through dockerode.
import { existsSync, readFileSync } from "node:fs";
import Docker from "dockerode";

/** One engine of this machine. */
export type Engine = {
  /** The client for requests with one answer; a request without a byte for `callWaitMs` fails. */
  readonly calls: Docker;
  /** The client that asks whether the engine answers: it does at once, unless it hangs. */
  readonly pings: Docker;
  /** The client for answers without an end: events and logs. */
  readonly streams: Docker;
  readonly facts: EngineFacts;
};

/** What the engine says about itself. */
export type EngineFacts = {
  readonly version: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /**
   * The maximum number of open files of a process in a container: the engine can allow no more than
   * it may have itself.
   */
  readonly filesMax: number;
  /** The folder with the engine's images, containers and running builds. */
  readonly dataRoot: string;
  /** The OCI runtimes that the engine had when it was connected. */
  readonly runtimes: readonly string[];
  /**
   * False when the engine is in a virtual machine, or does not have root's rights, so that
   * containers are reached only through published ports.
   */
  readonly hasReachableContainers: boolean;
};

const callWaitMs = 60_000;
const pingWaitMs = 5_000;
/** The maximum number of open files, also where this process may have more. */
const filesLimit = 65_536;

/** Connects to the engine at the socket; rejects when none answers. */
export async function connectEngine(socketPath: string, waitMs = callWaitMs): Promise<Engine> {
  const calls = new Docker({ socketPath, timeout: waitMs });
  const info = (await calls.info()) as EngineInfo;
  const isRootless = (info.SecurityOptions ?? []).some((option) =>
    option.startsWith("name=rootless"),
  );
  const isDesktop = process.platform !== "linux" || info.OperatingSystem === "Docker Desktop";
  return {
    calls,
    pings: new Docker({ socketPath, timeout: pingWaitMs }),
    streams: new Docker({ socketPath }),
    facts: {
      version: info.ServerVersion,
      cores: info.NCPU,
      memoryBytes: info.MemTotal,
      dataRoot: info.DockerRootDir,
      filesMax: Math.min(filesLimit, ownFilesMax()),
      runtimes: runtimesIn(info),
      hasReachableContainers: !isRootless && !isDesktop,
    },
  };
}

/**
 * Returns the OCI runtimes that the engine has now, for example `runc`. Its operator may add and
 * remove some while it runs.
 */
export async function runtimesOf({ calls }: Pick<Engine, "calls">): Promise<readonly string[]> {
  return runtimesIn((await calls.info()) as EngineInfo);
}

/** Returns the registry of image names that name no registry. */
export async function usualRegistry({ calls }: Pick<Engine, "calls">): Promise<string> {
  return ((await calls.info()) as EngineInfo).IndexServerAddress;
}

function runtimesIn({ Runtimes }: EngineInfo): readonly string[] {
  return Object.keys(Runtimes ?? {});
}

/** Returns the limit of this process: the engine on the same machine probably has the same one. */
function ownFilesMax(): number {
  // Other systems than Linux lack the file, and a limit may be the word `unlimited`.
  const limits = existsSync("/proc/self/limits") ? readFileSync("/proc/self/limits", "utf8") : "";
  return Number(/^Max open files\s+\S+\s+(\d+)/m.exec(limits)?.[1] ?? filesLimit);
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

/** Whether the engine did not answer at all, for example because it is down. */
export function isUnreachable(error: unknown): boolean {
  if (!(error instanceof Error) || engineStatus(error) !== null) return false;
  const { code = "", syscall } = error as NodeJS.ErrnoException;
  return syscall === "connect" || brokenCodes.has(code);
}

/**
 * Returns the answer, or undefined when the engine refuses with one of these statuses, such as 404
 * when something is already gone.
 */
export async function unlessStatus<Answer>(
  statuses: readonly number[],
  call: Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await call;
  } catch (error) {
    // An error without a status counts as 0, which no caller lists.
    if (statuses.includes(engineStatus(error) ?? 0)) return undefined;
    throw error;
  }
}
