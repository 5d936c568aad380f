// Rows of the audit log: inserted and read in pages. They never change; chain-store.ts removes old
// ones.
import { sql, type Insertable, type RawBuilder, type Selectable } from "kysely";
import type { Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { ProjectId } from "#lib/ids.ts";
import { timeOfMicros } from "./instant.ts";

/**
 * A row. `at_micros` is the exact `at`, in microseconds since the epoch: a Date has only
 * milliseconds.
 */
export type AuditRow = Selectable<Tables["audit_log"]> & { readonly at_micros: number };

export type AuditOutcome = "success" | "failure";

/**
 * An entry's position in the order of time and id. The time is in microseconds since the epoch,
 * which is the full precision of the database.
 */
export type EntryCursor = { readonly atMicros: number; readonly id: number };

/**
 * The entries to read; absent conditions do not filter. `fromMicros` itself is included, `toMicros`
 * and `before` are not.
 */
export type AuditQuery = {
  readonly projectId: ProjectId;
  readonly fromMicros?: number | null;
  readonly toMicros?: number | null;
  readonly action?: string | null;
  readonly actorId?: string | null;
  readonly outcome?: AuditOutcome | null;
  readonly before?: EntryCursor | null;
  readonly limit: number;
};

/** Inserts one row. */
export async function insertEntry(tx: Db, row: Insertable<Tables["audit_log"]>): Promise<void> {
  await tx
    .insertInto("audit_log")
    .values({ ...row, at: sql<Date>`clock_timestamp()` })
    .execute();
}

/**
 * Lists entries, newest first by time and id, so that pages neither repeat nor skip rows while new
 * ones arrive. Uses the four indexes that end in `at, id`. No locks.
 */
export async function listEntries(db: Db, query: AuditQuery): Promise<AuditRow[]> {
  const { outcome, limit } = query;
  const parts = outcome
    ? pageOfOutcome(query, outcome)
    : sql`${pageOfOutcome(query, "success")} union all ${pageOfOutcome(query, "failure")}`;
  const statement = sql<AuditRow>`
    select entry.*, (extract(epoch from entry.at) * 1000000)::bigint as at_micros
      from (${parts}) as entry
     order by entry.at desc, entry.id desc
     limit ${limit}`;
  return (await statement.execute(db)).rows;
}

/**
 * A page of one outcome. Each outcome is read on its own, because every index has the outcome
 * before the time.
 */
function pageOfOutcome(query: AuditQuery, outcome: AuditOutcome): RawBuilder<unknown> {
  const where = conditionsOf(query, outcome);
  return sql`(select * from audit_log where ${where} order by at desc, id desc limit ${query.limit})`;
}

/** The conditions for entries of one outcome that match a query, in a form that indexes serve. */
export function conditionsOf(
  query: Omit<AuditQuery, "limit">,
  outcome: AuditOutcome,
): RawBuilder<unknown> {
  const { projectId, fromMicros, toMicros, action, actorId, before } = query;
  const conditions = [sql`project_id = ${projectId}`, sql`outcome = ${sql.lit(outcome)}`];
  if (action) conditions.push(sql`action = ${action}`);
  if (actorId) conditions.push(sql`actor_id = ${actorId}`);
  if (typeof fromMicros === "number")
    conditions.push(sql`at >= ${timeOfMicros(fromMicros)}::timestamptz`);
  if (typeof toMicros === "number")
    conditions.push(sql`at < ${timeOfMicros(toMicros)}::timestamptz`);
  if (before)
    conditions.push(
      sql`(at, id) < (${timeOfMicros(before.atMicros)}::timestamptz, ${before.id}::bigint)`,
    );
  return sql.join(conditions, sql` and `);
}
