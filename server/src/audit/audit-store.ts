// Rows of the audit log: added and read in pages. They are never changed; see chain-store.ts for how old ones go.
import { sql, type Insertable, type RawBuilder, type Selectable } from "kysely";
import type { Db } from "#store/database.ts";
import type { AuditLogTable } from "#store/tables.ts";
import type { ProjectId } from "#lib/ids.ts";
import { timeOfMicros } from "./instant.ts";

/** `at_micros`: `at` to the microsecond, which a Date does not hold. */
export type AuditRow = Selectable<AuditLogTable> & { readonly at_micros: number };

export type AuditOutcome = "success" | "failure";

/** An entry's place in the order of time; microseconds since the epoch, as exact as the database keeps them. */
export type EntryCursor = { readonly atMicros: number; readonly id: number };

/** What to read; absent conditions do not narrow. Times: `from` included, `to` not. `before` itself is left out. */
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

/** Adds one row. */
export async function insertEntry(tx: Db, row: Insertable<AuditLogTable>): Promise<void> {
  await tx
    .insertInto("audit_log")
    .values({ ...row, at: sql<Date>`clock_timestamp()` })
    .execute();
}

/** Newest first by time and id, so that pages neither repeat nor leave out rows while new ones come in. */
export async function listEntries(db: Db, query: AuditQuery): Promise<AuditRow[]> {
  return (await entriesQuery(query).execute(db)).rows;
}

/** The statement of `listEntries`, whose plan a test looks at. Read by the four indexes that end in `at, id`. */
export function entriesQuery(query: AuditQuery): RawBuilder<AuditRow> {
  const { outcome, limit } = query;
  const parts = outcome
    ? partOf(query, outcome)
    : sql`${partOf(query, "success")} union all ${partOf(query, "failure")}`;
  return sql<AuditRow>`
    select found.*, (extract(epoch from found.at) * 1000000)::bigint as at_micros
      from (${parts}) as found
     order by found.at desc, found.id desc
     limit ${limit}`;
}

/** A page of one outcome, which every index has before the time. */
function partOf(query: AuditQuery, outcome: AuditOutcome): RawBuilder<unknown> {
  const where = conditionsOf(query, outcome);
  return sql`(select * from audit_log where ${where} order by at desc, id desc limit ${query.limit})`;
}

/** Of all entries that a query wants those of one outcome, as the indexes have them. */
export function conditionsOf(query: Omit<AuditQuery, "limit">, outcome: AuditOutcome): RawBuilder<unknown> {
  const { projectId, fromMicros, toMicros, action, actorId, before } = query;
  const conditions = [sql`project_id = ${projectId}`, sql`outcome = ${sql.lit(outcome)}`];
  if (action) conditions.push(sql`action = ${action}`);
  if (actorId) conditions.push(sql`actor_id = ${actorId}`);
  if (typeof fromMicros === "number") conditions.push(sql`at >= ${timeOfMicros(fromMicros)}::timestamptz`);
  if (typeof toMicros === "number") conditions.push(sql`at < ${timeOfMicros(toMicros)}::timestamptz`);
  if (before) conditions.push(sql`(at, id) < (${timeOfMicros(before.atMicros)}::timestamptz, ${before.id}::bigint)`);
  return sql.join(conditions, sql` and `);
}
