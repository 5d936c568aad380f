// Where every statement of the simulated platforms waits until the seed lets it through: to the
// database, and its answer back. One at a time is carried out, so that a seed gives the same order
// again. A connection may break before or after a statement was carried out, and a platform may be
// killed at any of these moments.
import { Kysely, PostgresDialect, type PostgresPool } from "kysely";
import { systemClock } from "#lib/clock.ts";
import type { Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { Seeded } from "#test/support/seeded.ts";
import { treat, type Mutation } from "./faults.ts";
import { SimConnection, SimPool, type Owner, type Result, type Sent } from "./sim-connection.ts";
import { backendOf, type SimDatabase } from "./sim-database.ts";

export type GateOptions = {
  readonly database: SimDatabase;
  readonly seeded: Seeded;
  readonly mutation: Mutation | null;
  /**
   * After each statement or transaction that may have changed a run, before anybody hears of it.
   */
  readonly afterEach: () => Promise<void>;
  /** A notification of a transaction that is committed. */
  readonly onNotify: (channel: string, payload: string) => void;
};

/** The connection broke: what became of the statement is not known. */
export class ConnectionBroken extends Error {
  override readonly name = "ConnectionBroken";
}

type Answer = { readonly result: Result } | { readonly error: Error };

type Statement = Sent & {
  /** Undefined: it was answered already, or nobody is there to be answered. */
  tell: ((answer: Answer) => void) | undefined;
  /** It was answered before it is carried out. */
  isBehind: boolean;
  phase: "waiting" | "blocked" | "answered";
  running: Promise<Answer> | undefined;
  answer: Answer | undefined;
};

/** The pause, in real time, before it is asked again whether a statement waits for a lock. */
const blockedLookMs = 3;
/** The chance that a statement that was answered early is carried out while others wait. */
const behindChance = 0.02;

/** One for a seed. */
export class Gate {
  readonly #options: GateOptions;
  readonly #connections = new Set<SimConnection>();
  #statements: Statement[] = [];
  /** How likely a statement's connection breaks. */
  breakChance = 0;
  carriedOut = 0;
  broken = 0;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** A database as one process sees it. */
  databaseFor(owner: Owner): Db {
    const send = (sent: Sent): Promise<Result> => this.#add(sent);
    const pool: SimPool = new SimPool(() => {
      const connection = new SimConnection(owner, this.#options.database.take(), { pool, send });
      this.#connections.add(connection);
      return connection;
    });
    // Kysely uses only `query` with a text and `release` of a connection.
    return new Kysely<Tables>({
      dialect: new PostgresDialect({ pool: pool as unknown as PostgresPool }),
    });
  }

  /** True when something waits to be carried out or to be heard of. */
  get isBusy(): boolean {
    return this.#statements.some((one) => one.phase !== "blocked");
  }

  /** How many are under way, those included that wait for a lock. */
  get size(): number {
    return this.#statements.length;
  }

  /** Whose the connection is at this moment. */
  connectionOf(backend: number): SimConnection | undefined {
    return [...this.#connections].find((one) => backendOf(one.client) === backend);
  }

  #add({ connection, text, parameters }: Sent): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    const tell = (answer: Answer): void =>
      connection.owner.enter(() =>
        "result" in answer ? resolve(answer.result) : reject(answer.error),
      );
    if (connection.owner.isDead) return promise;
    if (connection.isBroken) {
      tell({ error: new ConnectionBroken("the connection is broken") });
      return promise;
    }
    const { endsRuns } = connection;
    const treatment = treat(this.#options.mutation, { text, parameters, endsRuns });
    const statement: Statement = {
      connection,
      text: treatment.text,
      parameters,
      tell,
      isBehind: treatment.early !== undefined,
      phase: "waiting",
      running: undefined,
      answer: undefined,
    };
    const rows = treatment.instead ?? treatment.early;
    if (rows !== undefined) {
      tell({
        result: {
          command: text === "commit" ? "COMMIT" : "UPDATE",
          rowCount: rows.length,
          rows: [...rows],
        },
      });
      statement.tell = undefined;
    }
    if (treatment.instead === undefined) {
      this.#statements.push(statement);
      connection.underWay++;
    }
    return promise;
  }

  /** Lets one statement, or one answer, through. False when there was none. */
  async step(): Promise<boolean> {
    const { seeded } = this.#options;
    const able = this.#statements.filter((one) => one.phase !== "blocked");
    const prompt = able.filter((one) => !one.isBehind);
    const from = prompt.length > 0 && !seeded.chance(behindChance) ? prompt : able;
    if (from.length === 0) return false;
    const chosen = seeded.pick(from);
    if (chosen.phase === "answered") this.#tell(chosen);
    else await this.#carryOut(chosen);
    return true;
  }

  /**
   * As the server sees the end of a process: what it had sent may still be carried out, nothing
   * comes after it.
   */
  async drop(owner: Owner): Promise<void> {
    const { seeded, database } = this.#options;
    for (const statement of Array.from(this.#statements)) {
      if (statement.connection.owner !== owner) continue;
      const isOnItsWay = statement.phase === "waiting" && !statement.isBehind;
      statement.tell = undefined;
      if (isOnItsWay && seeded.chance(0.4)) continue;
      const isBlocked = statement.phase === "blocked";
      if (isBlocked) {
        await database.cancel(statement.connection.client);
        await statement.running;
      }
      this.#remove(statement);
      // Another one of its statements may have waited for this one, and is carried out by now.
      if (isBlocked) await this.#lookAtBlocked();
    }
    for (const connection of Array.from(this.#connections)) {
      if (connection.owner === owner && connection.underWay === 0) await this.#close(connection);
    }
  }

  /** Nothing is left of this seed, however it ended. */
  async close(): Promise<void> {
    for (const { phase, connection, running } of this.#statements.splice(0)) {
      if (phase !== "blocked") continue;
      await this.#options.database.cancel(connection.client);
      await running;
    }
    for (const connection of Array.from(this.#connections)) await this.#close(connection);
  }

  async #carryOut(statement: Statement): Promise<void> {
    const { connection } = statement;
    const { seeded } = this.#options;
    const isHeard = statement.tell !== undefined;
    const breaks = isHeard && this.breakChance > 0 && seeded.chance(this.breakChance);
    if (breaks && seeded.chance(0.5)) {
      await this.#break(statement);
      return;
    }
    this.carriedOut++;
    connection.note(statement.text, statement.parameters);
    statement.running = answerOf(
      connection,
      connection.carryOut(statement, this.#options.database.timeMs),
    );
    await this.#watch(statement);
    await this.#lookAtBlocked();
    if (breaks && statement.phase === "answered") await this.#break(statement);
    else if (statement.phase === "answered" && seeded.chance(0.6)) this.#tell(statement);
  }

  /** Returns when it has ended, or waits for another one's lock. */
  async #watch(statement: Statement): Promise<void> {
    const { database, afterEach, onNotify } = this.#options;
    const { connection, running } = statement;
    if (running === undefined) return;
    const isBlocked = (): Promise<boolean> => database.isBlocked(connection.client);
    if (statement.phase === "blocked" && (await isBlocked())) return;
    const answer = await this.#answerOrBlocked(running, isBlocked);
    if (answer === "blocked") {
      statement.phase = "blocked";
      return;
    }
    statement.phase = "answered";
    statement.answer = answer;
    const notifications = connection.ended(
      statement.text,
      statement.parameters,
      "result" in answer,
    );
    if (!connection.isInTransaction && mayHaveChanged(statement.text, answer)) await afterEach();
    for (const [channel, payload] of notifications) onNotify(channel, payload);
    if (!connection.isInTransaction) connection.forget();
    if (statement.tell === undefined) await this.#removeBehind(statement);
  }

  async #answerOrBlocked(
    running: Promise<Answer>,
    isBlocked: () => Promise<boolean>,
  ): Promise<Answer | "blocked"> {
    for (;;) {
      const waiting = new AbortController();
      const late = systemClock.sleep(blockedLookMs, waiting.signal).then(
        () => "late" as const,
        () => "late" as const,
      );
      const first = await Promise.race([running, late]);
      waiting.abort(new Error("it is decided"));
      if (first !== "late") return first;
      if (await isBlocked()) return "blocked";
    }
  }

  /** Whoever waited for a lock that was let go of goes on, which may let go of more. */
  async #lookAtBlocked(): Promise<void> {
    let hasMoved = true;
    while (hasMoved) {
      const blocked = this.#statements.filter((one) => one.phase === "blocked");
      for (const statement of blocked) await this.#watch(statement);
      hasMoved = blocked.some((one) => one.phase !== "blocked");
    }
  }

  #tell(statement: Statement): void {
    const { tell, answer } = statement;
    if (!this.#statements.includes(statement)) return;
    this.#remove(statement);
    if (answer !== undefined) tell?.(answer);
  }

  #remove(statement: Statement): void {
    this.#statements = this.#statements.filter((one) => one !== statement);
    statement.connection.underWay--;
  }

  /** Nobody hears of it: its process is dead, or was told before. */
  async #removeBehind(statement: Statement): Promise<void> {
    const { connection } = statement;
    this.#remove(statement);
    if (connection.owner.isDead) await this.#close(connection);
    else connection.offer();
  }

  async #break(statement: Statement): Promise<void> {
    const { connection } = statement;
    this.broken++;
    statement.answer = { error: new ConnectionBroken("the connection broke") };
    statement.phase = "answered";
    connection.isBroken = true;
    await this.#close(connection);
    await this.#lookAtBlocked();
  }

  async #close(connection: SimConnection): Promise<void> {
    if (!this.#connections.delete(connection)) return;
    if (connection.isInTransaction) await connection.client.query("rollback");
    this.#options.database.giveBack(connection.client);
    connection.close();
    await this.#lookAtBlocked();
  }
}

/**
 * Rows that come in no promised order come in that of their ids here, so that a seed can be
 * repeated.
 */
function inOrder(result: Result): Result {
  const idOf = (row: unknown): string => {
    const { id, runId } = row as { readonly id?: string; readonly runId?: string };
    return id ?? runId ?? "";
  };
  result.rows.sort((left, right) =>
    idOf(left) < idOf(right) ? -1 : Number(idOf(left) > idOf(right)),
  );
  return result;
}

/** False when a statement of its own cannot have changed a run. */
function mayHaveChanged(text: string, answer: Answer): boolean {
  if (text === "commit") return true;
  return !text.startsWith("select") && "result" in answer && (answer.result.rowCount ?? 0) > 0;
}

async function answerOf({ client }: SimConnection, running: Promise<unknown>): Promise<Answer> {
  try {
    return { result: inOrder((await running) as Result) };
  } catch (error) {
    // The server sends an error before it lets go of the statement's locks, and answers the next
    // statement after that.
    await client.query("").catch(() => undefined);
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }
}
