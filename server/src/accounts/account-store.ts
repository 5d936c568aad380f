// Rows of people and of their passwords. Called by code that creates a person.
import { randomUUID } from "node:crypto";
import type { Insertable, Selectable } from "kysely";
import type { Role } from "@slipway/contract/words.ts";
import { insertNew, type Db } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { ProjectId } from "#lib/ids.ts";

export type PersonRow = Selectable<Tables["people"]>;

/** The person with the address (any case), or undefined. */
export function personByEmail(db: Db, email: string): Promise<PersonRow | undefined> {
  return db
    .selectFrom("people")
    .selectAll()
    .where("email", "=", email.toLowerCase())
    .executeTakeFirst();
}

/** The person's role in the project; undefined: none, or their session was ended. No locks. */
export async function roleIn(
  db: Db,
  member: { readonly personId: string; readonly sessionId: string; readonly projectId: ProjectId },
): Promise<Role | undefined> {
  const row = await db
    .selectFrom("members")
    .innerJoin("person_sessions", "person_sessions.person_id", "members.person_id")
    .select("members.role")
    .where("members.project_id", "=", member.projectId)
    .where("members.person_id", "=", member.personId)
    .where("person_sessions.id", "=", member.sessionId)
    .executeTakeFirst();
  return row?.role as Role | undefined;
}

/** Adds a person; false when somebody has the address. */
export function insertPerson(tx: Db, row: Insertable<Tables["people"]>): Promise<boolean> {
  return insertNew(tx, "people", row);
}

/** Lets a person sign in with a password; fails when they already have one. */
export async function insertPassword(
  tx: Db,
  row: { personId: string; passwordHash: string },
): Promise<void> {
  const { personId, passwordHash } = row;
  // `credential` stands for a password; other accounts are those that people have at providers.
  const account = {
    id: randomUUID(),
    person_id: personId,
    provider_id: "credential",
    account_id: personId,
  };
  await tx
    .insertInto("person_accounts")
    .values({ ...account, password_hash: passwordHash })
    .execute();
}
