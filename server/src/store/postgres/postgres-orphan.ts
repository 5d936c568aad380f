// Cleans up after an earlier run of the embedded server. Ends its process, which still runs if only
// the platform was killed. Changes its file `postmaster.pid`, since PostgreSQL takes the file for
// that of a running server if another process has the file's process id by now.
import { readFileSync, readlinkSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";

/**
 * When the data folder's path is too long, sockets are in a folder with this prefix in the system's
 * temporary folder.
 */
export const shortSocketPrefix = "slipway-postgres-";

/**
 * A fast shutdown ends sessions and writes a checkpoint; after this time the server gets an
 * immediate shutdown, which loses no data either.
 */
const fastWaitMs = 15_000;
const immediateWaitMs = 5_000;

/**
 * No system uses this process id, so PostgreSQL takes the file for a left-over. It still checks
 * whether the shared memory that the file names is in use.
 */
const impossiblePid = 2_147_483_647;

/**
 * Stops a server that still works on the data folder and makes a left-over pid file harmless. No
 * server of this platform may be using the folder.
 */
export async function clearOrphan(
  dataFolder: string,
  tools: { log: Log; clock: Clock },
): Promise<void> {
  const pidFile = join(dataFolder, "postmaster.pid");
  const lines = readLines(pidFile);
  // PostgreSQL writes a negative number when it runs without clients (single-user mode).
  const pid = Math.abs(Number.parseInt(lines[0] ?? "", 10));
  if (!(pid > 0)) {
    // There is no file, or it is empty or torn. No server runs: it would have filled the file.
    // PostgreSQL refuses to start with an empty or torn file.
    rmSync(pidFile, { force: true });
    return;
  }
  if (isServerOf(pid, dataFolder)) {
    tools.log.warn({ pid }, "an earlier platform's database server still runs; stopping it");
    await stopOrphan(pid, { dataFolder, clock: tools.clock });
  } else {
    writeFileSync(pidFile, [impossiblePid, ...lines.slice(1)].join("\n"));
    removeSocketLock(lines);
  }
  // The fifth line is the folder of the server's socket.
  removeShortSocketFolder(lines[4]);
}

async function stopOrphan(
  pid: number,
  { dataFolder, clock }: { dataFolder: string; clock: Clock },
): Promise<void> {
  for (const [signal, waitMs] of [
    ["SIGINT", fastWaitMs],
    ["SIGQUIT", immediateWaitMs],
  ] as const) {
    signalIfThere(pid, signal);
    const deadline = clock.monotonicMs() + waitMs;
    while (clock.monotonicMs() < deadline) {
      if (!isServerOf(pid, dataFolder)) return;
      await clock.sleep(20);
    }
  }
  throw new CannotStart(
    `Process ${pid} is a database server that works on ${dataFolder} and does not stop; end it.`,
  );
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (errorCode(error) !== "ESRCH") throw error;
  }
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/**
 * True when the process lives and is a PostgreSQL whose working folder is the data folder; a zombie
 * no longer has one.
 */
export function isServerOf(pid: number, dataFolder: string): boolean {
  if (process.platform !== "linux") return isServerByCommand(pid, dataFolder);
  try {
    const program = basename(readlinkSync(`/proc/${pid}/exe`));
    return (
      program.startsWith("postgres") &&
      readlinkSync(`/proc/${pid}/cwd`) === realpathSync(dataFolder)
    );
  } catch {
    // It ended, or it belongs to another user and so is not ours.
    return false;
  }
}

function isServerByCommand(pid: number, dataFolder: string): boolean {
  const { stdout } = spawnSync("ps", ["-o", "command=", "-p", String(pid)], {
    encoding: "utf8",
    timeout: 5_000,
  });
  return typeof stdout === "string" && stdout.includes("postgres") && stdout.includes(dataFolder);
}

/**
 * Removes the lock of the socket, whose port and folder are the fourth and the fifth line of the
 * pid file. The lock names the same process as the pid file, but no shared memory to check: any
 * process with that id, even a zombie, would count as a running server.
 */
function removeSocketLock([, , , port, socketFolder]: readonly string[]): void {
  if (!socketFolder || !/^\d+$/.test(port ?? "")) return;
  rmSync(join(socketFolder, `.s.PGSQL.${port}.lock`), { force: true });
}

/**
 * Removes the folder of the socket if it is a private one in the system's temporary folder, where
 * `makeSocketFolder` of embedded.ts makes it when a path is too long.
 */
function removeShortSocketFolder(folder: string | undefined): void {
  if (folder === undefined || !basename(folder).startsWith(shortSocketPrefix)) return;
  if (
    dirname(folder) === realpathSync(tmpdir()) ||
    dirname(folder) === tmpdir() ||
    dirname(folder) === "/tmp"
  ) {
    rmSync(folder, { recursive: true, force: true });
  }
}
