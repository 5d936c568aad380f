// Watches replicas from their start to their end: until they run, until they are ready, and whether
// they stay healthy. Ends replicas that miss a deadline or fail their health check.
import type { Address, Driver, ReplicaEvent } from "#drivers/driver.ts";
import { checksOf } from "#drivers/readiness.ts";
import type { AppId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Counters } from "./counters.ts";
import { watchHealth } from "./health.ts";
import type { Probe } from "./probe.ts";
import type { Fleet, Replica } from "./replica.ts";
import type { ReplicaDrain } from "./replica-drain.ts";
import type { RowWriter } from "./row-writer.ts";
import { reasonUnreached, watchUnreached } from "./unreached.ts";

type WatchParts = Pick<Foundation, "clock"> & {
  readonly driver: Pick<Driver, "whyUnreached">;
  readonly probe: Probe;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly counters: Counters;
  /** How long a replica may wait for a machine or its image; its `deadlineMs` counts after that. */
  readonly pendingMs: number;
  readonly drain: ReplicaDrain;
  /** Called when the replicas of an app have changed, or the calls that they can take. */
  readonly onChange: (appId: AppId) => void;
  readonly onReady: (replica: Replica) => void;
  /** Called with a line that the platform adds to the log of a replica. */
  readonly onNotice: (replica: Replica, text: string) => void;
};

type Started = Extract<ReplicaEvent, { kind: "started" }>;

/** Watches replicas. All timers and checks of a replica end with its `abort`. */
export class ReplicaWatch {
  readonly #parts: WatchParts;
  #isStopped = false;

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** Ends a replica that does not run within `pendingMs` of its start. */
  awaitRunning(replica: Replica): void {
    const { clock, pendingMs } = this.#parts;
    const remainingMs = Math.max(0, replica.beganAtMs + pendingMs - clock.monotonicMs());
    const reason = `It did not run within ${timeText(pendingMs / 1000)}: no machine was free for it, or its image took longer.`;
    this.#endAfter(replica, remainingMs, () => (replica.isPending ? reason : null));
  }

  /** Called when the driver reports that the replica runs. */
  started(replica: Replica, { address, hint }: Started): void {
    if (this.#isStopped) return;
    const { clock, writer } = this.#parts;
    replica.hint = hint;
    const at = replica.timeAt(clock.monotonicMs());
    void writer.change(replica.replicaId, { kind: "started", at, address });
    if (replica.state === "starting") this.awaitReady(replica, address, replica.deadlineMs);
  }

  /**
   * Probes a replica that runs at `address` until it is ready, and ends it if it is not ready after
   * `remainingMs`.
   */
  awaitReady(replica: Replica, address: Address, remainingMs: number): void {
    const { driver, clock, onNotice } = this.#parts;
    replica.isPending = false;
    void watchUnreached(replica, { driver, clock, onFound: (line) => onNotice(replica, line) });
    this.#endAfter(replica, remainingMs, () => this.#reasonNotReady(replica));
    this.checkHealth(replica, address);
  }

  /** Checks readiness and health of a replica from now on, until it ends. */
  checkHealth(replica: Replica, address: Address): void {
    const { clock, counters, drain, onChange, probe } = this.#parts;
    void watchHealth({
      checks: { address, ...checksOf(replica.release.settings) },
      isReady: replica.state === "ready",
      events: {
        onReady: () => this.#becomeReady(replica, address),
        onNotReady: (reason) => {
          replica.notReady = reason;
        },
        onRouted: (isRouted) => {
          replica.isRouted = isRouted;
          onChange(replica.appId);
        },
        onUnhealthy: (reason) => {
          counters.unhealthy++;
          drain.end(replica, { reason, kind: "unhealthy" });
        },
      },
      probe,
      clock,
      signal: replica.abort.signal,
    });
  }

  /** Stops watching all replicas: the platform stops, and replicas keep running. */
  stop(): void {
    this.#isStopped = true;
    for (const { abort } of this.#parts.fleet.all()) abort.abort(new Error("the platform stops"));
  }

  #becomeReady(replica: Replica, address: Address): void {
    if (replica.state !== "starting") return;
    const { clock, counters, writer, onReady } = this.#parts;
    const nowMs = clock.monotonicMs();
    replica.becomeReady(address, nowMs);
    counters.coldStarts.add(nowMs - replica.beganAtMs);
    void writer.change(replica.replicaId, { kind: "ready", at: replica.timeAt(nowMs), address });
    onReady(replica);
  }

  /**
   * Calls `reasonNow` after `afterMs`, and ends the replica for the reason that it returns, unless
   * that is null.
   */
  #endAfter(
    replica: Replica,
    afterMs: number,
    reasonNow: () => string | null | Promise<string | null>,
  ): void {
    const { clock, drain } = this.#parts;
    const endNow = (reason: string | null): void => {
      if (reason !== null) drain.end(replica, { reason, kind: "timeout" });
    };
    const cancel = clock.after(afterMs, () => {
      const reason = reasonNow();
      if (reason instanceof Promise) void reason.then(endNow);
      else endNow(reason);
    });
    replica.abort.signal.addEventListener("abort", cancel, { once: true });
  }

  /**
   * Why the replica is not ready at the deadline, for the app's owner; null: the replica is no
   * longer starting.
   */
  async #reasonNotReady(replica: Replica): Promise<string | null> {
    if (replica.state !== "starting") return null;
    const { driver, clock } = this.#parts;
    const isCortex = replica.settings.runtime === "cortex";
    // Cortex is ready as soon as it has imported `main.py`.
    const detail = isCortex ? "Its main.py was still being imported." : replica.notReady;
    const unreached = await reasonUnreached(replica, { driver, clock });
    if (replica.state !== "starting") return null;
    const reason = `It did not become ready within ${Math.round(replica.deadlineMs / 1000)} seconds.`;
    return [reason, detail, unreached, replica.hint].filter((text) => text !== null).join(" ");
  }
}

/** A time in words: in minutes if it is a whole number of minutes, else in seconds. */
function timeText(seconds: number): string {
  if (seconds % 60 !== 0) return `${seconds} seconds`;
  return seconds === 60 ? "1 minute" : `${seconds / 60} minutes`;
}
