// Runs the process of the embedded PostgreSQL: starts it, watches it, restarts it after an
// unexpected end, stops it.
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import type { ChildProcess } from "node:child_process";
import { backoffMs } from "#lib/backoff.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import { clearOrphan } from "./postgres-orphan.ts";
import type { PostgresProgram } from "./postgres-program.ts";

/**
 * How long a start may take. Crash recovery reads at most the write-ahead log of one checkpoint
 * interval; minutes mean a broken disk.
 */
const readyWaitMs = 120_000;
/** The pause between two looks at the server's process or pid file. */
const pollMs = 5;
/** How long PostgreSQL's fast shutdown (SIGINT) may take, and then its immediate one (SIGQUIT). */
const fastWaitMs = 20_000;
const immediateWaitMs = 5_000;
/**
 * How long a start waits for processes of a killed server. They notice its death within moments,
 * and release its shared memory.
 */
const sharedMemoryWaitMs = 15_000;
const restartRetry: RetryPolicy = {
  firstMs: 100,
  factor: 2,
  msMax: 10_000,
  jitter: 0.2,
  triesMax: untilStop,
};
/** A start puts a log file that is larger than this aside. */
const logFileBytesMax = 1_000_000;

export type PostgresServerOptions = {
  readonly program: PostgresProgram;
  readonly log: Log;
  readonly clock: Clock;
  readonly dataFolder: string;
  readonly logFile: string;
  /** The arguments for `postgres` that set its settings. */
  readonly settings: readonly string[];
};

/** One server on one data folder. To start again after `stop()`, create a new one. */
export class PostgresServer {
  readonly #options: PostgresServerOptions;
  readonly #stopping = new AbortController();
  #child: ChildProcess | undefined;
  #restarting: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: PostgresServerOptions) {
    this.#options = options;
  }

  /** The process id of the server; null while there is none. */
  pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Resolves when the server accepts connections. Throws `CannotStart` with the server's output.
   */
  async start(): Promise<void> {
    const { clock, logFile } = this.#options;
    const deadline = clock.monotonicMs() + sharedMemoryWaitMs;
    for (;;) {
      const offset = startLogFile(logFile);
      const child = this.#spawn();
      if (await this.#isReady(child)) {
        this.#child = child;
        child.once("exit", (code, signal) => this.#onExit(code ?? signal));
        // It may have died before the listener was added.
        if (hasEnded(child)) this.#onExit(child.exitCode ?? child.signalCode);
        return;
      }
      // The offset counts bytes, and a text has fewer characters.
      const printed = readFileSync(logFile).subarray(offset).toString();
      const logTail = printed.trim().slice(-1000);
      // PostgreSQL complains of a block that processes of a killed server still use.
      if (!logTail.includes("shared memory block") || clock.monotonicMs() > deadline) {
        throw new CannotStart(
          `The embedded database does not start; see ${logFile}. It said: ${logTail}`,
        );
      }
      await clock.sleep(100, this.#stopping.signal);
    }
  }

  /**
   * Asks the server to end sessions and write everything, and escalates when that takes long. May
   * be called twice.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort(new Error("the embedded database is stopping"));
    await this.#restarting;
    if (this.#child !== undefined) await this.#end(this.#child);
  }

  /**
   * Starts the server in its own session, so that Ctrl-C in a terminal only reaches the platform,
   * which then stops everything in order.
   */
  #spawn(): ChildProcess {
    const { program, dataFolder, logFile, settings } = this.#options;
    const logDescriptor = openSync(logFile, "a", 0o600);
    try {
      return program.run("postgres", ["-D", dataFolder, ...settings], {
        cwd: "/",
        detached: true,
        stdio: ["ignore", logDescriptor, logDescriptor],
      });
    } finally {
      closeSync(logDescriptor);
    }
  }

  /**
   * Waits until the server's pid file says that it accepts connections; false when it ended first,
   * or took too long.
   */
  async #isReady(child: ChildProcess): Promise<boolean> {
    const { clock, dataFolder } = this.#options;
    // Without a listener, the error of a program that cannot be run would end the platform.
    child.once("error", () => undefined);
    const deadline = clock.monotonicMs() + readyWaitMs;
    while (clock.monotonicMs() < deadline && !this.#stopping.signal.aborted) {
      if (hasEnded(child)) return false;
      if (saysReady(join(dataFolder, "postmaster.pid"), child.pid)) return true;
      await clock.sleep(pollMs);
    }
    await this.#end(child);
    return false;
  }

  #onExit(how: number | string | null): void {
    this.#child = undefined;
    // A restart that is under way notices the end itself.
    if (this.#stopping.signal.aborted || this.#restarting !== undefined) return;
    this.#options.log.error({ how }, "the embedded database ended; starting it again");
    this.#restarting = this.#restart().finally(() => {
      this.#restarting = undefined;
    });
  }

  async #restart(): Promise<void> {
    const { clock, dataFolder, log } = this.#options;
    const { signal } = this.#stopping;
    // Pauses first: the server may end each time right after it starts.
    await clock.sleep(backoffMs(restartRetry, 1, clock.random()), signal).catch(() => undefined);
    const onFailure = (error: unknown, attempt: number): void =>
      log.error({ err: error, attempt }, "the embedded database does not start");
    await retry({ ...restartRetry, clock, signal, onFailure }, async () => {
      await clearOrphan(dataFolder, { log, clock });
      await this.start();
      if (this.#child === undefined) throw new Error("it ended as soon as it had started");
    });
  }

  async #end(child: ChildProcess): Promise<void> {
    const { clock, log } = this.#options;
    for (const [signal, waitMs] of [
      ["SIGINT", fastWaitMs],
      ["SIGQUIT", immediateWaitMs],
      ["SIGKILL", immediateWaitMs],
    ] as const) {
      if (hasEnded(child)) return;
      child.kill(signal);
      const deadline = clock.monotonicMs() + waitMs;
      while (!hasEnded(child) && clock.monotonicMs() < deadline) await clock.sleep(pollMs);
      if (!hasEnded(child)) log.warn({ signal, waitMs }, "the embedded database did not stop");
    }
  }
}

/** Also true when the program could not be run. */
function hasEnded(child: ChildProcess): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
}

/** Line 1 of the pid file is the server's process, line 8 its state. */
function saysReady(pidFile: string, pid: number | undefined): boolean {
  if (!existsSync(pidFile)) return false;
  const lines = readFileSync(pidFile, "utf8").split("\n");
  return lines[0] === String(pid) && lines[7]?.trim() === "ready";
}

/**
 * Keeps the log file small, with one older file beside it; returns the offset where this start's
 * lines begin.
 */
function startLogFile(path: string): number {
  if (!existsSync(path)) return 0;
  if (statSync(path).size > logFileBytesMax) {
    renameSync(path, `${path}.1`);
    return 0;
  }
  return statSync(path).size;
}
