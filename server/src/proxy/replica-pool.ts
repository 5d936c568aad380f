// The connections to one replica: those that wait for the next call, newest first, and new ones when none waits. An
// idle connection is closed before the replica would close it, so that a call rarely meets one that is just ending.
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import type { Asked } from "./answer-head.ts";
import type { Deadlines } from "./deadlines.ts";
import { ReplicaConnection, type ConnectionUser } from "./replica-connection.ts";

/** What all pools have in common. */
export type PoolParts = {
  readonly deadlines: Deadlines;
  /** Shared by all connections of all pools. */
  readonly readBuffer: Buffer;
};

/** How many connections may wait; more are closed when their call ends. */
const idleMax = 256;
/** The cortex runtime closes idle connections after 75 s; servers that say nothing are often set to 5 s. */
const idleMsOf = { cortex: 60_000, custom: 4_000 } as const;
/** A replica that names a time is left this much before it. */
const idleMarginMs = 1_000;

/** How long a connection may wait. `toldSeconds`: what the replica's `Keep-Alive` says; -1: nothing. */
export function idleMs(runtime: "cortex" | "custom", toldSeconds: number): number {
  if (toldSeconds === -1) return idleMsOf[runtime];
  return Math.min(toldSeconds * 1000 - idleMarginMs, idleMsOf.cortex);
}

/** The connections to one replica. `close()` when it gets no more calls. */
export class ReplicaPool {
  readonly #address: ReadyReplica["address"];
  readonly #parts: PoolParts;
  readonly #idle: ReplicaConnection[] = [];
  readonly #onIdleEnd = (connection: ReplicaConnection): void => this.#forget(connection);
  #isClosed = false;

  constructor(address: ReadyReplica["address"], parts: PoolParts) {
    this.#address = address;
    this.#parts = parts;
  }

  /** A connection for a call: one that waits, else a new one. */
  take(user: ConnectionUser, asked: Asked, nowMs: number): ReplicaConnection {
    const idle = this.#idle.pop();
    if (idle === undefined) return this.takeNew(user, asked, nowMs);
    this.#parts.deadlines.clear(idle);
    idle.use(user, asked);
    return idle;
  }

  /** A new connection: it may be used once it says that it is connected. */
  takeNew(user: ConnectionUser, asked: Asked, nowMs: number): ReplicaConnection {
    const { deadlines, readBuffer } = this.#parts;
    const connection = new ReplicaConnection({
      address: this.#address,
      deadlines,
      readBuffer,
      nowMs,
      onIdleEnd: this.#onIdleEnd,
    });
    connection.use(user, asked);
    return connection;
  }

  /** Takes a connection back whose call is complete on both sides; it may wait until `untilMs`. */
  giveBack(connection: ReplicaConnection, untilMs: number, nowMs: number): void {
    if (this.#isClosed || untilMs <= nowMs || !connection.isUsable || this.#idle.length >= idleMax) {
      connection.destroy();
      return;
    }
    connection.leave();
    this.#parts.deadlines.set(connection, untilMs);
    this.#idle.push(connection);
  }

  /** Closes what waits; connections in use are closed when their call ends. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  #forget(connection: ReplicaConnection): void {
    const index = this.#idle.lastIndexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }
}
