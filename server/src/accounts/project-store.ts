// Rows of projects and of everything that ends with them. A deleted project's row stays; of the
// queries here that read projects, only `hasProjects` and `isProject` still see it.
import { sql, type Insertable, type SelectQueryBuilder, type Selectable } from "kysely";
import { noSuchProject } from "#lib/fault.ts";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import { bootstrapLock } from "#store/advisory-locks.ts";
import { countRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type ProjectRow = Selectable<Tables["projects"]>;

/** The project, or undefined. */
export function projectById(db: Db, id: ProjectId): Promise<ProjectRow | undefined> {
  return liveProject(db, id).executeTakeFirst();
}

/**
 * Serializes platforms that start together on an empty database, until the transaction ends: one
 * creates the first project, and the others then see it.
 */
export async function lockBootstrap(tx: Tx): Promise<void> {
  await sql`select pg_advisory_xact_lock(${bootstrapLock})`.execute(tx);
}

/** True when there is or was any project. */
export async function hasProjects(db: Db): Promise<boolean> {
  const row = await db.selectFrom("projects").select("id").limit(1).executeTakeFirst();
  return row !== undefined;
}

/** True for the id of a project, deleted or not. */
export async function isProject(db: Db, id: ProjectId): Promise<boolean> {
  const rows = db.selectFrom("projects").select("id").where("id", "=", id);
  return (await rows.executeTakeFirst()) !== undefined;
}

/** All projects, oldest first, at most `limit`. */
export function projectRows(db: Db, limit: number): Promise<ProjectRow[]> {
  const rows = db.selectFrom("projects").selectAll().where("deleted_at", "is", null);
  return rows.orderBy("created_at").orderBy("id").limit(limit).execute();
}

/** The projects with these ids, except deleted ones; oldest first. */
export function projectsByIds(db: Db, ids: readonly ProjectId[]): Promise<ProjectRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  const rows = db
    .selectFrom("projects")
    .selectAll()
    .where("deleted_at", "is", null)
    .where("id", "in", ids);
  return rows.orderBy("created_at").orderBy("id").execute();
}

/**
 * The project, or undefined if it is deleted or never existed. Locks its row until the transaction
 * ends, which serializes changes to the project's parts. Lock it before any other row.
 */
export function tryLockProject(tx: Tx, id: ProjectId): Promise<ProjectRow | undefined> {
  return liveProject(tx, id).forNoKeyUpdate().executeTakeFirst();
}

/** Like `tryLockProject`, but throws `Fault("no_such_project")`. */
export async function lockProject(tx: Tx, id: ProjectId): Promise<ProjectRow> {
  return await liveProject(tx, id)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow(() => noSuchProject());
}

/** Like `lockProject`; in addition, no row that refers to the project can be added meanwhile. */
export async function lockProjectWhole(tx: Tx, id: ProjectId): Promise<ProjectRow> {
  return await liveProject(tx, id)
    .forUpdate()
    .executeTakeFirstOrThrow(() => noSuchProject());
}

/** Adds a project. */
export async function insertProject(tx: Db, row: Insertable<Tables["projects"]>): Promise<void> {
  await tx.insertInto("projects").values(row).execute();
}

/** Makes a person a member of a project; fails when they already are one. */
export async function insertMember(tx: Db, row: Insertable<Tables["members"]>): Promise<void> {
  await tx.insertInto("members").values(row).execute();
}

/** Renames the project, whose row must be locked. */
export async function setProjectName(tx: Tx, id: ProjectId, name: string): Promise<void> {
  await tx.updateTable("projects").set({ name }).where("id", "=", id).execute();
}

/** Marks the project, whose row must be locked, as deleted. */
export async function markDeleted(tx: Tx, id: ProjectId, at: Date): Promise<void> {
  await tx
    .updateTable("projects")
    .set({ deleted_at: at })
    .where("id", "=", id)
    .where("deleted_at", "is", null)
    .execute();
}

/** The number of projects of which the person is an owner. */
export async function countOwned(tx: Db, personId: string): Promise<number> {
  const rows = tx
    .selectFrom("members")
    .where("person_id", "=", personId)
    .where("role", "=", "owner");
  return await countRows(rows);
}

/** Ends all memberships of the project; returns the ids of the people who were members. */
export async function removeMembers(tx: Tx, id: ProjectId): Promise<string[]> {
  const rows = await tx
    .deleteFrom("members")
    .where("project_id", "=", id)
    .returning("person_id")
    .execute();
  return rows.map((row) => row.person_id);
}

/** Ends all invitations to the project. */
export async function removeInvitations(tx: Tx, id: ProjectId): Promise<void> {
  await tx.deleteFrom("invitations").where("project_id", "=", id).execute();
}

/** Revokes all tokens of the project that are not yet revoked; returns their ids. */
export async function revokeProjectTokens(tx: Tx, id: ProjectId, at: Date): Promise<TokenId[]> {
  const rows = await tx
    .updateTable("tokens")
    .set({ revoked_at: at })
    .where("project_id", "=", id)
    .where("revoked_at", "is", null)
    .returning("id")
    .execute();
  return rows.map((row) => row.id);
}

/**
 * Erases the secrets that only the project's apps could use, and the addresses for uploads to and
 * downloads from its storage.
 */
export async function eraseSecrets(tx: Tx, id: ProjectId): Promise<void> {
  for (const table of [
    "secrets",
    "git_credentials",
    "webhook_secrets",
    "volume_uploads",
    "volume_downloads",
  ] as const) {
    await sql`delete from ${sql.table(table)} where project_id = ${id}`.execute(tx);
  }
}

function liveProject(db: Db, id: ProjectId): SelectQueryBuilder<Tables, "projects", ProjectRow> {
  return db.selectFrom("projects").selectAll().where("id", "=", id).where("deleted_at", "is", null);
}

/** The maximum number of owners who get a mail about one event; projects usually have far fewer. */
const ownersMax = 50;

/** Email addresses of the project's owners in alphabetical order, at most `ownersMax`. No locks. */
export async function ownerAddresses(db: Db, projectId: ProjectId): Promise<string[]> {
  const rows = await db
    .selectFrom("members")
    .innerJoin("people", "people.id", "members.person_id")
    .select("people.email")
    .where("members.project_id", "=", projectId)
    .where("members.role", "=", "owner")
    .orderBy("people.email")
    .limit(ownersMax)
    .execute();
  return rows.map(({ email }) => email);
}
