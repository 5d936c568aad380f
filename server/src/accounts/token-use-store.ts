// Rows of token uses: when, and from which addresses.
import { sql } from "kysely";
import type { TokenId } from "#lib/ids.ts";
import { countRows, type Db } from "#store/database.ts";

/** Writes the last use of many tokens, except where another platform has written a later one. */
export async function markUsed(
  db: Db,
  uses: readonly { readonly id: TokenId; readonly address: string; readonly at: Date }[],
): Promise<void> {
  const ids = uses.map((use) => use.id);
  const addresses = uses.map((use) => use.address);
  const times = uses.map((use) => use.at.toISOString());
  // Locks rows in the order of their ids, so that platforms that write the same rows do not
  // deadlock.
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

/** Selects the addresses that are already known for the account. No order, no locks. */
export async function readAddresses(
  db: Db,
  accountId: TokenId,
  addresses: readonly string[],
): Promise<string[]> {
  const rows = await db
    .selectFrom("token_addresses")
    .select("address")
    .where("account_id", "=", accountId)
    .where("address", "in", addresses)
    .execute();
  return rows.map((row) => row.address);
}

/** Records another use of known addresses. */
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
 * Adds as many addresses to the account's known ones as fit, first removing long unused ones if
 * necessary; returns the added ones. Locks the row of the account's first token, so that platforms
 * take turns.
 */
export async function addAddresses(
  tx: Db,
  use: {
    readonly accountId: TokenId;
    readonly addresses: readonly string[];
    readonly at: Date;
    /** The maximum number of known addresses of the account. */
    readonly max: number;
    /** Addresses whose last use was before this are long unused. */
    readonly unusedSince: Date;
  },
): Promise<string[]> {
  const { accountId, addresses, at, max, unusedSince } = use;
  await tx.selectFrom("tokens").select("id").where("id", "=", accountId).forUpdate().execute();
  const known = tx.selectFrom("token_addresses").where("account_id", "=", accountId);
  let rowsLeft = max - (await countRows(known));
  if (rowsLeft < addresses.length) {
    await tx
      .deleteFrom("token_addresses")
      .where("account_id", "=", accountId)
      .where("last_used_at", "<", unusedSince)
      .execute();
    rowsLeft = max - (await countRows(known));
  }
  if (rowsLeft <= 0) return [];
  const rows = await tx
    .insertInto("token_addresses")
    .values(
      addresses
        .slice(0, rowsLeft)
        .map((address) => ({ account_id: accountId, address, last_used_at: at })),
    )
    .onConflict((conflict) => conflict.doNothing())
    .returning("address")
    .execute();
  return rows.map((row) => row.address);
}
