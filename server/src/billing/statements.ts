// Statements of months: made by what is known now until they are closed, and kept as they are from then on. The meter calls
// `closeStatements`, the API the desk.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { Db, Tx } from "#store/database.ts";
import { readApplied } from "./applied-store.ts";
import { openAccount } from "./coupon-store.ts";
import { lockAccount } from "./meter-store.ts";
import { boundsOf, periodOf, type Period } from "./period.ts";
import { postUsage, settledUsage, type SettledUsage } from "./posting.ts";
import { insertStatement, readClosed, readLines, readToClose, type ClosedStatement } from "./statement-store.ts";
import { statementOf, type StatementContent, type StatementLine } from "./statement.ts";

/** Replicas that ended while the database did not answer have their ends written within a day. */
const graceMs = 86_400_000;
/** Statements of one turn; the next one goes on. */
const statementsMax = 1_000;

/** A month's statement; `closedAt` null: it may change still. */
export type Statement = { readonly content: StatementContent; readonly closedAt: Date | null };

/** What the API does with statements. */
export class StatementDesk {
  readonly #db: Db;
  readonly #clock: Clock;

  constructor(parts: { readonly db: Db; readonly clock: Clock }) {
    this.#db = parts.db;
    this.#clock = parts.clock;
  }

  /** Those of all months with usage, and of this month, newest first. */
  async list(projectId: ProjectId): Promise<Statement[]> {
    const known = await readKnown(this.#db, projectId);
    const { bases, closed } = known;
    const isClosed = new Set(closed.map(({ content }) => content.period));
    const now = periodOf(this.#clock.now());
    const open = [...new Set([...bases.keys(), now])].filter((period) => period <= now && !isClosed.has(period));
    const made: Statement[] = [...closed];
    for (const period of open) {
      const lines = await readLines(this.#db, projectId, period);
      made.push({ content: makeStatement(known, period, lines), closedAt: null });
    }
    return made.toSorted((one, other) => (one.content.period < other.content.period ? 1 : -1));
  }

  /** That of one month; null when the month is still to come. */
  async read(projectId: ProjectId, period: Period): Promise<Statement | null> {
    if (boundsOf(period).fromMs > this.#clock.now()) return null;
    const known = await readKnown(this.#db, projectId);
    const closed = known.closed.find(({ content }) => content.period === period);
    const lines = await readLines(this.#db, projectId, period);
    return closed ?? { content: makeStatement(known, period, lines), closedAt: null };
  }
}

/** All that statements of a project are made from, but for their lines. */
type Known = SettledUsage & { readonly closed: readonly ClosedStatement[] };

async function readKnown(db: Db | Tx, projectId: ProjectId): Promise<Known> {
  return { ...(await settledUsage(db, projectId)), closed: await readClosed(db, projectId) };
}

/** By what is known now. */
function makeStatement(known: Known, period: Period, lines: readonly StatementLine[]): StatementContent {
  const { currency, applied, bases, settlement, closed } = known;
  return statementOf({
    ...{ period, currency, bases, drawn: settlement.drawn, lines },
    coupons: new Map(applied.map((coupon) => [coupon.id, coupon])),
    // What a statement says does not change with those of later months.
    closed: closed.map(({ content }) => content).filter((content) => content.period < period),
  });
}

/** Closes the statements of months that have been over for a day. Each is one transaction; a repeat does nothing. */
export async function closeStatements(
  { db, clock, log }: { readonly db: Db; readonly clock: Clock; readonly log: Log },
  signal?: AbortSignal,
): Promise<void> {
  const lastMs = boundsOf(periodOf(clock.now() - graceMs)).fromMs - 1;
  for (const { projectId, period } of await readToClose(db, periodOf(lastMs), statementsMax)) {
    if (signal?.aborted) return;
    try {
      await db.transaction().execute((tx) => closeStatement(tx, { projectId, period, nowMs: clock.now() }));
    } catch (error) {
      log.error({ err: error, projectId, period }, "a statement could not be closed; the next turn tries again");
    }
  }
}

async function closeStatement(
  tx: Tx,
  { projectId, period, nowMs }: { readonly projectId: ProjectId; readonly period: Period; readonly nowMs: number },
): Promise<void> {
  const currency = await openAccount(tx, projectId);
  const account = await lockAccount(tx, projectId);
  if (account === null) return;
  // What it says stands in the ledger.
  const applied = await readApplied(tx, projectId);
  await postUsage(tx, { projectId, currency, applied, postings: account.postings, nowMs });
  const lines = await readLines(tx, projectId, period);
  await insertStatement(tx, projectId, makeStatement(await readKnown(tx, projectId), period, lines));
}
