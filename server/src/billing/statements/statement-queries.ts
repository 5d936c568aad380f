// Monthly statements: computed from current data until they are closed, and fixed from then on. The
// meter calls `closeStatements`, the API calls `StatementQueries`.
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { Db, Tx } from "#store/database.ts";
import { readApplied } from "#billing/coupons/applied-store.ts";
import { openAccount } from "#billing/coupons/coupon-store.ts";
import { lockAccount } from "#billing/usage/meter-store.ts";
import { boundsOf, periodOf, type Period } from "#billing/period.ts";
import { postUsage, readSnapshot, settledUsage, type SettledUsage } from "#billing/posting.ts";
import {
  insertStatement,
  readClosed,
  readLines,
  readToClose,
  type ClosedStatement,
} from "./statement-store.ts";
import { statementOf, type StatementContent, type StatementLine } from "./statement.ts";
import type { Foundation } from "#store/foundation.ts";

/**
 * A statement closes this long after its month: ends of replicas that the database missed during an
 * outage are written within a day.
 */
const graceMs = 86_400_000;
/** How many statements one turn closes; the next turn continues. */
const statementsMax = 1_000;

/** A month's statement; `closedAt` null: it may still change. */
export type Statement = { readonly content: StatementContent; readonly closedAt: Date | null };

/** The API's queries for statements. */
export class StatementQueries {
  readonly #parts: Pick<Foundation, "db" | "clock">;

  constructor(parts: Pick<Foundation, "db" | "clock">) {
    this.#parts = parts;
  }

  /** The statements of all months with usage, and of this month, newest first. */
  async list(projectId: ProjectId): Promise<Statement[]> {
    const period = periodOf(this.#parts.clock.now());
    const statements = await readSnapshot(this.#parts.db, async (tx) => {
      const inputs = await readInputs(tx, projectId);
      const open = await openStatements(tx, inputs, period);
      return [...inputs.closed, ...open.map((content) => ({ content, closedAt: null }))];
    });
    return statements.toSorted((left, right) =>
      left.content.period < right.content.period ? 1 : -1,
    );
  }

  /** The statement of one month; null for a future month. */
  async read(projectId: ProjectId, period: Period): Promise<Statement | null> {
    if (boundsOf(period).fromMs > this.#parts.clock.now()) return null;
    return await readSnapshot(this.#parts.db, async (tx) => {
      const inputs = await readInputs(tx, projectId);
      const closed = inputs.closed.find(({ content }) => content.period === period);
      if (closed !== undefined) return closed;
      const now = periodOf(this.#parts.clock.now());
      const open = (await openStatements(tx, inputs, now)).find(
        (content) => content.period === period,
      );
      // An earlier month without usage has an empty statement: it gets no corrections either.
      return {
        content: open ?? makeStatement(inputs, { period, lines: [], others: [] }),
        closedAt: null,
      };
    });
  }
}

/** The inputs of a project's statements, except their lines. */
type StatementInputs = SettledUsage & {
  readonly projectId: ProjectId;
  readonly closed: readonly ClosedStatement[];
};

async function readInputs(tx: Tx, projectId: ProjectId): Promise<StatementInputs> {
  return {
    ...(await settledUsage(tx, projectId)),
    projectId,
    closed: await readClosed(tx, projectId),
  };
}

/**
 * Computes the open statements up to `last`, in the order in which they would close: a correction
 * goes into the first open statement that is later than the corrected month.
 */
async function openStatements(
  tx: Tx,
  inputs: StatementInputs,
  last: Period,
): Promise<StatementContent[]> {
  const closed = inputs.closed.map(({ content }) => content);
  const closedPeriods = new Set(closed.map(({ period }) => period));
  const periods = [...new Set([...inputs.bases.keys(), last])].filter(
    (period) => period <= last && !closedPeriods.has(period),
  );
  const open: StatementContent[] = [];
  for (const period of periods.sort()) {
    const lines = await readLines(tx, inputs.projectId, period);
    open.push(makeStatement(inputs, { period, lines, others: [...closed, ...open] }));
  }
  return open;
}

type StatementMonth = {
  readonly period: Period;
  readonly lines: readonly StatementLine[];
  /** The statements whose amounts must not be reported again. */
  readonly others: readonly StatementContent[];
};

/** Computes a statement from current data. */
function makeStatement(inputs: StatementInputs, month: StatementMonth): StatementContent {
  const { period, lines, others } = month;
  const { currency, applied, bases, settlement } = inputs;
  return statementOf({
    period,
    currency,
    bases,
    drawn: settlement.drawn,
    lines,
    said: others,
    coupons: new Map(applied.map((coupon) => [coupon.id, coupon])),
  });
}

/**
 * Closes the statements of months that ended at least a day ago. Each statement is closed in one
 * transaction. Idempotent.
 */
export async function closeStatements(
  { db, clock, log }: { readonly db: Db; readonly clock: Clock; readonly log: Log },
  signal?: AbortSignal,
): Promise<void> {
  // The last instant of the latest month whose grace period is over.
  const lastMs = boundsOf(periodOf(clock.now() - graceMs)).fromMs - 1;
  for (const { projectId, period } of await readToClose(db, periodOf(lastMs), statementsMax)) {
    if (signal?.aborted) return;
    try {
      await db
        .transaction()
        .execute((tx) => closeStatement(tx, { projectId, period, nowMs: clock.now() }));
    } catch (error) {
      log.error(
        { err: error, projectId, period },
        "a statement could not be closed; the next turn tries again",
      );
    }
  }
}

async function closeStatement(
  tx: Tx,
  month: { readonly projectId: ProjectId; readonly period: Period; readonly nowMs: number },
): Promise<void> {
  const { projectId, period, nowMs } = month;
  const currency = await openAccount(tx, projectId);
  const account = await lockAccount(tx, projectId);
  // Another process holds the account; a later turn closes the statement.
  if (account === null) return;
  // A closed statement must agree with the ledger.
  const applied = await readApplied(tx, projectId);
  await postUsage(tx, { projectId, currency, applied, postings: account.postings, nowMs });
  const inputs = await readInputs(tx, projectId);
  const lines = await readLines(tx, projectId, period);
  const others = inputs.closed.map(({ content }) => content);
  await insertStatement(tx, projectId, makeStatement(inputs, { period, lines, others }));
}
