// Commands that people run in replicas: how many may be open at once, and how long. They keep no replica alive.
import type { Driver } from "#drivers/driver.ts";
import { ExecRefused, type ExecCommand, type RunningExec, type TerminalSize } from "#drivers/exec.ts";
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId, ReplicaId } from "#lib/ids.ts";

/** Each holds some processes and two sockets. */
const openMax = 200;
const projectMax = 20;
/** Of one person or token. */
const callerMax = 10;
/** Without a byte in either direction; ten times what common proxies allow. */
const idleMs = 30 * 60_000;
const totalMs = 4 * 3_600_000;
/** Each new size takes a process of the machine. */
const resizeEveryMs = 250;

export type ExecWish = ExecCommand & {
  readonly replicaId: ReplicaId;
  readonly projectId: ProjectId;
  /** Names who runs it, for the bound. */
  readonly callerKey: string;
};

/** A command that was started. */
export type ExecSession = RunningExec & {
  /** To be called for each byte that arrives at either end. */
  noteUse(): void;
};

/** Opens commands, within bounds. */
export class ReplicaExecs {
  readonly #parts: { readonly driver: Pick<Driver, "exec">; readonly clock: Clock };
  readonly #open = new Map<string, number>();

  constructor(parts: { readonly driver: Pick<Driver, "exec">; readonly clock: Clock }) {
    this.#parts = parts;
  }

  /** Starts the command. Throws `Fault("rate_limited" | "conflict")`. */
  async open({ replicaId, projectId, callerKey, command, terminal }: ExecWish): Promise<ExecSession> {
    const leave = this.#enter(projectId, callerKey);
    try {
      const exec = await this.#parts.driver.exec(replicaId, { command, terminal });
      const noteUse = this.#limit(exec);
      void exec.ended.then(leave);
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
      leave();
      if (error instanceof ExecRefused) throw new Fault("conflict", error.message, { cause: error });
      throw error;
    }
  }

  /** Takes a place, at once. Returns what frees it. */
  #enter(projectId: ProjectId, callerKey: string): () => void {
    const bounds = { all: openMax, [`project ${projectId}`]: projectMax, [`caller ${callerKey}`]: callerMax };
    const full = Object.entries(bounds).some(([key, max]) => (this.#open.get(key) ?? 0) >= max);
    if (full) {
      const text = `Too many commands run in replicas: at most ${callerMax} of one person or token, ${projectMax} of a project and ${openMax} of all; end one.`;
      throw new Fault("rate_limited", text, { retryAfterSeconds: 10 });
    }
    for (const key of Object.keys(bounds)) this.#open.set(key, (this.#open.get(key) ?? 0) + 1);
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      for (const key of Object.keys(bounds)) {
        const count = (this.#open.get(key) ?? 0) - 1;
        if (count > 0) this.#open.set(key, count);
        else this.#open.delete(key);
      }
    };
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
      if (leftMs <= 0) return exec.end(`Nothing was sent or received for ${idleMs / 60_000} minutes.`);
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
