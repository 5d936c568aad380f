// Commands in running replicas, as every driver runs them: with the replica's variables, user,
// files, network and limits, and with no more rights than the app has.
import type { Readable, Writable } from "node:stream";

/** In characters. */
export type TerminalSize = { readonly columns: number; readonly rows: number };

/** What to run. Its words may be secret, and must not reach a log or an error. */
export type ExecCommand = {
  readonly command: readonly [string, ...string[]];
  /** The first size of its terminal; null: it has none. */
  readonly terminal: TerminalSize | null;
};

/** How a command ended. */
export type ExecEnd = {
  /**
   * As shells tell it: 127 when there is no such program, 128 and the number of the signal that
   * ended it. Null: unknown.
   */
  readonly exitCode: number | null;
  /**
   * A sentence for whoever runs it: why it could not be started, or did not end by itself; null: it
   * says so itself.
   */
  readonly message: string | null;
};

/** A command that was started. Whoever has it reads both outputs to their end, or calls `end`. */
export interface RunningExec {
  readonly stdin: Writable;
  /** With a terminal, all output. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /**
   * Resolves when it has ended, its outputs too, and nothing that it started is left. Never
   * rejects.
   */
  readonly ended: Promise<ExecEnd>;
  /** Only with a terminal; does nothing when it has ended. */
  resize(size: TerminalSize): void;
  /** Kills it with all that it started, for this reason; the outputs may lose what was not read. */
  end(reason: string): void;
}

/** Why a command cannot be run in a replica, in a sentence for whoever asked. */
export class ExecRefused extends Error {
  override readonly name = "ExecRefused";
}

/**
 * The variable by which a driver finds what a command started, wherever that has moved:
 * `<replica>.<number>`. It is removed from nothing, so a command can hide from it only what ends
 * with the replica anyway.
 */
export const execVariable = "SLIPWAY_EXEC";

/** The message for a replica that does not run any more. */
export const replicaNotRunning = "The replica does not run any more.";
