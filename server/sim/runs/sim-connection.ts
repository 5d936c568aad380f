// Connections of the simulated platforms to the database: what each knows of its transaction, and
// how many a process has. Whatever is asked on one goes through the gate.
import type { PostgresQueryResult } from "kysely";
import type { Client } from "pg";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { claimsOf, isEnd } from "./faults.ts";

/** A process of the platform, as the gate sees it. */
export interface Owner {
  readonly name: string;
  readonly isDead: boolean;
  /** Runs it in the process: later when it stands still, never when it is dead. */
  enter(run: () => void): void;
}

export type Result = PostgresQueryResult<unknown>;

/** What is asked on a connection. */
export type Sent = {
  readonly connection: SimConnection;
  readonly text: string;
  readonly parameters: readonly unknown[];
};

/** The maximum number of connections of a process. */
const connectionsMax = 8;
const transactionEnds = new Set(["begin", "commit", "rollback"]);
const setTime = "select set_config('sim.ms', $1, false)";
const preparedNames = new Map<string, string>();

/** The connections of one process, instead of a pool of `pg`, of which only `connect` is used. */
export class SimPool {
  readonly options = {};
  readonly #open: () => SimConnection;
  readonly #free: SimConnection[] = [];
  readonly #waiting: ((connection: SimConnection) => void)[] = [];
  #openCount = 0;

  constructor(open: () => SimConnection) {
    this.#open = open;
  }

  connect(): Promise<SimConnection> {
    const known = this.#free.pop();
    if (known !== undefined) return Promise.resolve(known);
    if (this.#openCount < connectionsMax) return Promise.resolve(this.#another());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** It is of no more use to whoever had it. */
  offer(connection: SimConnection): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(connection);
    else next(connection);
  }

  /** One connection less. */
  closed(isDead: boolean): void {
    this.#openCount--;
    if (!isDead) this.#waiting.shift()?.(this.#another());
  }

  end(): Promise<void> {
    return Promise.resolve();
  }

  #another(): SimConnection {
    this.#openCount++;
    return this.#open();
  }
}

/** One connection of one process. */
export class SimConnection {
  readonly owner: Owner;
  readonly client: Client;
  /** Runs and epochs that its statements named, until the transaction is over. */
  readonly claims = new Map<string, Set<number>>();
  isInTransaction = false;
  isBroken = false;
  endsRuns = false;
  underWay = 0;
  /** What its clock shows. */
  #clockMs: number | null = null;
  readonly #pool: SimPool;
  readonly #send: (sent: Sent) => Promise<Result>;
  #isReleased = false;
  #notifications: [string, string][] = [];

  constructor(
    owner: Owner,
    client: Client,
    { pool, send }: { readonly pool: SimPool; readonly send: (sent: Sent) => Promise<Result> },
  ) {
    this.owner = owner;
    this.client = client;
    this.#pool = pool;
    this.#send = send;
  }

  query(text: string, parameters: readonly unknown[] = []): Promise<Result> {
    this.#isReleased = false;
    if (isEnd(text)) this.endsRuns = true;
    return this.#send({ connection: this, text, parameters });
  }

  release(): void {
    this.#isReleased = true;
    this.offer();
  }

  /** Lets others use it once it is let go of and nothing of it is under way. */
  offer(): void {
    if (this.#isReleased && !this.isBroken && this.underWay === 0) this.#pool.offer(this);
  }

  /** It is gone. */
  close(): void {
    this.#pool.closed(this.owner.isDead);
  }

  /**
   * At the database's time `nowMs`. Prepared, since planning takes most of the time; its plan does
   * not depend on the parameters.
   */
  carryOut({ text, parameters }: Omit<Sent, "connection">, nowMs: number): Promise<unknown> {
    // A transaction that has failed takes nothing but its end.
    if (!transactionEnds.has(text) && this.#clockMs !== nowMs) {
      this.#clockMs = nowMs;
      const setting = this.client.query({
        name: "time",
        text: setTime,
        values: [String(VirtualClock.beginMs + nowMs)],
      });
      setting.catch(() => undefined);
    }
    // What was set within a transaction goes back with it.
    if (text === "rollback") this.#clockMs = null;
    return this.client.query({ name: preparedName(text), text, values: [...parameters] });
  }

  note(text: string, parameters: readonly unknown[]): void {
    for (const [runId, epoch] of claimsOf(text, parameters) ?? []) {
      const epochs = this.claims.get(runId) ?? new Set();
      this.claims.set(runId, epochs.add(epoch));
    }
  }

  /** The statement has ended; returns the notifications that are committed by it. */
  ended(text: string, parameters: readonly unknown[], isOk: boolean): [string, string][] {
    if (text === "begin") this.isInTransaction = isOk;
    if (text.startsWith("select pg_notify") && isOk) {
      this.#notifications.push([String(parameters[0]), String(parameters[1])]);
    }
    if (text === "commit" || text === "rollback") this.isInTransaction = false;
    if (text === "rollback") this.#notifications = [];
    return this.isInTransaction ? [] : this.#notifications.splice(0);
  }

  /** The transaction is over. */
  forget(): void {
    this.claims.clear();
    this.endsRuns = false;
  }
}

function preparedName(text: string): string {
  const name = preparedNames.get(text) ?? `statement ${preparedNames.size + 1}`;
  preparedNames.set(text, name);
  return name;
}
