// Runs a command in a container through the engine, with the container's variables, user, folder
// and limits. The engine ends no command when its client leaves, so the shell of the image finds
// the command's processes by an environment variable and kills them.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import { PassThrough, pipeline, Writable, type Readable } from "node:stream";
import type Docker from "dockerode";
import { ExecRefused, execVariable, replicaNotRunning } from "#drivers/exec.ts";
import type { ExecCommand, ExecEnd, RunningExec, TerminalSize } from "#drivers/exec.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import { engineStatus, unlessStatus, type Engine } from "./engine.ts";
import { LogFrames } from "./log-frames.ts";
import { runInside } from "./run-inside.ts";

export type ContainerExecScope = {
  readonly engine: Engine;
  readonly containerId: string;
  readonly replicaId: ReplicaId;
  readonly clock: Clock;
};

/** What the engine answers when the container does not exist (404), or does not run (409). */
const goneStatuses = [404, 409];
/**
 * How long to wait for the shell that kills a command's processes. The shell comes from the app's
 * image, so it may never end.
 */
const killWaitMs = 10_000;
/** How long a start may take. An engine under load needs seconds; one that hangs never answers. */
const startWaitMs = 60_000;
/**
 * How often the engine is asked whether a command has ended. The engine does not report that end,
 * and keeps the connection open for processes that the command has left in the background.
 */
const checkEveryMs = 500;
/**
 * After a command has ended, its connection is closed when this many checks in a row have seen no
 * output on it.
 */
const quietChecksMax = 20;
/**
 * How many times setting the first size of a terminal is tried. Setting it fails until the process
 * runs, and the engine does not report when it does.
 */
const sizeTriesMax = 20;
const sizeAgainMs = 50;
/**
 * The line that the engine writes instead of output when the program is missing; the exit code is
 * 126 then.
 */
const notFoundLine =
  /^OCI runtime exec failed: .*(?:executable file not found|no such file or directory)/;

/** Starts the command. Rejects with `ExecRefused`. */
export async function execInContainer(
  scope: ContainerExecScope,
  exec: ExecCommand,
): Promise<RunningExec> {
  const { engine, containerId, replicaId } = scope;
  const { command, terminal } = exec;
  const marker = `${replicaId}.${randomBytes(8).toString("hex")}`;
  const hasTerminal = terminal !== null;
  const late = new AbortController();
  const cancel = scope.clock.after(startWaitMs, () => late.abort());
  try {
    const options: Docker.ExecCreateOptions = {
      Cmd: [...command],
      AttachStdin: true,
      AttachStdout: true,
      AttachStderr: true,
      Tty: hasTerminal,
      Env: [`${execVariable}=${marker}`, ...(hasTerminal ? ["TERM=xterm"] : [])],
    };
    const { id } = await engine.calls.getContainer(containerId).exec(options);
    // `hijack` turns the connection into a plain stream for both directions.
    const start = { hijack: true, stdin: true, Tty: hasTerminal, abortSignal: late.signal };
    const socket = (await engine.streams.getExec(id).start(start)) as unknown as Socket;
    return new ContainerExec(scope, {
      exec: engine.calls.getExec(id),
      socket,
      marker,
      terminal,
    });
  } catch (error) {
    // An error without a status counts as 0, which is none of these statuses.
    if (goneStatuses.includes(engineStatus(error) ?? 0))
      throw new ExecRefused(replicaNotRunning, { cause: error });
    if (!late.signal.aborted) throw error;
    // The engine may have started the command all the same.
    await endMarked(scope, marker);
    throw new ExecRefused(startIsLate, { cause: error });
  } finally {
    cancel();
  }
}

const startIsLate = `The container engine did not start the command within ${startWaitMs / 1000} s; try again.`;

/**
 * Kills the processes of all commands that an earlier process of the platform ran in the
 * container.
 */
export async function endExecsLeftIn(scope: ContainerExecScope): Promise<void> {
  await endMarked(scope, `${scope.replicaId}.`);
}

type StartedExec = {
  readonly exec: Docker.Exec;
  readonly socket: Socket;
  /** The value of the variable by which the command's processes are found. */
  readonly marker: string;
  readonly terminal: TerminalSize | null;
};

class ContainerExec implements RunningExec {
  readonly ended: Promise<ExecEnd>;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr = new PassThrough();
  readonly #scope: ContainerExecScope;
  readonly #started: StartedExec;
  /** Why the platform ended the command; null: it did not. */
  #reason: string | null = null;
  /** True once the connection is closed. */
  #isOver = false;
  /** True once the engine has said that the program is missing. */
  #isNotFound = false;
  /** True once `resize` was called: the first size must not be set any more. */
  #hasNewSize = false;
  /** How many checks in a row, after the command's end, have seen no output. */
  #quietChecks = 0;

  constructor(scope: ContainerExecScope, started: StartedExec) {
    this.#scope = scope;
    this.#started = started;
    const { socket, terminal } = started;
    // An error needs no handling: "close" follows.
    socket.on("error", () => undefined);
    const stdout = new PassThrough();
    this.stdin = socket;
    this.stdout = stdout;
    socket.once("data", (chunk: Buffer) => {
      this.#isNotFound = notFoundLine.test(textOf(chunk));
    });
    socket.on("data", () => {
      this.#quietChecks = 0;
    });
    this.ended = this.#wait();
    this.#watchEnd();
    if (terminal !== null) {
      this.stderr.end();
      socket.pipe(stdout);
      // `pipe` does not end its target when the connection breaks.
      socket.once("close", () => stdout.end());
      this.#setSize(terminal, sizeTriesMax);
    } else {
      // A broken connection ends both outputs, so the error needs no handling here either.
      pipeline(socket, new Outputs({ stdout, stderr: this.stderr }), () => undefined);
    }
  }

  resize({ columns, rows }: TerminalSize): void {
    const { exec, terminal } = this.#started;
    this.#hasNewSize = true;
    // The engine refuses when the command has ended meanwhile.
    if (terminal !== null && !this.#isOver)
      exec.resize({ w: columns, h: rows }).catch(() => undefined);
  }

  /** Sets the first size; tries again as long as that fails. */
  #setSize({ columns, rows }: TerminalSize, triesLeft: number): void {
    if (this.#isOver || this.#hasNewSize || triesLeft === 0) return;
    this.#started.exec.resize({ w: columns, h: rows }).catch(() => {
      this.#scope.clock.after(sizeAgainMs, () => this.#setSize({ columns, rows }, triesLeft - 1));
    });
  }

  /**
   * Checks again and again whether the command has ended; from then on ends what keeps its
   * connection open.
   */
  #watchEnd(): void {
    this.#scope.clock.after(checkEveryMs, () => {
      if (this.#isOver) return;
      this.#started.exec
        .inspect()
        .then(({ Running }) => (Running ? undefined : this.#endConnection()))
        // If the engine has failed, the connection breaks too, and `#isOver` ends the checks.
        .catch(() => undefined)
        .finally(() => this.#watchEnd());
    });
  }

  /**
   * Kills the processes that the command has left. Then closes the connection if it stays open
   * without output, but not while it is paused, since its client has not read everything yet.
   */
  async #endConnection(): Promise<void> {
    const { socket, marker } = this.#started;
    await endMarked(this.#scope, marker);
    if (socket.isPaused()) return;
    this.#quietChecks++;
    if (this.#quietChecks > quietChecksMax) socket.destroy();
  }

  end(reason: string): void {
    if (this.#reason !== null) return;
    this.#reason = reason;
    // The connection is closed before `#wait` kills the command: while nobody reads the output, the
    // engine runs nothing else in the container, not even the shell that kills.
    this.#started.socket.destroy();
    this.stdout.destroy();
    this.stderr.destroy();
  }

  async #wait(): Promise<ExecEnd> {
    const { exec, socket, marker } = this.#started;
    await once(socket, "close").catch(() => undefined);
    this.#isOver = true;
    await endMarked(this.#scope, marker);
    const info = await unlessStatus(goneStatuses, exec.inspect()).catch(() => undefined);
    const code = info?.ExitCode ?? null;
    // The engine reports 126 for a missing program, but shells report 127.
    const exitCode = code === 126 && this.#isNotFound ? 127 : code;
    if (this.#reason !== null) return { exitCode, message: this.#reason };
    if (info === undefined || info.Running) return { exitCode: null, message: replicaNotRunning };
    return { exitCode, message: null };
  }
}

/** How many bytes the engine puts before each piece of output when there is no terminal. */
const frameHeadBytes = 8;

/** Returns the text of the first chunk, without the head of a frame if it begins with one. */
function textOf(chunk: Buffer): string {
  // The head of a frame begins with the number of its stream: 0, 1 or 2.
  const isFrame = (chunk[0] ?? 0) < 3;
  return chunk.subarray(isFrame ? frameHeadBytes : 0).toString("latin1");
}

/**
 * Separates the two outputs, which share a connection and end with it. While nobody reads one of
 * them, the other one waits too.
 */
class Outputs extends Writable {
  readonly #outputs: Readonly<Record<"stdout" | "stderr", PassThrough>>;
  readonly #frames = new LogFrames({ hasTimes: false });

  constructor(outputs: Readonly<Record<"stdout" | "stderr", PassThrough>>) {
    super();
    this.#outputs = outputs;
  }

  override _write(
    chunk: Buffer,
    _encoding: BufferEncoding,
    done: (error?: Error | null) => void,
  ): void {
    void this.#forward(chunk).finally(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    for (const output of Object.values(this.#outputs)) output.end();
    done(error);
  }

  async #forward(chunk: Buffer): Promise<void> {
    for (const { stream, bytes } of this.#frames.take(chunk)) {
      if (this.destroyed) return;
      const output = this.#outputs[stream];
      if (!output.destroyed && !output.write(bytes)) await untilWritable(output);
    }
  }
}

/** Resolves when the output accepts more, or is closed. */
async function untilWritable(output: PassThrough): Promise<void> {
  // Without the signal, each wait would leave a listener for the event that did not come.
  const over = new AbortController();
  const { signal } = over;
  try {
    await Promise.race([once(output, "drain", { signal }), once(output, "close", { signal })]);
  } finally {
    over.abort();
  }
}

/**
 * Kills all processes whose marker begins with `marker`. The processes stay if the image has no
 * shell, or one that does not work.
 */
async function endMarked(
  { engine, containerId, clock }: ContainerExecScope,
  marker: string,
): Promise<void> {
  const late = new AbortController();
  const command = ["sh", "-c", killScript, "sh", `${execVariable}=${marker}`];
  const run = runInside(engine, containerId, command, late.signal);
  await withDeadline(clock, killWaitMs, run).catch(() => late.abort());
}

/**
 * The script kills until it has found nothing twice in a row: once is not enough, since a process
 * shows no variables during exec. It gives up after 20 rounds: processes that fork faster than they
 * are killed end only with the replica.
 */
const killScript = `
none=0
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  none=$((none + 1))
  for folder in /proc/[0-9]*; do
    case "$(tr '\\0' '\\n' <"$folder/environ" 2>/dev/null)" in
    *"$1"*) kill -9 "\${folder#/proc/}" 2>/dev/null && none=0 ;;
    esac
  done
  [ $none -lt 2 ] || exit 0
done`;
