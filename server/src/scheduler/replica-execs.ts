// Runs commands in replicas for people, and limits their time. An open command does not keep its
// replica alive.
import type { Driver } from "#drivers/driver.ts";
import {
  ExecRefused,
  type ExecCommand,
  type RunningExec,
  type TerminalSize,
} from "#drivers/exec.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { ReplicaId } from "#lib/ids.ts";

/**
 * A command ends when nothing was sent or received for this long, which is far more than proxies
 * usually allow.
 */
const idleMs = 30 * 60_000;
/** A command ends after this time even if it is in use. */
const totalMs = 4 * 3_600_000;
/** The minimum time between two resizes: each starts a process on the machine. */
const resizeEveryMs = 250;

/** A command, and where to run it. */
export type ExecWish = ExecCommand & { readonly replicaId: ReplicaId };

/** A command that was started. */
export type ExecSession = RunningExec & {
  /** To be called whenever bytes arrive, at either end. */
  noteUse(): void;
};

/** Starts commands through the driver. */
export class ReplicaExecs {
  readonly #parts: { readonly driver: Pick<Driver, "exec">; readonly clock: Clock };

  constructor(parts: { readonly driver: Pick<Driver, "exec">; readonly clock: Clock }) {
    this.#parts = parts;
  }

  /** Starts the command. Throws `Fault("conflict")` when the replica cannot run one. */
  async open({ replicaId, command, terminal }: ExecWish): Promise<ExecSession> {
    try {
      const exec = await this.#parts.driver.exec(replicaId, { command, terminal });
      const noteUse = this.#limitTime(exec);
      return {
        stdin: exec.stdin,
        stdout: exec.stdout,
        stderr: exec.stderr,
        ended: exec.ended,
        resize: this.#throttledResize(exec),
        end: (reason) => exec.end(reason),
        noteUse,
      };
    } catch (error) {
      if (error instanceof ExecRefused)
        throw new Fault("conflict", error.message, { cause: error });
      throw error;
    }
  }

  /** Resizes at most every `resizeEveryMs`; of the sizes that arrive meanwhile, the last counts. */
  #throttledResize(exec: RunningExec): (size: TerminalSize) => void {
    const { clock } = this.#parts;
    let nextSize: TerminalSize | null = null;
    let isPaused = false;
    const resizeAndPause = (): void => {
      isPaused = nextSize !== null;
      if (nextSize === null) return;
      exec.resize(nextSize);
      nextSize = null;
      clock.after(resizeEveryMs, resizeAndPause);
    };
    return (size) => {
      nextSize = size;
      if (!isPaused) resizeAndPause();
    };
  }

  /**
   * Ends the command when it is idle, or has run for too long. The returned function must be called
   * whenever the command is used.
   */
  #limitTime(exec: RunningExec): () => void {
    const { clock } = this.#parts;
    let usedAtMs = clock.monotonicMs();
    let cancelIdle = (): void => undefined;
    const endIfIdle = (): void => {
      const leftMs = usedAtMs + idleMs - clock.monotonicMs();
      if (leftMs <= 0)
        return exec.end(`Nothing was sent or received for ${idleMs / 60_000} minutes.`);
      cancelIdle = clock.after(leftMs, endIfIdle);
    };
    cancelIdle = clock.after(idleMs, endIfIdle);
    const cancelTotal = clock.after(totalMs, () => {
      exec.end(`Commands run for at most ${totalMs / 3_600_000} hours.`);
    });
    void exec.ended.then(() => {
      cancelIdle();
      cancelTotal();
    });
    return () => {
      usedAtMs = clock.monotonicMs();
    };
  }
}
