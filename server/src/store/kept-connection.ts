// One connection to the database that is there for as long as the platform runs, for what ends with a connection: LISTEN, and
// locks of a session. One that broke, or does not answer, is replaced.
import { Client } from "pg";
import { backoffMs } from "#lib/backoff.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { retry, untilStop, type RetryPolicy } from "#lib/retry.ts";
import type { Secret } from "#lib/secret.ts";
import { clientConfig } from "./database.ts";

export type KeptConnectionOptions = {
  /** For the log: "notifications". */
  readonly purpose: string;
  readonly url: Secret;
  /** Makes a new connection what it is to be. After a rejection another one is made. */
  readonly prepare: (client: Client) => Promise<void>;
  /** Runs once a broken connection was replaced. Must not throw. */
  readonly onReplaced?: () => void;
  readonly log: Log;
  readonly clock?: Clock;
};

const connecting: RetryPolicy = { firstMs: 50, factor: 2, msMax: 5_000, jitter: 0.2, triesMax: untilStop };
/** A connection that broke without a word is found out after this and the answer's deadline. */
const heartbeatMs = 5_000;
const answerWaitMs = 5_000;

/** `start()` once, then `stop()`. */
export class KeptConnection {
  readonly #options: KeptConnectionOptions;
  readonly #clock: Clock;
  readonly #stopping = new AbortController();
  #client: Client | undefined;
  #running: Promise<void> | undefined;

  constructor(options: KeptConnectionOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** Resolves when it is prepared; rejects when the database cannot be reached or the preparation fails. */
  async start(): Promise<void> {
    const client = await this.#connect();
    this.#running = this.#run(client);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`the connection for ${this.#options.purpose} is not needed any more`));
    await this.#client?.end().catch(() => undefined);
    await this.#running;
  }

  /** The connection of now; undefined while there is none. */
  get client(): Client | undefined {
    return this.#client;
  }

  async #run(first: Client): Promise<void> {
    const { log, purpose } = this.#options;
    const { signal } = this.#stopping;
    for (let client: Client | undefined = first; !signal.aborted; client = await this.#reconnect()) {
      if (client === undefined) return;
      await this.#watch(client);
      this.#client = undefined;
      await client.end().catch(() => undefined);
      if (!signal.aborted) log.warn(`the connection for ${purpose} broke; connecting again`);
    }
  }

  /** Undefined when stopped. */
  async #reconnect(): Promise<Client | undefined> {
    const { log, purpose, onReplaced } = this.#options;
    const { signal } = this.#stopping;
    const clock = this.#clock;
    // Not at once: the server may break each connection as soon as it has taken it.
    await clock.sleep(backoffMs(connecting, 1, clock.random()), signal).catch(() => undefined);
    const onFailure = (error: unknown, attempt: number): void =>
      log.warn({ err: error, attempt }, `no connection for ${purpose}`);
    const client = await retry({ ...connecting, clock, signal, onFailure }, () => this.#connect());
    if (client !== undefined) onReplaced?.();
    return client;
  }

  async #connect(): Promise<Client> {
    const { url, prepare } = this.#options;
    const client = new Client({ ...clientConfig(url), query_timeout: answerWaitMs });
    // Without a listener Node would end the process; #watch notices the end itself.
    client.on("error", () => undefined);
    this.#client = client;
    try {
      await client.connect();
      await prepare(client);
    } catch (error) {
      this.#client = undefined;
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
      this.#options.log.debug({ err: error }, `the connection for ${this.#options.purpose} ended`);
    }
  }
}
