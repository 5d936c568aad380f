// Runs a command in the sandbox of a replica: in its namespaces and its cgroup, without special
// rights, as the app's user. Processes that the command starts end with the command; a variable in
// their environment identifies them, wherever they have moved.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { constants } from "node:os";
import { PassThrough, Transform, type Readable } from "node:stream";
import { ExecRefused, execVariable, replicaNotRunning } from "#drivers/exec.ts";
import type { ExecCommand, ExecEnd, RunningExec, TerminalSize } from "#drivers/exec.ts";
import type { Clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { entering, type Cgroup } from "./cgroup.ts";
import { endMarked } from "./leftovers.ts";
import { isAlive, processesIn, signal } from "./process-table.ts";
import type { ProcessIdentity } from "./replica-files.ts";
import { enteringSandbox, hasEntry, type Sandbox, type SandboxedCommand } from "./sandbox.ts";

export type ExecScope = {
  readonly replicaId: ReplicaId;
  /** The first process of the replica's sandbox, which is alive. */
  readonly pid: number;
  readonly cgroup: Cgroup;
  readonly sandbox: Sandbox;
  readonly clock: Clock;
  /** The first process of a replica that was forked from a zygote; null: it was not. */
  readonly forked: ProcessIdentity | null;
};

/** The program of util-linux that gives a command a terminal. */
const terminalProgram = "/usr/bin/script";
/** The first line of a command's error output on a terminal. It names the terminal. */
const terminalForm = /^(\/dev\/pts\/\d{1,6})\n/;
/** If so many characters of the error output do not match, it does not begin with that line. */
const terminalLineMax = 64;

/** Numbers the commands of this process of the platform. */
let lastNumber = 0;

/** Starts the command. Throws `ExecRefused`. */
export function execInSandbox(scope: ExecScope, exec: ExecCommand): RunningExec {
  const { replicaId, sandbox, pid } = scope;
  if (sandbox.kind === "none") {
    const why = `replicas have no sandbox here (${sandbox.reason})`;
    throw new ExecRefused(
      `A command would run with all rights of the platform: ${why}. Use the docker driver.`,
    );
  }
  // The root of a forked replica's first process is the app's view, which does not show the entry.
  if (scope.forked === null && !hasEntry({ pid, entry: replicaId }))
    throw new ExecRefused(
      "The replica was started by an older version of the platform. Restart the app: slipway apps restart.",
    );
  if (exec.terminal !== null && !existsSync(terminalProgram))
    throw new ExecRefused(
      `A terminal needs the program ${terminalProgram} on the machine of the platform.`,
    );
  lastNumber++;
  const marker = `${replicaId}.${process.pid}-${lastNumber}`;
  const enter = (command: ExecCommand["command"]): SandboxedCommand =>
    entering(
      scope.cgroup,
      enteringSandbox(sandbox, {
        pid,
        entry: replicaId,
        isForked: scope.forked !== null,
        command,
        environment: { [execVariable]: marker },
      }),
    );
  const { command, terminal } = exec;
  const child = start(enter(terminal === null ? command : onTerminal(command, terminal)));
  if (child === null) throw new ExecRefused("The machine has no room for another process.");
  return new SandboxExec({ ...scope, marker, enter, child }, terminal);
}

/**
 * Kills the processes that commands of an earlier process of the platform have left in these
 * replicas.
 */
export async function endLeftExecs(
  isOurs: (replicaId: ReplicaId) => boolean,
  clock: Clock,
): Promise<void> {
  const prefix = `${execVariable}=`;
  const isMarker = (variable: string): boolean =>
    variable.startsWith(prefix) &&
    isOurs(variable.slice(prefix.length).split(".", 1)[0] as ReplicaId);
  // One search for all markers: apps can give themselves any number of them.
  await endMarked(isMarker, clock);
}

type StartedExec = ExecScope & {
  readonly child: ChildProcessWithoutNullStreams;
  readonly marker: string;
  readonly enter: (command: ExecCommand["command"]) => SandboxedCommand;
};

class SandboxExec implements RunningExec {
  readonly ended: Promise<ExecEnd>;
  readonly #scope: StartedExec;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** The name of the terminal; null until it is known, or when there is no terminal. */
  #terminal: string | null = null;
  /** The latest size that the terminal is to have; null: there is no terminal. */
  #size: TerminalSize | null;
  /**
   * True while a size is being set: of two settings at once, the older could end last and win.
   */
  #isResizing = false;
  /** Why somebody ended the command; null: nobody did. */
  #reason: string | null = null;
  /** True when all processes of the command are gone. */
  #isSwept = false;

  constructor(scope: StartedExec, terminal: TerminalSize | null) {
    this.#scope = scope;
    this.#size = terminal;
    this.#child = scope.child;
    // The command may read no input, or have ended.
    this.#child.stdin.on("error", () => undefined);
    // Piped at once: node drops the output of a process that ends before somebody reads it.
    this.stdout = this.#child.stdout.pipe(new PassThrough());
    this.stderr = this.#child.stderr.pipe(
      terminal === null ? new PassThrough() : this.#terminalReader(),
    );
    this.ended = this.#wait();
  }

  get stdin() {
    return this.#child.stdin;
  }

  resize(size: TerminalSize): void {
    if (this.#size === null) return;
    this.#size = size;
    if (this.#terminal !== null && !this.#isResizing) void this.#applySize(this.#terminal);
  }

  /** Sets the newest size, also when another one comes meanwhile. */
  async #applySize(terminal: string): Promise<void> {
    this.#isResizing = true;
    let applied: TerminalSize | null = null;
    while (this.#size !== null && this.#size !== applied && this.#child.exitCode === null) {
      applied = this.#size;
      const { columns, rows } = applied;
      const words = ["-F", terminal, "cols", String(columns), "rows", String(rows)];
      const child = start(this.#scope.enter(["stty", ...words]));
      if (child === null) break;
      child.stdin.on("error", () => undefined).end();
      child.stdout.resume();
      child.stderr.resume();
      await once(child, "exit").catch(() => undefined);
    }
    this.#isResizing = false;
  }

  end(reason: string): void {
    this.#reason ??= reason;
    // Before the sweep has ended, the outputs are left to `#wait`.
    if (this.#isSwept) this.#dropOutputs();
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) signal(-pid, "SIGKILL");
  }

  /** Takes the first line, which names the terminal, from the error output. */
  #terminalReader(): Transform {
    let text: string | null = "";
    return new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        if (text === null) return done(null, chunk);
        text += chunk.toString("latin1");
        const match = terminalForm.exec(text);
        if (match === null && text.length < terminalLineMax) return done();
        const rest = text.slice(match?.[0].length ?? 0);
        text = null;
        this.#terminal = match?.[1] ?? null;
        // The size may have changed before the terminal was known.
        if (this.#size !== null) this.resize(this.#size);
        done(null, Buffer.from(rest, "latin1"));
      },
    });
  }

  async #wait(): Promise<ExecEnd> {
    const child = this.#child;
    const closed = once(child, "close").catch(() => undefined);
    const exit: unknown = await once(child, "exit").catch(() => [null, null]);
    const [code, signalName] = exit as ExitedWith;
    // End the processes that the command has left: they hold the outputs and the terminal open.
    const { marker, cgroup, clock } = this.#scope;
    await endMarked(`${execVariable}=${marker}`, clock, () => processesIn(cgroup));
    this.#isSwept = true;
    if (this.#reason !== null) this.#dropOutputs();
    await closed;
    // This is how shells report the end by a signal.
    const exitCode = signalName === null ? code : 128 + constants.signals[signalName];
    if (this.#reason === null && this.#isReplicaGone())
      return { exitCode, message: replicaNotRunning };
    return { exitCode, message: this.#reason };
  }

  /** Closes the outputs, whose reader may have gone. */
  #dropOutputs(): void {
    const { stdout, stderr } = this.#child;
    for (const output of [this.stdout, this.stderr, stdout, stderr]) output.destroy();
  }

  #isReplicaGone(): boolean {
    const { pid, replicaId, forked } = this.#scope;
    return forked === null ? !hasEntry({ pid, entry: replicaId }) : !isAlive(forked);
  }
}

type ExitedWith = readonly [code: number | null, signalName: NodeJS.Signals | null];

/** Starts a process; null when the machine cannot start one: then there are no pipes either. */
function start({
  file,
  args,
  environment,
}: SandboxedCommand): ChildProcessWithoutNullStreams | null {
  // The process gets a group of its own, which is killed as a whole.
  const child = spawn(file, args, { cwd: "/", env: environment, stdio: "pipe", detached: true });
  child.on("error", () => undefined);
  return child.pid === undefined ? null : child;
}

/**
 * Wraps the command so that it runs on a new terminal of this size, which belongs to the sandbox.
 * The terminal's name is the first line of the error output. The program `script` runs its text
 * with the shell in SHELL, so the app's own value of SHELL travels as `shell_of_app`. The options
 * make `script` print nothing itself (-q), end with the command's exit code (-e), and keep the
 * terminal's echo (-E always); it records the session in /dev/null. Descriptor 3 is the error
 * output of `script`, for the terminal's name.
 */
function onTerminal(
  command: ExecCommand["command"],
  { columns, rows }: TerminalSize,
): ExecCommand["command"] {
  const words = command.map((word) => shellQuoted(word)).join(" ");
  const shell =
    'if [ -n "$shell_of_app" ]; then SHELL=$shell_of_app; export SHELL; else unset SHELL; fi; unset shell_of_app';
  const inside = `tty >&3; exec 3>&-; stty cols ${columns} rows ${rows}; ${shell}; exec ${words}`;
  const outside = `export shell_of_app="$SHELL" TERM="\${TERM:-xterm}" SHELL=/bin/sh; exec ${terminalProgram} -qeE always -c "$1" /dev/null 3>&2`;
  return ["sh", "-c", outside, "sh", inside];
}
