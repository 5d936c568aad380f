// Word of changes between parts and between platforms on one database: NOTIFY within the transaction that changes
// something, LISTEN on one dedicated connection. A notification is only a nudge: whoever gets one looks at the rows.
import { sql } from "kysely";
import { Client } from "pg";
import { assert } from "#lib/assert.ts";
import { backoffMs } from "#lib/backoff.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { Secret } from "#lib/secret.ts";
import { clientConfig, type Db } from "./database.ts";
import { takeRuntimeRole } from "./runtime-role.ts";

/** Every channel, with what its payload names. */
const channelTable = {
  apps: "an app's id",
  tokens: "a token's id, or a signing key's",
  people: "a person's id: their sessions or memberships have changed",
  plans: "a project's id: its plan or the state of its budgets has changed",
  audit: "a project's id, or empty: its audit log has new entries",
  builds: "a build's id",
  build_logs: "a build's id",
  app_logs: "an app's id",
  replicas: "an app's id",
  runs: "an app's id: it has runs that nobody holds",
  run_cancels: "a run's id",
  deliveries: "a webhook endpoint's id: it has deliveries that nobody holds",
  webhook_secrets: "a project's id",
} as const;

export type Channel = keyof typeof channelTable;

/** Gets the payload, or null for "something may have been missed: look at everything". Must not throw for long work: start it and return. */
export type Listener = (payload: string | null) => void;

/** PostgreSQL's own limit is 8000 bytes; ours are ids. */
const payloadBytesMost = 1_000;
const connecting: RetryPolicy = { firstMs: 50, factor: 2, mostMs: 5_000, jitter: 0.2, triesMax: untilStop };
/** A connection that broke without a word is found out after this and the answer's deadline. */
const heartbeatMs = 5_000;
const answerWaitMs = 5_000;

/** Tells every listener of the channel when the transaction is committed; equal notifications of one transaction are one. */
export async function notify(tx: Db, channel: Channel, payload: string): Promise<void> {
  assert(Buffer.byteLength(payload) <= payloadBytesMost, "a notification's payload is too long");
  await sql`select pg_notify(${channel}, ${payload})`.execute(tx);
}

/** The listening side. `start()` once; after a broken connection it connects again, and then every listener runs with null. */
export class Notifications {
  readonly #url: Secret;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #listeners = new Map<Channel, Set<Listener>>();
  readonly #stopping = new AbortController();
  #client: Client | undefined;
  #running: Promise<void> | undefined;

  constructor(options: { url: Secret; log: Log; clock?: Clock }) {
    this.#url = options.url;
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
  }

  /** Runs `run` for each notification from now on; the returned function ends that. */
  listen(channel: Channel, run: Listener): () => void {
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(run));
    return () => listeners.delete(run);
  }

  /** Resolves when it listens; rejects when the database cannot be reached. */
  async start(): Promise<void> {
    const client = await this.#connect();
    this.#running = this.#run(client);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("notifications are stopping"));
    await this.#client?.end().catch(() => undefined);
    await this.#running;
  }

  async #run(first: Client): Promise<void> {
    const { signal } = this.#stopping;
    for (let client: Client | undefined = first; !signal.aborted; client = await this.#reconnect()) {
      if (client === undefined) return;
      await this.#watch(client);
      await client.end().catch(() => undefined);
      if (!signal.aborted) this.#log.warn("the connection for notifications broke; connecting again");
    }
  }

  /** Undefined when stopped. Everything that listens is told to look again. */
  async #reconnect(): Promise<Client | undefined> {
    const { signal } = this.#stopping;
    const clock = this.#clock;
    // Not at once: the server may break each connection as soon as it has taken it.
    await clock.sleep(backoffMs(connecting, 1, clock.random()), signal).catch(() => undefined);
    const onFailure = (error: unknown, attempt: number): void =>
      this.#log.warn({ err: error, attempt }, "notifications cannot connect");
    const client = await retry({ ...connecting, clock, signal, onFailure }, () => this.#connect());
    if (client !== undefined) for (const channel of this.#listeners.keys()) this.#tell(channel, null);
    return client;
  }

  async #connect(): Promise<Client> {
    const client = new Client({ ...clientConfig(this.#url), query_timeout: answerWaitMs });
    // Without a listener Node would end the process; #watch notices the end itself.
    client.on("error", () => undefined);
    client.on("notification", ({ channel, payload }) => {
      if (channel in channelTable) this.#tell(channel as Channel, payload ?? "");
    });
    this.#client = client;
    try {
      await client.connect();
      await client.query(takeRuntimeRole);
      for (const channel of Object.keys(channelTable)) await client.query(`listen ${channel}`);
    } catch (error) {
      await client.end().catch(() => undefined);
      throw error;
    }
    return client;
  }

  /** Resolves when the connection is gone or does not answer. */
  async #watch(client: Client): Promise<void> {
    const gone = new AbortController();
    client.once("end", () => gone.abort(new Error("the connection ended")));
    client.once("error", () => gone.abort(new Error("the connection broke")));
    const either = AbortSignal.any([gone.signal, this.#stopping.signal]);
    try {
      for (;;) {
        await client.query("select 1");
        await this.#clock.sleep(heartbeatMs, either);
      }
    } catch (error) {
      this.#log.debug({ err: error }, "notifications ended");
    }
  }

  #tell(channel: Channel, payload: string | null): void {
    for (const run of this.#listeners.get(channel) ?? []) {
      try {
        run(payload);
      } catch (error) {
        this.#log.error({ err: error, channel }, "a listener failed");
      }
    }
  }
}
