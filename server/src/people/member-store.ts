// Rows of members, joined with the rows of people.
import type { Role } from "@slipway/contract/words.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";

/** A member as others see them. */
export type Member = Awaited<ReturnType<typeof memberRows>>[number];
/** Identifies a membership. */
export type MemberKey = { readonly projectId: ProjectId; readonly personId: string };

/** The members of the project in the order in which they joined, at most `limit`. No locks. */
export function memberRows(db: Db, projectId: ProjectId, limit: number) {
  const rows = selection(db).where("members.project_id", "=", projectId);
  return rows.orderBy("members.created_at").orderBy("members.person_id").limit(limit).execute();
}

/** The member, or undefined. No locks. */
export function memberOf(db: Db, { projectId, personId }: MemberKey): Promise<Member | undefined> {
  const rows = selection(db).where("members.project_id", "=", projectId);
  return rows.where("members.person_id", "=", personId).executeTakeFirst();
}

/** The member with the address (lower case), or undefined. No locks. */
export function memberByEmail(
  db: Db,
  projectId: ProjectId,
  email: string,
): Promise<Member | undefined> {
  const rows = selection(db).where("members.project_id", "=", projectId);
  return rows.where("people.email", "=", email).executeTakeFirst();
}

/** How many members the project has, and how many of them are owners. */
export async function countMembers(
  tx: Tx,
  projectId: ProjectId,
): Promise<{ all: number; owners: number }> {
  const rows = await tx
    .selectFrom("members")
    .select((row) => ["role", row.fn.countAll<number>().as("count")])
    .where("project_id", "=", projectId)
    .groupBy("role")
    .execute();
  const owners = rows.find((row) => row.role === "owner")?.count ?? 0;
  return { all: rows.reduce((sum, row) => sum + row.count, 0), owners };
}

/** Gives a member of a locked project another role. */
export async function setRole(
  tx: Tx,
  { projectId, personId }: MemberKey,
  role: Role,
): Promise<void> {
  const row = tx.updateTable("members").set({ role }).where("project_id", "=", projectId);
  await row.where("person_id", "=", personId).execute();
}

/** Ends a membership in a locked project. */
export async function deleteMember(tx: Tx, { projectId, personId }: MemberKey): Promise<void> {
  await tx
    .deleteFrom("members")
    .where("project_id", "=", projectId)
    .where("person_id", "=", personId)
    .execute();
}

function selection(db: Db) {
  return db
    .selectFrom("members")
    .innerJoin("people", "people.id", "members.person_id")
    .select(["members.person_id as personId", "people.email", "people.name", "members.role"])
    .select("members.created_at as createdAt");
}
