// Rows of the chains beside their links: which chains there are, their checkpoints, and the stubs that retention leaves.
// Links are read in export-store.ts; the database itself writes them.
import { sql } from "kysely";
import type { Db } from "#store/database.ts";
import {
  checkpointLine,
  stubLine,
  type ChainPosition,
  type CheckpointLine,
  type StubLine,
} from "#audit/export/export-format.ts";
import type { Chain } from "#audit/export/export-store.ts";

/** The end of a chain that no checkpoint is of yet. `previous`: the number of its last checkpoint, or 0. */
export type OpenEnd = ChainPosition & { readonly chain: Chain; readonly previous: number };

export type OpenEndQuery = {
  /** Of this chain only. */
  readonly chain?: Chain;
  /** Only those whose last checkpoint is older, of a time that no clock can have come to, or so many entries back. */
  readonly due?: { readonly before: Date; readonly beyond: Date; readonly entriesMin: number };
  readonly limit: number;
};

/** Ends of chains that are to be signed, by chain. No locks. */
export async function listOpenEnds(db: Db, { chain, due, limit }: OpenEndQuery): Promise<OpenEnd[]> {
  const ofChain = chain === undefined ? sql`true` : sql`known.chain = ${chain}`;
  const isDue =
    due === undefined
      ? sql`true`
      : sql`(checked.at is null or checked.at <= ${due.before} or checked.at > ${due.beyond} or last.number - checked.number >= ${due.entriesMin})`;
  const { rows } = await sql<OpenEnd>`
    select known.chain, last.number, encode(last.hash, 'hex') as hash, coalesce(checked.number, 0) as previous
      from audit_chains as known
     cross join lateral (select number, hash from audit_links
                          where chain = known.chain order by number desc limit 1) as last
      left join lateral (select number, at from audit_checkpoints
                          where chain = known.chain order by number desc limit 1) as checked on true
     where ${ofChain} and last.number > coalesce(checked.number, 0) and ${isDue}
     order by known.chain limit ${limit}`.execute(db);
  return rows;
}

export type NewCheckpoint = OpenEnd & { readonly at: Date; readonly keyId: string; readonly jws: string };

/** Adds one, unless another process has added one behind the same. */
export async function insertCheckpoint(db: Db, { keyId, hash, ...row }: NewCheckpoint): Promise<void> {
  await db
    .insertInto("audit_checkpoints")
    .values({ ...row, key_id: keyId, hash: Buffer.from(hash, "hex") })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Checkpoints of the numbers after `after` up to `through`, in order, at most `limit`. No locks. */
export async function listCheckpoints(
  db: Db,
  range: { readonly chain: Chain; readonly after: number; readonly through: number; readonly limit: number },
): Promise<CheckpointLine[]> {
  const rows = await db
    .selectFrom("audit_checkpoints")
    .selectAll()
    .where("chain", "=", range.chain)
    .where("number", ">", range.after)
    .where("number", "<=", range.through)
    .orderBy("number")
    .limit(range.limit)
    .execute();
  return rows.map((row) => checkpointLine({ ...row, hash: row.hash.toString("hex"), at: row.at.toISOString() }));
}

/** What stands for the entries that were removed from a chain; undefined: none were. No locks. */
export async function readStub(db: Db, chain: Chain): Promise<StubLine | undefined> {
  const row = await db.selectFrom("audit_stubs").selectAll().where("chain", "=", chain).executeTakeFirst();
  if (row === undefined) return undefined;
  const [before, at] = [row.before.toISOString(), row.at.toISOString()];
  return stubLine({ number: row.number, hash: row.hash.toString("hex"), before, at, jws: row.jws });
}

/** The last place of a chain that is signed, by a checkpoint or a stub; undefined: there is none. No locks. */
export async function readSigned(db: Db, chain: Chain): Promise<ChainPosition | undefined> {
  const { rows } = await sql<ChainPosition>`
    (select number, encode(hash, 'hex') as hash from audit_checkpoints where chain = ${chain} order by number desc limit 1)
    union all
    (select number, encode(hash, 'hex') as hash from audit_stubs where chain = ${chain})
    order by number desc limit 1`.execute(db);
  return rows[0];
}

/** Every chain that has links, with the time of the first of them; by chain. No locks. */
export async function listChainBegins(db: Db): Promise<{ chain: Chain; at: Date }[]> {
  const { rows } = await sql<{ chain: Chain; at: Date }>`
    select known.chain, first.at
      from audit_chains as known
     cross join lateral (select entry.at from audit_links as link join audit_log as entry on entry.id = link.entry_id
                          where link.chain = known.chain order by link.number limit 1) as first
     order by known.chain`.execute(db);
  return rows;
}

/** The last of the first `limit` links of a chain before which, and with which, all entries are older than `before`. No locks. */
export async function findCut(
  db: Db,
  { chain, before, limit }: { readonly chain: Chain; readonly before: Date; readonly limit: number },
): Promise<ChainPosition | undefined> {
  const { rows } = await sql<ChainPosition>`
    with begin as materialized (
      select link.number, link.hash, entry.at
        from audit_links as link join audit_log as entry on entry.id = link.entry_id
       where link.chain = ${chain} order by link.number limit ${limit})
    select number, encode(hash, 'hex') as hash from begin
     where number < coalesce((select min(number) from begin where at >= ${before}), 9223372036854775807)
     order by number desc limit 1`.execute(db);
  return rows[0];
}

export type Removal = {
  readonly chain: Chain;
  /** The last link that goes. */
  readonly through: number;
  /** All that goes is older. */
  readonly before: Date;
  readonly at: Date;
  readonly keyId: string;
  readonly jws: string;
};

/** Removes the beginning of a chain and leaves the stub; returns how many entries went: 0 when they were gone already. */
export async function removeEntries(db: Db, removal: Removal): Promise<number> {
  const { chain, through, before, at, keyId, jws } = removal;
  const { rows } = await sql<{ removed: number }>`
    select remove_audit_entries(${chain}, ${through}, ${before}, ${at}, ${keyId}, ${jws}) as removed`.execute(db);
  return rows[0]?.removed ?? 0;
}
