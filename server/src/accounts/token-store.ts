// Rows of tokens. The tokens of a rotation share an account, whose id is that of the first token.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { sql, type Insertable, type RawBuilder, type Selectable } from "kysely";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import { tokenKindLock } from "#store/advisory-locks.ts";
import type { Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { TokenKind } from "./caller.ts";

export type TokenRow = Selectable<Tables["tokens"]>;

/** The kind of tokens, and the project that they belong to; null: they are operators' tokens. */
export type TokenOwner = { readonly kind: TokenKind; readonly projectId: ProjectId | null };

/** An account's latest few tokens, newest first. */
export type AccountRows = {
  readonly accountId: TokenId;
  /** When the account's first token was issued. */
  readonly createdAt: Date;
  readonly tokens: readonly TokenRow[];
};

/**
 * The maximum number of tokens shown per account: at most two are valid, and the others show the
 * last rotations.
 */
const tokensShown = 5;

/** The token's row, revoked or not, or undefined. */
export function tokenById(db: Db, id: TokenId): Promise<TokenRow | undefined> {
  return db.selectFrom("tokens").selectAll().where("id", "=", id).executeTakeFirst();
}

/** Adds a token's row. */
export async function insertToken(tx: Db, row: Insertable<Tables["tokens"]>): Promise<void> {
  await tx.insertInto("tokens").values(row).execute();
}

/** Accounts of an owner, at most `limit`: accounts with a valid token first, then newest first. */
export async function listAccounts(
  db: Db,
  query: TokenOwner & { readonly accountId?: TokenId; readonly limit: number; readonly now: Date },
): Promise<AccountRows[]> {
  const { kind, projectId, accountId, limit, now } = query;
  const isInAccount = accountId === undefined ? sql`true` : sql`account_id = ${accountId}`;
  const { rows } = await sql<TokenRow & { first_at: Date }>`
    select latest.*, account.first_at
      from (select account_id, min(created_at) as first_at,
                   bool_or(revoked_at is null and (expires_at is null or expires_at > ${now})) as is_active
              from tokens
             where ${isInProject(projectId)} and kind = ${kind} and ${isInAccount}
             group by account_id
             order by is_active desc, first_at desc, account_id
             limit ${limit}) as account
     cross join lateral (select * from tokens where tokens.account_id = account.account_id
                          order by created_at desc, id limit ${tokensShown}) as latest
     order by account.is_active desc, account.first_at desc, account.account_id, latest.created_at desc, latest.id
  `.execute(db);
  const accounts = new Map<TokenId, { accountId: TokenId; createdAt: Date; tokens: TokenRow[] }>();
  for (const { first_at: createdAt, ...row } of rows) {
    const { account_id: accountId } = row;
    getOrInsert(accounts, accountId, () => ({ accountId, createdAt, tokens: [] })).tokens.push(row);
  }
  return [...accounts.values()];
}

/** The number of accounts of an owner that have a valid token; `except` is not counted. */
export async function countActiveAccounts(
  db: Db,
  query: TokenOwner & { readonly now: Date; readonly except?: TokenId },
): Promise<number> {
  const { kind, projectId, now, except } = query;
  const row = await db
    .selectFrom("tokens")
    .select(({ fn }) => fn.count<number>("account_id").distinct().as("count"))
    .where("kind", "=", kind)
    .where(isInProject(projectId))
    .where("revoked_at", "is", null)
    .where(({ eb }) => eb.or([eb("expires_at", "is", null), eb("expires_at", ">", now)]))
    .$if(except !== undefined, (rows) => rows.where("account_id", "<>", except as TokenId))
    .executeTakeFirstOrThrow();
  return row.count;
}

/**
 * All tokens of an account of the owner, newest first; empty when there is no such account. Locks
 * the row of the account's first token before it reads the others, so that a concurrent change
 * waits and then sees the result of this one.
 */
export async function lockTokenAccount(
  tx: Db,
  owner: TokenOwner & { readonly accountId: TokenId },
): Promise<TokenRow[]> {
  const { kind, projectId, accountId } = owner;
  // The first token has the account's id, which finds the row, so `project_id` needs no index.
  const first = await tx
    .selectFrom("tokens")
    .select("id")
    .where("id", "=", accountId)
    .where("account_id", "=", accountId)
    .where("kind", "=", kind)
    .where("project_id", "is not distinct from", projectId)
    .forUpdate()
    .executeTakeFirst();
  if (first === undefined) return [];
  return await tx
    .selectFrom("tokens")
    .selectAll()
    .where("account_id", "=", accountId)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .execute();
}

/**
 * Serializes changes of tokens of one kind until the transaction ends, so that a count of them
 * stays true.
 */
export async function lockKind(tx: Db, kind: TokenKind): Promise<void> {
  await sql`select pg_advisory_xact_lock(${tokenKindLock}, hashtext(${kind}))`.execute(tx);
}

/** Sets the name and rights of all tokens of an account. */
export async function updateAccount(
  tx: Db,
  accountId: TokenId,
  columns: Pick<TokenRow, "name" | "role" | "permissions">,
): Promise<void> {
  await tx.updateTable("tokens").set(columns).where("account_id", "=", accountId).execute();
}

/** Makes tokens end at the given time, unless they end earlier. */
export async function shortenTokens(tx: Db, ids: readonly TokenId[], at: Date): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .updateTable("tokens")
    .set({ expires_at: sql<Date>`least(expires_at, ${at}::timestamptz)` })
    .where("id", "in", ids)
    .execute();
}

/** Revokes the tokens that are not revoked yet. */
export async function revokeTokens(tx: Db, ids: readonly TokenId[], at: Date): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .updateTable("tokens")
    .set({ revoked_at: at })
    .where("id", "in", ids)
    .where("revoked_at", "is", null)
    .execute();
}

/**
 * Matches the project or, with null, no project. `is not distinct from` would use no index, and
 * there may be very many other tokens.
 */
function isInProject(projectId: ProjectId | null): RawBuilder<boolean> {
  return projectId === null
    ? sql<boolean>`project_id is null`
    : sql<boolean>`project_id = ${projectId}`;
}
