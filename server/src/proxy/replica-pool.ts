// The connections to one replica: reuses idle ones, newest first, and opens a new one when none is
// idle. An idle connection is closed before the replica would close it, so that a call rarely gets
// a connection that is just closing.
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import type { RequestKind } from "./answer-head.ts";
import type { Deadlines } from "./deadlines.ts";
import { ReplicaConnection, type ConnectionUser } from "./replica-connection.ts";

/** The parts that all pools share. */
export type PoolParts = {
  readonly deadlines: Deadlines;
  /** Shared by all connections of all pools. */
  readonly readBuffer: Buffer;
};

/** The maximum number of idle connections; further ones are closed when their call ends. */
const idleMax = 256;
/** The cortex runtime closes idle connections after 90 s; other servers often use 5 s. */
const idleMsOf = { cortex: 60_000, custom: 4_000 } as const;
/** The safety margin before the idle timeout that a replica announces. */
const idleMarginMs = 1_000;

/**
 * How long a connection may idle. `announcedSeconds`: from the replica's `Keep-Alive`; -1: none.
 */
export function idleMs(runtime: "cortex" | "custom", announcedSeconds: number): number {
  if (announcedSeconds === -1) return idleMsOf[runtime];
  return Math.min(announcedSeconds * 1000 - idleMarginMs, idleMsOf.cortex);
}

/** The connections to one replica. Call `close()` when the replica gets no more calls. */
export class ReplicaPool {
  readonly #address: ReadyReplica["address"];
  readonly #parts: PoolParts;
  /** The idle connections, the newest last. */
  readonly #idle: ReplicaConnection[] = [];
  readonly #onIdleEnd = (connection: ReplicaConnection): void => this.#forget(connection);
  #isClosed = false;

  constructor(address: ReadyReplica["address"], parts: PoolParts) {
    this.#address = address;
    this.#parts = parts;
  }

  /** A connection for a call: an idle one, else a new one. */
  take(user: ConnectionUser, request: RequestKind, nowMs: number): ReplicaConnection {
    const idle = this.#idle.pop();
    if (idle === undefined) return this.takeNew(user, request, nowMs);
    this.#parts.deadlines.clear(idle);
    idle.use(user, request);
    return idle;
  }

  /** A new connection; usable once it reports that it is connected. */
  takeNew(user: ConnectionUser, request: RequestKind, nowMs: number): ReplicaConnection {
    const { deadlines, readBuffer } = this.#parts;
    const connection = new ReplicaConnection({
      address: this.#address,
      deadlines,
      readBuffer,
      nowMs,
      onIdleEnd: this.#onIdleEnd,
    });
    connection.use(user, request);
    return connection;
  }

  /** Takes back a connection whose call is complete on both sides; it may idle until `untilMs`. */
  giveBack(connection: ReplicaConnection, untilMs: number, nowMs: number): void {
    const mayIdle = untilMs > nowMs && connection.isUsable;
    if (!mayIdle || this.#isClosed || this.#idle.length >= idleMax) {
      connection.destroy();
      return;
    }
    connection.leave();
    this.#parts.deadlines.set(connection, untilMs);
    this.#idle.push(connection);
  }

  /** Closes idle connections; connections with a call are closed when it ends. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  #forget(connection: ReplicaConnection): void {
    const index = this.#idle.lastIndexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }
}
