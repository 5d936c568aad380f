// The contract for commands that somebody runs in a replica. Every driver runs them with the
// replica's variables, user, files, network and limits, and with no more rights than the app has.
import type { Readable, Writable } from "node:stream";

/** Columns and rows count characters. */
export type TerminalSize = { readonly columns: number; readonly rows: number };

/** The command to run. Its words may be secret, and must not reach a log or an error. */
export type ExecCommand = {
  readonly command: readonly [string, ...string[]];
  /** The terminal's size at the start; null: the command gets no terminal. */
  readonly terminal: TerminalSize | null;
};

/** How a command ended. */
export type ExecEnd = {
  /**
   * The exit code as in a shell: 127 when the program does not exist, and 128 plus the signal's
   * number when a signal ended it. Null: unknown.
   */
  readonly exitCode: number | null;
  /**
   * A sentence for the person who runs the command: why it could not start, or why it was ended.
   * Null when the command ended by itself: its output explains how.
   */
  readonly message: string | null;
};

/** A command that was started. Its user reads both outputs to their end, or calls `end`. */
export interface RunningExec {
  readonly stdin: Writable;
  /** A command with a terminal writes everything here, and nothing to `stderr`. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /**
   * Resolves when the command and all that it started are gone, and both outputs have ended. Never
   * rejects.
   */
  readonly ended: Promise<ExecEnd>;
  /** Only for a command with a terminal; does nothing after the command's end. */
  resize(size: TerminalSize): void;
  /** Kills the command with all that it started. Output that was not yet read may be lost. */
  end(reason: string): void;
}

/** The driver refuses to run a command; the message is a sentence for the person who asked. */
export class ExecRefused extends Error {
  override readonly name = "ExecRefused";
}

/**
 * The environment variable that marks every process of a command, so that a driver finds the
 * processes wherever they have moved. The value is the replica's id, a dot, and a text that no
 * other command in the replica has. A process that removes the variable from its environment is not
 * found, but still ends with the replica.
 */
export const execVariable = "SLIPWAY_EXEC";

/** The message of `ExecRefused` for a replica that has ended. */
export const replicaNotRunning = "The replica does not run any more.";
