// Queries that add, find, list and remove invitations. Called by the use cases of invitations.
import type { Insertable, Selectable } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { countRows, putRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type InvitationRow = Selectable<Tables["invitations"]>;

/** An invitation with the name of its project and the account of the invited person. */
export type OpenInvitationRow = InvitationRow & {
  readonly project_name: string;
  /** Null: the invited person has no account. */
  readonly person_id: string | null;
};

/** The invitation whose secret has this hash, expired or not, or undefined. No locks. */
export function invitationByHash(
  db: Db,
  secretHash: Buffer,
): Promise<OpenInvitationRow | undefined> {
  return db
    .selectFrom("invitations")
    .innerJoin("projects", "projects.id", "invitations.project_id")
    .leftJoin("people", "people.email", "invitations.email")
    .selectAll("invitations")
    .select(["projects.name as project_name", "people.id as person_id"])
    .where("secret_hash", "=", secretHash)
    .executeTakeFirst();
}

/** The invitation of an address (lower case) to a project, or undefined. No locks. */
export function invitationByEmail(
  db: Db,
  projectId: ProjectId,
  email: string,
): Promise<InvitationRow | undefined> {
  return invitationsOf(db, projectId).where("email", "=", email).executeTakeFirst();
}

/** The invitation with this id to a project, or undefined. No locks. */
export function invitationById(
  db: Db,
  projectId: ProjectId,
  id: string,
): Promise<InvitationRow | undefined> {
  return invitationsOf(db, projectId).where("id", "=", id).executeTakeFirst();
}

/** Invitations that have not expired, newest first, at most `limit`. No locks. */
export function listInvitations(
  db: Db,
  { projectId, now, limit }: { projectId: ProjectId; now: Date; limit: number },
): Promise<InvitationRow[]> {
  const rows = invitationsOf(db, projectId).where("expires_at", ">", now);
  return rows.orderBy("created_at", "desc").orderBy("id").limit(limit).execute();
}

function invitationsOf(db: Db, projectId: ProjectId) {
  return db.selectFrom("invitations").selectAll().where("project_id", "=", projectId);
}

/**
 * Removes the expired invitations of a locked project, and returns how many invitations are left of
 * other addresses than `email` (lower case).
 */
export async function countOthersAfterPurge(
  tx: Tx,
  { projectId, email, now }: { projectId: ProjectId; email: string; now: Date },
): Promise<number> {
  await tx
    .deleteFrom("invitations")
    .where("project_id", "=", projectId)
    .where("expires_at", "<=", now)
    .execute();
  const others = tx.selectFrom("invitations").where("project_id", "=", projectId);
  return await countRows(others.where("email", "<>", email));
}

/** Adds an invitation, which replaces an earlier one of the same address to the same project. */
export async function putInvitation(tx: Tx, row: Insertable<Tables["invitations"]>): Promise<void> {
  await putRows(tx, "invitations", ["project_id", "email"], row);
}

/**
 * Removes the invitation. Returns false when it was already gone: of several concurrent calls, only
 * one returns true.
 */
export async function deleteInvitation(
  tx: Tx,
  row: Pick<InvitationRow, "id" | "secret_hash">,
): Promise<boolean> {
  const rows = tx
    .deleteFrom("invitations")
    .where("id", "=", row.id)
    .where("secret_hash", "=", row.secret_hash);
  return (await rows.returning("id").executeTakeFirst()) !== undefined;
}
