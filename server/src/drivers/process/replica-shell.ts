// The processes of one replica: its shell, the app, which is the shell's child, and processes that
// an app without a sandbox leaves behind. Says whether they are gone, and ends them. The shell is a
// child of this platform process, or was started by an earlier one.
import type { ChildProcess } from "node:child_process";
import type { Clock } from "#lib/clock.ts";
import { Leftovers } from "./leftovers.ts";
import { bootId, firstChild, isAlive, ranMs, signal } from "./process-table.ts";
import {
  readPid,
  readState,
  type ProcessIdentity,
  type ReplicaPaths,
  type ReplicaRecord,
} from "./replica-files.ts";
import { markerOf } from "./replica-listens.ts";
import type { ReplicaLooks } from "./replica-looks.ts";

export type ReplicaShellOptions = {
  readonly paths: ReplicaPaths;
  readonly record: ReplicaRecord;
  readonly clock: Clock;
  /** Null when an earlier platform process started the replica. */
  readonly child: ChildProcess | null;
  /** Schedules the next check of the replica when something has ended, or is about to. */
  readonly looks: Pick<ReplicaLooks, "look" | "lookSoon">;
  readonly onFault: (error: unknown) => void;
};

/**
 * The time between checks while leftovers end by themselves. It is longer than usual, since each
 * check reads all processes of the machine.
 */
const leftoversCheckMs = 50;

/** The processes of one replica. `pid` and `wasSeen` are as of the last call of `isGone`. */
export class ReplicaShell {
  readonly #options: ReplicaShellOptions;
  /** The shell's process; null until it was read from the shell's file. */
  #identity: ProcessIdentity | null = null;
  #isChildGone: boolean;
  #isAskedToEnd = false;
  #isKilled = false;
  /** True when a shell that is not our child was seen alive. */
  #wasAlive = false;
  #leftovers: Leftovers | null = null;

  constructor(options: ReplicaShellOptions) {
    const { child, looks } = options;
    this.#options = options;
    this.#isChildGone = child !== null && (child.exitCode !== null || child.signalCode !== null);
    child?.once("exit", () => {
      this.#isChildGone = true;
      looks.look();
    });
  }

  /** The shell's process id; null until it has started. */
  get pid(): number | null {
    return this.#identity?.pid ?? null;
  }

  /** True when this platform process has started the shell or seen it alive. */
  get wasSeen(): boolean {
    return this.#options.child !== null || this.#wasAlive;
  }

  /** How long the replica has run; undefined when unknown. */
  ranMs(): number | undefined {
    return this.#identity === null ? undefined : ranMs(this.#identity, this.#options.record);
  }

  /** True when the shell and the app have ended. Leftovers may still run. */
  isGone(): boolean {
    const { child, record, paths, looks } = this.#options;
    this.#identity ??= readPid(paths);
    if (child !== null) return this.#isChildGone && !this.#doesOutliveChild();
    if (record.bootId !== bootId) return true;
    if (this.#identity === null || !isAlive(this.#identity)) return true;
    this.#wasAlive = true;
    // A process that is not our child ends without an event, so it is checked again soon.
    if (this.#isKilled || readState(paths).exitCode !== null) looks.lookSoon();
    return false;
  }

  /**
   * Whether the shell of a sandbox still runs although our child has ended; kills it if so. Our
   * child only sets the sandbox up; the shell is the first process inside, and dies a little later.
   */
  #doesOutliveChild(): boolean {
    const { record, looks } = this.#options;
    if (!record.isSandboxed || this.#identity === null || !isAlive(this.#identity)) return false;
    signal(this.#identity.pid, "SIGKILL");
    looks.lookSoon();
    return true;
  }

  /**
   * Asks the app to end, at most once; kills a shell that has not started yet. The signal goes to
   * the shell, so that it later asks the processes that the app leaves behind, and then to the app.
   */
  askToEnd(): void {
    if (this.#isAskedToEnd) return;
    if (this.#identity === null) return this.kill();
    const { pid, group, startTicks } = this.#identity;
    const app = firstChild(pid);
    // Without /proc the app is not known, so the whole group is asked.
    const hasProc = startTicks !== null;
    if (app !== null) this.#isAskedToEnd = signal(pid, "SIGTERM") && signal(app, "SIGTERM");
    else if (!hasProc) this.#isAskedToEnd = signal(-group, "SIGTERM");
    // The shell has not started the app yet, or is about to end: the next check asks again.
    else this.#options.looks.lookSoon();
  }

  /**
   * Kills the shell and its process group. In a sandbox the shell is the first process of a
   * namespace: when it dies, the kernel kills all others.
   */
  kill(): void {
    const { child, paths } = this.#options;
    this.#isKilled = true;
    this.#identity ??= readPid(paths);
    if (this.#identity !== null && isAlive(this.#identity)) {
      signal(this.#identity.pid, "SIGKILL");
      signal(-this.#identity.group, "SIGKILL");
    } else if (child?.pid !== undefined && !this.#isChildGone) {
      signal(-child.pid, "SIGKILL");
    }
  }

  /**
   * Kills the processes that are left after the shell. Returns true when none are left, or when it
   * has given up. With `isAsking` it first asks them to end. A sandbox leaves none, unless it was
   * killed before its shell started.
   */
  areLeftoversGone(isAsking: boolean): boolean {
    const { child, record, clock, looks, onFault } = this.#options;
    const isOtherBoot = record.bootId !== bootId;
    const endsWithShell = record.isSandboxed && this.#identity !== null;
    if (isOtherBoot || endsWithShell) return true;
    this.#leftovers ??= new Leftovers({
      marker: markerOf(record.replicaId),
      group: child?.pid ?? null,
      sinceTicks: this.#identity?.startTicks ?? null,
    });
    if (isAsking && this.#leftovers.ask()) {
      looks.lookSoon(leftoversCheckMs);
      return false;
    }
    const sweepResult = this.#leftovers.sweep(clock.monotonicMs());
    if (sweepResult === "again") looks.lookSoon();
    if (sweepResult === "lost")
      onFault(
        new Error("the replica starts processes faster than they can be killed; some are left"),
      );
    return sweepResult !== "again";
  }
}
