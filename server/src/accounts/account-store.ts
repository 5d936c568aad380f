// Rows of projects, people, members, signing keys and tokens.
import { randomUUID } from "node:crypto";
import type { Insertable, Selectable } from "kysely";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { MembersTable, PeopleTable, ProjectsTable, SigningKeysTable, TokensTable } from "#store/tables.ts";

export type ProjectRow = Selectable<ProjectsTable>;
export type PersonRow = Selectable<PeopleTable>;
export type SigningKeyRow = Selectable<SigningKeysTable>;
export type TokenRow = Selectable<TokensTable>;

/** The project, or undefined. */
export function projectById(db: Db, id: ProjectId): Promise<ProjectRow | undefined> {
  return db.selectFrom("projects").selectAll().where("id", "=", id).executeTakeFirst();
}

/** All projects, oldest first, at most `limit`. */
export function listProjects(db: Db, limit: number): Promise<ProjectRow[]> {
  return db.selectFrom("projects").selectAll().orderBy("created_at").orderBy("id").limit(limit).execute();
}

/** Adds a project. */
export async function insertProject(tx: Db, row: Insertable<ProjectsTable>): Promise<void> {
  await tx.insertInto("projects").values(row).execute();
}

/** The person with the address (any case), or undefined. */
export function personByEmail(db: Db, email: string): Promise<PersonRow | undefined> {
  return db.selectFrom("people").selectAll().where("email", "=", email.toLowerCase()).executeTakeFirst();
}

/** Adds a person; fails when the address is taken. */
export async function insertPerson(tx: Db, row: Insertable<PeopleTable>): Promise<void> {
  await tx.insertInto("people").values(row).execute();
}

/** Lets a person sign in with a password; fails when they can already. */
export async function insertPassword(tx: Db, row: { personId: string; passwordHash: string }): Promise<void> {
  const { personId, passwordHash } = row;
  const account = { id: randomUUID(), person_id: personId, provider_id: "credential", account_id: personId };
  await tx
    .insertInto("person_accounts")
    .values({ ...account, password_hash: passwordHash })
    .execute();
}

/** Makes a person a member; fails when they are one. */
export async function insertMember(tx: Db, row: Insertable<MembersTable>): Promise<void> {
  await tx.insertInto("members").values(row).execute();
}

/** All signing keys, newest first. */
export function listSigningKeys(db: Db): Promise<SigningKeyRow[]> {
  return db.selectFrom("signing_keys").selectAll().orderBy("created_at", "desc").orderBy("id").execute();
}

/** Adds a signing key. */
export async function insertSigningKey(tx: Db, row: Insertable<SigningKeysTable>): Promise<void> {
  await tx.insertInto("signing_keys").values(row).execute();
}

/** Retires every key but one; returns the ids of those that were not retired yet. */
export async function retireOtherKeys(tx: Db, keyId: string, at: Date): Promise<string[]> {
  const rows = await tx
    .updateTable("signing_keys")
    .set({ retired_at: at })
    .where("id", "<>", keyId)
    .where("retired_at", "is", null)
    .returning("id")
    .execute();
  return rows.map((row) => row.id);
}

/** Replaces the sealed private half of a key. */
export async function resealSigningKey(tx: Db, key: { id: string; sealed: string }): Promise<void> {
  await tx.updateTable("signing_keys").set({ private_key_sealed: key.sealed }).where("id", "=", key.id).execute();
}

/** The token's row, revoked or not, or undefined. */
export function tokenById(db: Db, id: TokenId): Promise<TokenRow | undefined> {
  return db.selectFrom("tokens").selectAll().where("id", "=", id).executeTakeFirst();
}

/** A project's tokens, revoked ones included, newest first, at most `limit`. */
export function listTokens(db: Db, projectId: ProjectId, limit: number): Promise<TokenRow[]> {
  return db
    .selectFrom("tokens")
    .selectAll()
    .where("project_id", "=", projectId)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .limit(limit)
    .execute();
}

/** Adds a token's row. */
export async function insertToken(tx: Db, row: Insertable<TokensTable>): Promise<void> {
  await tx.insertInto("tokens").values(row).execute();
}

/** Marks a project's token (null: an operator's) revoked; its row, or undefined when there is no such token that is not revoked yet. */
export function markRevoked(
  tx: Db,
  token: { id: TokenId; projectId: ProjectId | null; at: Date },
): Promise<TokenRow | undefined> {
  return tx
    .updateTable("tokens")
    .set({ revoked_at: token.at })
    .where("id", "=", token.id)
    .where("project_id", "is not distinct from", token.projectId)
    .where("revoked_at", "is", null)
    .returningAll()
    .executeTakeFirst();
}
