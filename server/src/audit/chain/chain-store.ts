// Rows of the chains except their links: the list of chains, their checkpoints, and the stubs that
// retention leaves. export-store.ts reads links; the database itself writes them.
import { sql } from "kysely";
import { insertNew, readRow, readRows, type Db } from "#store/database.ts";
import * as format from "#audit/export/export-format.ts";
import { lastOf, type Chain } from "#audit/export/export-store.ts";

/**
 * The end of a chain that no checkpoint covers yet. `previous` is the number of the chain's last
 * checkpoint, or 0.
 */
export type OpenEnd = format.ChainPosition & { readonly chain: Chain; readonly previous: number };

export type OpenEndQuery = {
  /** Restricts the query to this chain. */
  readonly chain?: Chain;
  /**
   * Only ends that are due: the chain has no checkpoint, or its last checkpoint was made at
   * `before` or earlier, was made after `beyond` (by a wrong clock), or is at least `entriesMin`
   * entries back.
   */
  readonly due?: { readonly before: Date; readonly beyond: Date; readonly entriesMin: number };
  readonly limit: number;
};

/** Unsigned chain ends, in the order of the chains' names. No locks. */
export async function listOpenEnds(
  db: Db,
  { chain, due, limit }: OpenEndQuery,
): Promise<OpenEnd[]> {
  const isInChain = chain === undefined ? sql`true` : sql`known.chain = ${chain}`;
  const isDue =
    due === undefined
      ? sql`true`
      : sql`(checked.at is null or checked.at <= ${due.before} or checked.at > ${due.beyond} or last.number - checked.number >= ${due.entriesMin})`;
  return await readRows<OpenEnd>(db)`
    select known.chain, last.number, encode(last.hash, 'hex') as hash, coalesce(checked.number, 0) as previous
      from audit_chains as known
     cross join lateral (select number, hash from audit_links
                          where chain = known.chain order by number desc limit 1) as last
      left join lateral (select number, at from audit_checkpoints
                          where chain = known.chain order by number desc limit 1) as checked on true
     where ${isInChain} and last.number > coalesce(checked.number, 0) and ${isDue}
     order by known.chain limit ${limit}`;
}

export type NewCheckpoint = OpenEnd & {
  readonly at: Date;
  readonly keyId: string;
  readonly jws: string;
};

/** Inserts a checkpoint, unless another process has inserted one after the same predecessor. */
export async function insertCheckpoint(
  db: Db,
  { keyId, hash, ...row }: NewCheckpoint,
): Promise<void> {
  await insertNew(db, "audit_checkpoints", {
    ...row,
    key_id: keyId,
    hash: Buffer.from(hash, "hex"),
  });
}

/** Which checkpoints to read: numbers after `after` up to `through`, at most `limit`. */
export type CheckpointRange = {
  readonly chain: Chain;
  readonly after: number;
  readonly through: number;
  readonly limit: number;
};

/** The checkpoints of the range, in order. No locks. */
export async function listCheckpoints(
  db: Db,
  range: CheckpointRange,
): Promise<format.CheckpointLine[]> {
  const rows = await db
    .selectFrom("audit_checkpoints")
    .selectAll()
    .where("chain", "=", range.chain)
    .where("number", ">", range.after)
    .where("number", "<=", range.through)
    .orderBy("number")
    .limit(range.limit)
    .execute();
  return rows.map((row) =>
    format.checkpointLine({ ...row, hash: row.hash.toString("hex"), at: row.at.toISOString() }),
  );
}

/** The stub of a chain, undefined when none of its entries were removed. No locks. */
export async function readStub(db: Db, chain: Chain): Promise<format.StubLine | undefined> {
  const row = await db
    .selectFrom("audit_stubs")
    .selectAll()
    .where("chain", "=", chain)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const before = row.before.toISOString();
  const at = row.at.toISOString();
  return format.stubLine({
    number: row.number,
    hash: row.hash.toString("hex"),
    before,
    at,
    jws: row.jws,
  });
}

/**
 * The last signed position of a chain, from a checkpoint or a stub; undefined when there is none.
 * No locks.
 */
export async function readSigned(db: Db, chain: Chain): Promise<format.ChainPosition | undefined> {
  return (await lastOf("audit_checkpoints", chain).execute(db)).rows[0];
}

/** Every chain with links, and the time of its first entry, in the order of names. No locks. */
export async function listChainBegins(db: Db): Promise<{ chain: Chain; at: Date }[]> {
  return await readRows<{ chain: Chain; at: Date }>(db)`
    select known.chain, first.at
      from audit_chains as known
     cross join lateral (select entry.at from audit_links as link join audit_log as entry on entry.id = link.entry_id
                          where link.chain = known.chain order by link.number limit 1) as first
     order by known.chain`;
}

/**
 * Finds the last link to remove, among the first `limit` links of a chain: all entries up to it are
 * older than `before`. Undefined: there is nothing to remove. No locks.
 */
export async function findCut(
  db: Db,
  {
    chain,
    before,
    limit,
  }: { readonly chain: Chain; readonly before: Date; readonly limit: number },
): Promise<format.ChainPosition | undefined> {
  // If no entry of `begin` is newer, `coalesce` gives the largest bigint, so that all of its links
  // may be removed.
  return await readRow<format.ChainPosition>(db)`
    with begin as materialized (
      select link.number, link.hash, entry.at
        from audit_links as link join audit_log as entry on entry.id = link.entry_id
       where link.chain = ${chain} order by link.number limit ${limit})
    select number, encode(hash, 'hex') as hash from begin
     where number < coalesce((select min(number) from begin where at >= ${before}), 9223372036854775807)
     order by number desc limit 1`;
}

export type Removal = {
  readonly chain: Chain;
  /** The last link to remove. */
  readonly through: number;
  /** All removed entries are older than this. */
  readonly before: Date;
  /** When the stub is signed. */
  readonly at: Date;
  readonly keyId: string;
  readonly jws: string;
};

/**
 * Removes the first entries of a chain and stores the signed stub; returns the number of removed
 * entries: 0 if they were already gone.
 */
export async function removeEntries(db: Db, removal: Removal): Promise<number> {
  const { chain, through, before, at, keyId, jws } = removal;
  const { rows } = await sql<{ removed: number }>`
    select remove_audit_entries(${chain}, ${through}, ${before}, ${at}, ${keyId}, ${jws}) as removed`.execute(
    db,
  );
  return rows[0]?.removed ?? 0;
}
