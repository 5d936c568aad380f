// The processes of one replica: its shell, the app below it, and what an app without a sandbox
// leaves behind. Says whether they are gone, and ends them. The shell may be a child of this
// process of the platform, or have been started by an earlier one.
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
  /** Set only for this process's own children. */
  readonly child: ChildProcess | null;
  /** Asked for a look when something has ended, or is about to. */
  readonly looks: Pick<ReplicaLooks, "look" | "lookSoon">;
  readonly onFault: (error: unknown) => void;
};

/** While what an app left is ending: each time all processes are looked through. */
const askedLookMs = 50;

/** The processes of one replica, as they were at the last `isGone`. */
export class ReplicaShell {
  readonly #options: ReplicaShellOptions;
  #identity: ProcessIdentity | null = null;
  #isChildGone: boolean;
  #isAsked = false;
  #isKilled = false;
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

  /** True when this process of the platform has started it or seen it alive. */
  get wasSeen(): boolean {
    return this.#options.child !== null || this.#wasAlive;
  }

  /** How long the replica has run; undefined when unknown. */
  ranMs(): number | undefined {
    return this.#identity === null ? undefined : ranMs(this.#identity, this.#options.record);
  }

  /** True when none of the processes runs any more, except for leftovers. */
  isGone(): boolean {
    const { child, record, paths, looks } = this.#options;
    this.#identity ??= readPid(paths);
    if (child !== null) return this.#isChildGone && !this.#doesOutliveChild();
    if (record.bootId !== bootId) return true;
    if (this.#identity === null || !isAlive(this.#identity)) return true;
    this.#wasAlive = true;
    // There is no event for the exit of a process that is not our child.
    if (this.#isKilled || readState(paths).exitCode !== null) looks.lookSoon();
    return false;
  }

  /**
   * Our child set up the sandbox; the shell is the first process in there, and exits after all
   * others. It dies soon after our child, not at the same moment.
   */
  #doesOutliveChild(): boolean {
    const { record, looks } = this.#options;
    if (!record.isSandboxed || this.#identity === null || !isAlive(this.#identity)) return false;
    signal(this.#identity.pid, "SIGKILL");
    looks.lookSoon();
    return true;
  }

  /**
   * Asks the app to end, at most once; kills a shell that has not started. The signal goes to the
   * app itself, its shell's only child. The shell gets one before, and then asks what is left.
   */
  askToEnd(): void {
    if (this.#isAsked) return;
    if (this.#identity === null) return this.kill();
    const { pid, group, startTicks } = this.#identity;
    const app = firstChild(pid);
    if (app !== null) this.#isAsked = signal(pid, "SIGTERM") && signal(app, "SIGTERM");
    else if (startTicks === null) this.#isAsked = signal(-group, "SIGTERM");
    else this.#options.looks.lookSoon();
  }

  /**
   * Kills the shell and its group. In a sandbox the shell is the first process of its namespace:
   * when it dies, the kernel kills everything in there.
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
   * Kills processes without their shell; true when none are left. `isAsking`: asks them to end
   * instead, as long as there are some. A sandbox leaves none, unless it was killed before its
   * shell started.
   */
  areLeftoversGone(isAsking: boolean): boolean {
    const { child, record, clock, looks, onFault } = this.#options;
    if (record.bootId !== bootId || (record.isSandboxed && this.#identity !== null)) return true;
    this.#leftovers ??= new Leftovers({
      marker: markerOf(record.replicaId),
      group: child?.pid ?? null,
      sinceTicks: this.#identity?.startTicks ?? null,
    });
    if (isAsking && this.#leftovers.ask()) {
      looks.lookSoon(askedLookMs);
      return false;
    }
    const found = this.#leftovers.sweep(clock.monotonicMs());
    if (found === "again") looks.lookSoon();
    if (found === "lost")
      onFault(
        new Error("the replica starts processes faster than they can be killed; some are left"),
      );
    return found !== "again";
  }
}
