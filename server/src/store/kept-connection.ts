// Keeps one database connection for as long as the platform runs, for state that ends with a
// connection: LISTEN and session locks. A connection that breaks or stops answering is replaced.
import { Client } from "pg";
import { backoffMs } from "#lib/backoff.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { Secret } from "#lib/secret.ts";
import { unlessAborted } from "#lib/unless-aborted.ts";
import { clientConfig } from "./database.ts";

export type KeptConnectionOptions = {
  /** A noun for the log, such as "notifications". */
  readonly purpose: string;
  readonly url: Secret;
  /** Sets up a new connection. After a rejection, another connection is opened. */
  readonly prepare: (client: Client) => Promise<void>;
  /** Runs after a broken connection was replaced. Must not throw. */
  readonly onReplaced?: () => void;
  readonly log: Log;
  readonly clock: Clock;
};

const connectRetry: RetryPolicy = {
  firstMs: 50,
  factor: 2,
  msMax: 5_000,
  jitter: 0.2,
  triesMax: untilStop,
};
/** How often to query an idle connection, so that a silently broken one is noticed. */
const heartbeatMs = 5_000;
/** A connection that gives no answer for this long is broken. */
const answerWaitMs = 5_000;

/** A connection that is replaced when it breaks. Call `start()` once, then `stop()`. */
export class KeptConnection {
  readonly #options: KeptConnectionOptions;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  #client: Client | undefined;
  #running: Promise<void> | undefined;

  constructor(options: KeptConnectionOptions) {
    this.#options = options;
    this.#clock = options.clock;
  }

  /**
   * Resolves when the connection is set up; rejects when the database cannot be reached or the
   * setup fails.
   */
  async start(): Promise<void> {
    const client = await this.#connect();
    this.#running = this.#run(client);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(
      new Error(`the connection for ${this.#options.purpose} is not needed any more`),
    );
    await this.#client?.end().catch(() => undefined);
    await this.#running;
  }

  /** The current connection; undefined while there is none. */
  get client(): Client | undefined {
    return this.#client;
  }

  async #run(first: Client): Promise<void> {
    const { log, purpose } = this.#options;
    const { signal } = this.#stopping;
    let client: Client | undefined = first;
    // Each round watches one connection until it breaks.
    while (client !== undefined && !signal.aborted) {
      await this.#watch(client);
      this.#client = undefined;
      await client.end().catch(() => undefined);
      if (!signal.aborted) log.warn(`the connection for ${purpose} broke; connecting again`);
      client = await this.#reconnect();
    }
  }

  /** Connects again, until it succeeds; undefined when stopped. */
  async #reconnect(): Promise<Client | undefined> {
    const { log, purpose, onReplaced } = this.#options;
    const { signal } = this.#stopping;
    const clock = this.#clock;
    // Pauses first: the server may break each connection as soon as it accepts it.
    const pauseMs = backoffMs(connectRetry, 1, clock.random());
    await clock.sleep(pauseMs, signal).catch(() => undefined);
    const onFailure = (error: unknown, attempt: number): void =>
      log.warn({ err: error, attempt }, `no connection for ${purpose}`);
    const client = await retry({ ...connectRetry, clock, signal, onFailure }, () =>
      this.#connect(),
    );
    if (client !== undefined) onReplaced?.();
    return client;
  }

  async #connect(): Promise<Client> {
    const { url, prepare } = this.#options;
    const client = new Client({ ...clientConfig(url), query_timeout: answerWaitMs });
    // Without a listener Node would end the process; #watch notices the end itself.
    client.on("error", () => undefined);
    try {
      // The driver's `connect()` never settles when its connection is ended meanwhile.
      await unlessAborted(this.#stopping.signal, client.connect());
      this.#client = client;
      // A stop that came before the line above had no client to end.
      this.#stopping.signal.throwIfAborted();
      await prepare(client);
    } catch (error) {
      this.#client = undefined;
      // At a stop nothing waits for the end, since a connection that is being made may never end.
      const ended = client.end().catch(() => undefined);
      if (!this.#stopping.signal.aborted) await ended;
      throw error;
    }
    return client;
  }

  /** Resolves when the connection is gone, does not answer, or is not needed any more. */
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
      this.#options.log.debug({ err: error }, `the connection for ${this.#options.purpose} ended`);
    }
  }
}
