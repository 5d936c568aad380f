// Watches replicas from their start to their end: until they run, until they are ready, and whether
// they stay healthy. Ends those that miss a deadline or fail their health check.
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
  /** Timeout for a machine or its image; the deadline of its start begins after it. */
  readonly pendingMs: number;
  readonly drain: ReplicaDrain;
  /** The replicas of an app changed, or what they can take. */
  readonly onChange: (appId: AppId) => void;
  readonly onReady: (replica: Replica) => void;
  /** The platform has a line for the log of a replica. */
  readonly onNotice: (replica: Replica, text: string) => void;
};

type Started = Extract<ReplicaEvent, { kind: "started" }>;

/** Watches replicas. What it begins for one ends with the replica's `abort`. */
export class ReplicaWatch {
  readonly #parts: WatchParts;
  #isStopped = false;

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** Abandons a replica that does not run within `pendingMs` of its start. */
  awaitRunning(replica: Replica): void {
    const { clock, pendingMs } = this.#parts;
    const leftMs = Math.max(0, replica.beganAtMs + pendingMs - clock.monotonicMs());
    const seconds = pendingMs / 1000;
    const minutes = seconds === 60 ? "1 minute" : `${seconds / 60} minutes`;
    const time = seconds % 60 === 0 ? minutes : `${seconds} seconds`;
    this.#endAfter(replica, leftMs, () =>
      replica.isPending
        ? `It did not run within ${time}: no machine was free for it, or its image took longer.`
        : null,
    );
  }

  /** The driver says that the replica runs now. */
  started(replica: Replica, { address, hint }: Started): void {
    if (this.#isStopped) return;
    const { clock, writer } = this.#parts;
    replica.hint = hint;
    const at = replica.timeAt(clock.monotonicMs());
    void writer.change(replica.replicaId, { kind: "started", at, address });
    if (replica.state === "starting") this.awaitReady(replica, address, replica.deadlineMs);
  }

  /**
   * It runs at `address`, now or already before: probes for readiness, and abandons it if it is not
   * ready after `leftMs`.
   */
  awaitReady(replica: Replica, address: Address, leftMs: number): void {
    const { driver, clock, onNotice } = this.#parts;
    replica.isPending = false;
    void watchUnreached(replica, { driver, clock, onFound: (line) => onNotice(replica, line) });
    this.#endAfter(replica, leftMs, () => this.#reasonNotReady(replica));
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
        onNotReady: (reason) => (replica.notReady = reason),
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

  /** Watches no replica from now on: the platform stops, and replicas keep running. */
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

  /** Ends a replica after the time, unless there is no reason then. */
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

  /** What to tell the app's owner at the deadline; null: it no longer starts. */
  async #reasonNotReady(replica: Replica): Promise<string | null> {
    if (replica.state !== "starting") return null;
    const { driver, clock } = this.#parts;
    const isCortex = replica.settings.runtime === "cortex";
    const found = isCortex ? "Its main.py was still being imported." : replica.notReady;
    const instead = await reasonUnreached(replica, { driver, clock });
    if (replica.state !== "starting") return null;
    const reason = `It did not become ready within ${Math.round(replica.deadlineMs / 1000)} seconds.`;
    return [reason, found, instead, replica.hint].filter((text) => text !== null).join(" ");
  }
}
