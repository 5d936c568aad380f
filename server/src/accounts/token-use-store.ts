// Rows of when and from where tokens were used.
import { sql } from "kysely";
import type { TokenId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

/** Writes the last use of many tokens in one statement; a later use that another platform wrote stays. */
export async function markUsed(
  db: Db,
  uses: readonly { readonly id: TokenId; readonly address: string; readonly at: Date }[],
): Promise<void> {
  const ids = uses.map((use) => use.id);
  const addresses = uses.map((use) => use.address);
  const times = uses.map((use) => use.at.toISOString());
  // Rows are locked in the order of their ids, so that platforms that write the same ones wait instead of blocking each other.
  await sql`
    with used as (
      select * from unnest(${ids}::uuid[], ${addresses}::text[], ${times}::timestamptz[]) as used (id, address, at)
    ), locked as (
      select tokens.id from tokens join used using (id) order by tokens.id for update of tokens
    )
    update tokens set last_used_at = used.at, last_used_address = used.address
      from used join locked using (id)
     where tokens.id = used.id and (tokens.last_used_at is null or tokens.last_used_at < used.at)
  `.execute(db);
}

/** Those of the addresses that are known of the account. */
export async function readAddresses(db: Db, accountId: TokenId, addresses: readonly string[]): Promise<string[]> {
  const rows = await db
    .selectFrom("token_addresses")
    .select("address")
    .where("account_id", "=", accountId)
    .where("address", "in", addresses)
    .execute();
  return rows.map((row) => row.address);
}

/** Notes that known addresses were used again. */
export async function refreshAddresses(
  db: Db,
  use: { readonly accountId: TokenId; readonly addresses: readonly string[]; readonly at: Date },
): Promise<void> {
  if (use.addresses.length === 0) return;
  await db
    .updateTable("token_addresses")
    .set({ last_used_at: use.at })
    .where("account_id", "=", use.accountId)
    .where("address", "in", use.addresses)
    .where("last_used_at", "<", use.at)
    .execute();
}

/**
 * Adds addresses to those known of an account, as many as there is room for, after forgetting those unused for long where
 * there is not; returns those that were added. The account's first row is locked: platforms take turns.
 */
export async function addAddresses(
  tx: Db,
  wanted: {
    readonly accountId: TokenId;
    readonly addresses: readonly string[];
    readonly at: Date;
    readonly max: number;
    readonly unusedSince: Date;
  },
): Promise<string[]> {
  const { accountId, addresses, at, max, unusedSince } = wanted;
  await tx.selectFrom("tokens").select("id").where("id", "=", accountId).forUpdate().execute();
  const count = async (): Promise<number> => {
    const { known } = await tx
      .selectFrom("token_addresses")
      .select(({ fn }) => fn.countAll<number>().as("known"))
      .where("account_id", "=", accountId)
      .executeTakeFirstOrThrow();
    return Number(known);
  };
  let room = max - (await count());
  if (room < addresses.length) {
    await tx
      .deleteFrom("token_addresses")
      .where("account_id", "=", accountId)
      .where("last_used_at", "<", unusedSince)
      .execute();
    room = max - (await count());
  }
  if (room <= 0) return [];
  const rows = await tx
    .insertInto("token_addresses")
    .values(addresses.slice(0, room).map((address) => ({ account_id: accountId, address, last_used_at: at })))
    .onConflict((conflict) => conflict.doNothing())
    .returning("address")
    .execute();
  return rows.map((row) => row.address);
}
