// Announces database changes: NOTIFY within the transaction that changes something, LISTEN on one
// dedicated connection. A notification is only a nudge: its receiver then reads the rows.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { sql } from "kysely";
import type { Client } from "pg";
import { assert } from "#lib/assert.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "./database.ts";
import { KeptConnection } from "./kept-connection.ts";
import { takeRuntimeRole } from "./runtime-role.ts";

/** Every channel, with the meaning of its payload. */
const channelTable = {
  apps: "an app's id",
  tokens: "a token's id, or a signing key's",
  people: "a person's id: their sessions or memberships have changed",
  domains: "a host name: it has become, or is no longer, a proven domain",
  plans: "a project's id: its plan or the state of its budgets has changed",
  audit: "a project's id, or empty: its audit log has new entries",
  builds: "a build's id",
  build_logs: "a build's id",
  app_logs: "an app's id",
  runs: "an app's id: it has runs that nobody holds",
  run_cancels: "a run's id",
  deliveries: "a webhook endpoint's id: it has deliveries that nobody holds",
  webhook_secrets: "a project's id",
} as const;

export type Channel = keyof typeof channelTable;

/**
 * Called with the payload, or with null when notifications may have been missed and everything must
 * be checked. Must not throw, and must return at once: it may start long work.
 */
export type NotificationListener = (payload: string | null) => void;

/** PostgreSQL's own limit is 8000 bytes; our payloads are ids. */
const payloadBytesMax = 1_000;

/**
 * Notifies every listener of the channel on commit; equal notifications of one transaction are
 * merged.
 */
export async function notify(tx: Db, channel: Channel, payload: string): Promise<void> {
  assert(Buffer.byteLength(payload) <= payloadBytesMax, "a notification's payload is too long");
  await sql`select pg_notify(${channel}, ${payload})`.execute(tx);
}

/**
 * Listens for notifications. Call `start()` once; it reconnects after a broken connection, and then
 * calls every listener with null.
 */
export class Notifications {
  readonly #log: Log;
  readonly #listeners = new Map<Channel, Set<NotificationListener>>();
  readonly #connection: KeptConnection;

  constructor(options: { url: Secret; log: Log; clock: Clock }) {
    this.#log = options.log;
    this.#connection = new KeptConnection({
      ...options,
      purpose: "notifications",
      prepare: (client) => this.#listenOn(client),
      onReplaced: () => {
        for (const channel of this.#listeners.keys()) this.#callListeners(channel, null);
      },
    });
  }

  /** Calls `run` for each notification from now on, until the returned function is called. */
  listen(channel: Channel, run: NotificationListener): () => void {
    const listeners = getOrInsert(this.#listeners, channel, () => new Set()).add(run);
    return () => listeners.delete(run);
  }

  /** Resolves when it listens; rejects when the database cannot be reached. */
  async start(): Promise<void> {
    await this.#connection.start();
  }

  async stop(): Promise<void> {
    await this.#connection.stop();
  }

  async #listenOn(client: Client): Promise<void> {
    client.on("notification", ({ channel, payload }) => {
      // The connection listens on these channels only, so the check always succeeds.
      if (channel in channelTable) this.#callListeners(channel as Channel, payload ?? "");
    });
    await client.query(takeRuntimeRole);
    for (const channel of Object.keys(channelTable)) await client.query(`listen ${channel}`);
  }

  #callListeners(channel: Channel, payload: string | null): void {
    for (const run of this.#listeners.get(channel) ?? []) {
      try {
        run(payload);
      } catch (error) {
        this.#log.error({ err: error, channel }, "a listener failed");
      }
    }
  }
}
