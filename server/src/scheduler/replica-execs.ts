// Commands that people run in replicas, and how long they may be open. They keep no replica alive.
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

/** Without a byte in either direction; ten times what common proxies allow. */
const idleMs = 30 * 60_000;
const totalMs = 4 * 3_600_000;
/** Each new size takes a process of the machine. */
const resizeEveryMs = 250;

/** A command, and where to run it. */
export type ExecWish = ExecCommand & { readonly replicaId: ReplicaId };

/** A command that was started. */
export type ExecSession = RunningExec & {
  /** To be called for each byte that arrives at either end. */
  noteUse(): void;
};

/** Opens commands. */
export class ReplicaExecs {
  readonly #parts: { readonly driver: Pick<Driver, "exec">; readonly clock: Clock };

  constructor(parts: { readonly driver: Pick<Driver, "exec">; readonly clock: Clock }) {
    this.#parts = parts;
  }

  /** Starts the command. Throws `Fault("conflict")`. */
  async open({ replicaId, command, terminal }: ExecWish): Promise<ExecSession> {
    try {
      const exec = await this.#parts.driver.exec(replicaId, { command, terminal });
      const noteUse = this.#limit(exec);
      return {
        stdin: exec.stdin,
        stdout: exec.stdout,
        stderr: exec.stderr,
        ended: exec.ended,
        resize: this.#resizing(exec),
        end: (reason) => exec.end(reason),
        noteUse,
      };
    } catch (error) {
      if (error instanceof ExecRefused)
        throw new Fault("conflict", error.message, { cause: error });
      throw error;
    }
  }

  /** Passes on the last size, at once or when the one before is old enough. */
  #resizing(exec: RunningExec): (size: TerminalSize) => void {
    const { clock } = this.#parts;
    let next: TerminalSize | null = null;
    let isWaiting = false;
    const turn = (): void => {
      isWaiting = next !== null;
      if (next === null) return;
      exec.resize(next);
      next = null;
      clock.after(resizeEveryMs, turn);
    };
    return (size) => {
      next = size;
      if (!isWaiting) turn();
    };
  }

  /** Ends it when it is idle or has run for too long. Returns what notes its use. */
  #limit(exec: RunningExec): () => void {
    const { clock } = this.#parts;
    let usedAtMs = clock.monotonicMs();
    let cancelIdle = (): void => undefined;
    const look = (): void => {
      const leftMs = usedAtMs + idleMs - clock.monotonicMs();
      if (leftMs <= 0)
        return exec.end(`Nothing was sent or received for ${idleMs / 60_000} minutes.`);
      cancelIdle = clock.after(leftMs, look);
    };
    cancelIdle = clock.after(idleMs, look);
    const cancelTotal = clock.after(totalMs, () => {
      exec.end(`Commands run for at most ${totalMs / 3_600_000} hours.`);
    });
    void exec.ended.then(() => {
      cancelIdle();
      cancelTotal();
    });
    return () => (usedAtMs = clock.monotonicMs());
  }
}
