// Reads chains of the audit log by number, for exports and forwarding. An entry gets its number
// when it is committed, under the lock on the chain. So when a reader finds a number, all lower
// numbers are there too.
import { sql, type RawBuilder } from "kysely";
import { assert } from "#lib/assert.ts";
import type { ProjectId } from "#lib/ids.ts";
import { readRows, type Db } from "#store/database.ts";
import * as auditStore from "#audit/audit-store.ts";
import { timeOfMicros } from "#audit/instant.ts";
import { chainBegin, type ChainPosition } from "./export-format.ts";

/** A project's id, or `platform` for entries without a project. */
export type Chain = string;

const platformChain = "platform";

/** The chain of a project's entries; null: of entries without a project. */
export function chainOf(projectId: ProjectId | null): Chain {
  return projectId ?? platformChain;
}

/** The inverse of `chainOf`. */
export function projectOfChain(chain: Chain): ProjectId | null {
  return chain === platformChain ? null : (chain as ProjectId);
}

/** An entry with its position in its chain. */
export type LinkedRow = auditStore.AuditRow & ChainPosition;

/** The position of the chain's last entry, even if that entry has been removed. No locks. */
export async function readHead(db: Db, chain: Chain): Promise<ChainPosition> {
  return (await lastOf("audit_links", chain).execute(db)).rows[0] ?? chainBegin;
}

export type ChainEnd = ChainPosition & {
  /**
   * When the end was read, by the clock that also gives entries their times (database-time.ts).
   * Every entry up to `number` is earlier.
   */
  readonly atMicros: number;
};

/** Like `readHead`, with the time of the read. No locks. */
export async function readEnd(db: Db, chain: Chain): Promise<ChainEnd> {
  // The added microsecond makes the time later than that of an entry in the present microsecond.
  const { rows } = await sql<ChainEnd>`
    select coalesce(number, 0) as number, coalesce(hash, ${chainBegin.hash}) as hash,
           (extract(epoch from clock_timestamp()) * 1000000)::bigint + 1 as "atMicros"
      from (values (true)) as always left join lateral (${lastOf("audit_links", chain)}) as head on true`.execute(
    db,
  );
  const [end] = rows;
  assert(end, "a left join has a row for each on its left side");
  return end;
}

/** The last position of the chain in the table, or that of the stub if its number is higher. */
export function lastOf(
  table: "audit_links" | "audit_checkpoints",
  chain: Chain,
): RawBuilder<ChainPosition> {
  return sql<ChainPosition>`
    (select number, encode(hash, 'hex') as hash from ${sql.table(table)} where chain = ${chain} order by number desc limit 1)
    union all
    (select number, encode(hash, 'hex') as hash from audit_stubs where chain = ${chain})
    order by number desc limit 1`;
}

/** Which links to read by time; absent conditions do not filter. */
export type LinksByTime = Pick<
  auditStore.AuditQuery,
  "projectId" | "action" | "actorId" | "outcome" | "fromMicros" | "toMicros"
> & {
  readonly chain: Chain;
  /** The last entry that was read before; null: begins with the oldest. */
  readonly after: auditStore.EntryCursor | null;
  readonly limit: number;
};

/**
 * Entries of a project, oldest first by time and id, each with its link. Reads each outcome on its
 * own, so that it uses the same indexes as a page of entries. No locks.
 */
export async function readLinksByTime(db: Db, query: LinksByTime): Promise<LinkedRow[]> {
  const { chain, outcome, limit } = query;
  const parts = outcome
    ? oldestOf(query, outcome)
    : sql`${oldestOf(query, "success")} union all ${oldestOf(query, "failure")}`;
  return await readRows<LinkedRow>(db)`
    select found.*, (extract(epoch from found.at) * 1000000)::bigint as at_micros, link.number,
           encode(link.hash, 'hex') as hash
      from (select * from (${parts}) as part order by at, id limit ${limit}) as found
      join audit_links as link on link.entry_id = found.id and link.chain = ${chain}
     order by found.at, found.id`;
}

function oldestOf(query: LinksByTime, outcome: auditStore.AuditOutcome): RawBuilder<unknown> {
  const { after, limit } = query;
  const isLater =
    after === null
      ? sql`true`
      : sql`(at, id) > (${timeOfMicros(after.atMicros)}::timestamptz, ${after.id}::bigint)`;
  return sql`
    (select * from audit_log where ${auditStore.conditionsOf(query, outcome)} and ${isLater} order by at, id limit ${limit})`;
}

/** Entries with numbers after `after` up to `through`, in order, at most `limit`. No locks. */
export async function readLinks(
  db: Db,
  range: {
    readonly chain: Chain;
    readonly after: number;
    readonly through: number;
    readonly limit: number;
  },
): Promise<LinkedRow[]> {
  const { chain, after, through, limit } = range;
  return await readRows<LinkedRow>(db)`
    select entry.*, (extract(epoch from entry.at) * 1000000)::bigint as at_micros, link.number,
           encode(link.hash, 'hex') as hash
      from (select chain, number, entry_id, hash from audit_links
             where chain = ${chain} and number > ${after} and number <= ${through}
             order by number limit ${limit}) as link
      join audit_log as entry on entry.id = link.entry_id and coalesce(entry.project_id, ${platformChain}) = link.chain
     order by link.number`;
}
