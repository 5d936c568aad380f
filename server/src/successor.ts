// Hands the platform's socket on to another platform for the same data folder, such as a newer
// version, so that no call is refused. `slipway restart` writes to a file how the other platform is
// started, and sends SIGUSR2. The running platform starts the other one with the socket, and stops
// only when the other one has read its settings and waits for the data folder. `run-platform.ts`
// calls the functions for both sides.
import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import type { Server } from "node:http";
import type { Log } from "#lib/log.ts";

/** How the other platform is started. */
type SuccessorFile = {
  readonly program: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  /** The file that gets what the other platform prints. */
  readonly logFile: string;
};

/**
 * Arguments of `sh`, after which the program follows. The shell puts its own process id into
 * LISTEN_PID, and then becomes the program, which keeps this id.
 */
const withSocket = ["-c", 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"', "sh"];

export type HandOverParts = {
  readonly file: string;
  readonly server: Server;
  readonly log: Log;
};

/** Resolves when a successor was asked for and waits for this process to end. */
export function handOver({ file, server, log }: HandOverParts): Promise<void> {
  // A `slipway restart` that was killed may have left the file.
  rmSync(file, { force: true });
  return new Promise((resolve) => {
    let successor: ChildProcess | null = null;
    const onFailure = (error: unknown): void => {
      successor = null;
      log.error({ err: error }, "another platform was to take over, but did not start");
    };
    process.on("SIGUSR2", () => {
      // A successor is starting already, so this request and its file are dropped.
      if (successor !== null) return rmSync(file, { force: true });
      try {
        const child = start(takeFile(file), server);
        successor = child;
        child.once("error", onFailure);
        child.once("exit", (code) => onFailure(new Error(`it ended with code ${String(code)}`)));
        child.once("message", () => resolve());
        // The successor waits for the end of this process, which must not wait for the successor.
        child.unref();
        child.channel?.unref();
      } catch (error) {
        onFailure(error);
      }
    });
  });
}

/** Reads the file, and removes it, since it may hold secrets. */
function takeFile(file: string): SuccessorFile {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as SuccessorFile;
  } finally {
    rmSync(file, { force: true });
  }
}

function start(
  { program, cwd, environment, logFile }: SuccessorFile,
  server: Server,
): ChildProcess {
  const output = openSync(logFile, "a", 0o600);
  let pid: number | undefined;
  try {
    const child = spawn("sh", [...withSocket, ...program], {
      cwd,
      env: environment,
      detached: true,
      // The socket gets descriptor 3, where the protocol of LISTEN_FDS expects it.
      stdio: ["ignore", output, output, descriptorOf(server), "ipc"],
    });
    ({ pid } = child);
    return child;
  } finally {
    // Whoever waits for the successor learns from this line which process to look at.
    writeSync(output, `slipway successor ${pid ?? "failed"}\n`);
    closeSync(output);
  }
}

/** The descriptor of a server's socket, for which Node has no public name. */
function descriptorOf(server: Server): number {
  const { _handle: handle } = server as unknown as { readonly _handle: { readonly fd: number } };
  return handle.fd;
}

/** True when another platform has started this one to be its successor. */
export function hasPredecessor(inheritedSocket: number | null): boolean {
  return inheritedSocket !== null && process.connected === true;
}

/** Tells the predecessor that this platform could start, and waits until its process has ended. */
export function predecessorEnds(): Promise<void> {
  return new Promise((resolve) => {
    // The channel to the predecessor closes when its process ends.
    process.once("disconnect", resolve);
    process.send?.("waits");
  });
}
