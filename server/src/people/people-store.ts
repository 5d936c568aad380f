// Rows of people, of their sessions, and of what they sign in with.
import { sql, type Insertable, type Selectable } from "kysely";
import type { Role } from "@slipway/contract/words.ts";
import type { PersonRow } from "#accounts/account-store.ts";
import { must } from "#lib/assert.ts";
import type { ProjectId } from "#lib/ids.ts";
import { changeOne, changeRows, insertNew, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";
import type { PeopleSettings } from "./people-settings.ts";

export type SessionRow = Selectable<Tables["person_sessions"]>;
export type AccountRow = Selectable<Tables["person_accounts"]>;

/** Writes the sealed secret unless there is one. */
export async function insertSecret(db: Db, sealed: string): Promise<void> {
  await insertNew(db, "person_secret", { secret_sealed: sealed });
}

/** The sealed secret, which must be there. */
export async function secretSealed(db: Db): Promise<string> {
  const row = await db.selectFrom("person_secret").select("secret_sealed").executeTakeFirst();
  return must(row, "the secret of sessions was made").secret_sealed;
}

/** The person, or undefined. */
export function personById(db: Db, id: string): Promise<PersonRow | undefined> {
  return db.selectFrom("people").selectAll().where("id", "=", id).executeTakeFirst();
}

/**
 * The person, or undefined; the row is locked. Whoever opens a session by what they have checked
 * takes this lock and checks again, and so does whoever ends all sessions of a person: none is
 * opened beside it that it does not see.
 */
export function lockPerson(tx: Tx, id: string): Promise<PersonRow | undefined> {
  return tx
    .selectFrom("people")
    .selectAll()
    .where("id", "=", id)
    .forNoKeyUpdate()
    .executeTakeFirst();
}

/** A person with what a sign-in by password looks at. */
export type Credential = PersonRow & {
  /** Null: they have no password. */
  readonly passwordHash: string | null;
  /** Whether they have signed in from the address before. */
  readonly isKnownAddress: boolean;
};

/** The person with the address of mail (lower case), or undefined. */
export function credentialOf(
  db: Db,
  attempt: { readonly email: string; readonly address: string },
): Promise<Credential | undefined> {
  return db
    .selectFrom("people")
    .leftJoin("person_accounts", (join) =>
      join
        .onRef("person_accounts.person_id", "=", "people.id")
        .on("provider_id", "=", "credential"),
    )
    .leftJoin("person_addresses", (join) =>
      join
        .onRef("person_addresses.person_id", "=", "people.id")
        .on("address", "=", attempt.address),
    )
    .selectAll("people")
    .select("person_accounts.password_hash as passwordHash")
    .select(sql<boolean>`person_addresses.address is not null`.as("isKnownAddress"))
    .where("people.email", "=", attempt.email)
    .executeTakeFirst();
}

/** The hash of a person's password, or null. */
export async function passwordHashOf(db: Db, personId: string): Promise<string | null> {
  const row = await db
    .selectFrom("person_accounts")
    .select("password_hash")
    .where("person_id", "=", personId)
    .where("provider_id", "=", "credential")
    .executeTakeFirst();
  return row?.password_hash ?? null;
}

/** Gives the person another password; false when they have none. */
export async function updatePassword(tx: Tx, personId: string, hash: string): Promise<boolean> {
  return await changeOne(tx)`
    update person_accounts set password_hash = ${hash} where person_id = ${personId} and provider_id = 'credential'`;
}

/** What the person is a member of: projects that are there, oldest membership first. */
export async function membershipsOf(
  db: Db,
  personId: string,
): Promise<{ projectId: ProjectId; role: Role }[]> {
  const rows = await db
    .selectFrom("members")
    .innerJoin("projects", "projects.id", "members.project_id")
    .select(["project_id", "role"])
    .where("person_id", "=", personId)
    .where("projects.deleted_at", "is", null)
    .orderBy("members.created_at")
    .execute();
  return rows.map((row) => ({ projectId: row.project_id, role: row.role as Role }));
}

/** A session by its id, whether it has expired or not. */
export function sessionById(db: Db, id: string): Promise<SessionRow | undefined> {
  return db.selectFrom("person_sessions").selectAll().where("id", "=", id).executeTakeFirst();
}

/** A session by its token, whether it has expired or not. */
export function sessionByToken(db: Db, token: string): Promise<SessionRow | undefined> {
  return db.selectFrom("person_sessions").selectAll().where("token", "=", token).executeTakeFirst();
}

/** A person's sessions that have not expired, the one that was used last first, at most `limit`. */
export function listSessions(
  db: Db,
  query: { readonly personId: string; readonly at: Date; readonly limit: number },
): Promise<SessionRow[]> {
  return db
    .selectFrom("person_sessions")
    .selectAll()
    .where("person_id", "=", query.personId)
    .where("expires_at", ">", query.at)
    .orderBy("updated_at", "desc")
    .orderBy("id")
    .limit(query.limit)
    .execute();
}

/** Adds a session, and returns it. */
export function insertSession(
  tx: Tx,
  row: Insertable<Tables["person_sessions"]>,
): Promise<SessionRow> {
  return tx.insertInto("person_sessions").values(row).returningAll().executeTakeFirstOrThrow();
}

/** Lets a session go on until then. */
export async function extendSession(
  db: Db,
  id: string,
  times: { at: Date; until: Date },
): Promise<void> {
  await db
    .updateTable("person_sessions")
    .set({ updated_at: times.at, expires_at: times.until })
    .where("id", "=", id)
    .execute();
}

/** One session of a person, or all but one (null: all). */
export type SessionChoice = {
  readonly personId: string;
  readonly only?: string;
  readonly except?: string | null;
};

/** Ends sessions of a person. Returns the ids of those that were there. */
export async function deleteSessions(tx: Db, which: SessionChoice): Promise<string[]> {
  let query = tx.deleteFrom("person_sessions").where("person_id", "=", which.personId);
  if (which.only !== undefined) query = query.where("id", "=", which.only);
  if (which.except !== undefined && which.except !== null)
    query = query.where("id", "<>", which.except);
  return (await query.returning("id").execute()).map((row) => row.id);
}

/**
 * Notes that a person signed in from an address; true when it is the first time, and not their
 * first address at all.
 */
export async function noteAddress(
  tx: Db,
  use: {
    readonly personId: string;
    readonly address: string;
    readonly at: Date;
    readonly addressesMax: number;
  },
): Promise<{ isNew: boolean; isFirst: boolean }> {
  const { personId, address, at, addressesMax } = use;
  const known = await tx
    .selectFrom("person_addresses")
    .select("address")
    .where("person_id", "=", personId)
    .orderBy("last_at", "desc")
    .execute();
  await tx
    .insertInto("person_addresses")
    .values({ person_id: personId, address, first_at: at, last_at: at })
    .onConflict((conflict) =>
      conflict.columns(["person_id", "address"]).doUpdateSet({ last_at: at }),
    )
    .execute();
  const tooMany = known.slice(addressesMax - 1).map((row) => row.address);
  if (tooMany.length > 0) {
    await tx
      .deleteFrom("person_addresses")
      .where("person_id", "=", personId)
      .where("address", "in", tooMany)
      .where("address", "<>", address)
      .execute();
  }
  return { isNew: !known.some((row) => row.address === address), isFirst: known.length === 0 };
}

/** Accounts that let a person in now, oldest first; that of the password is called `credential`. */
export async function accountsOf(
  db: Db,
  personId: string,
  settings: Pick<PeopleSettings, "oidc" | "github">,
): Promise<AccountRow[]> {
  const rows = db.selectFrom("person_accounts").selectAll().where("person_id", "=", personId);
  const all = await rows.orderBy("created_at").orderBy("id").execute();
  // Others are of an issuer that the operator has replaced.
  return all.filter(({ provider_id: id, account_id }) => {
    return (
      id === "credential" || account_id.startsWith(`${settings[id as "oidc" | "github"]?.url} `)
    );
  });
}

/**
 * Removes ways in which a person can sign in, all or those with one provider; returns how many
 * there were.
 */
export async function deleteAccounts(
  tx: Db,
  personId: string,
  providerId: string | null = null,
): Promise<number> {
  return await changeRows(tx)`
    delete from person_accounts where person_id = ${personId} and provider_id = coalesce(${providerId}, provider_id)`;
}

/**
 * Whether there is an invitation for the address (lower case) that has not expired, to a project
 * that is there.
 */
export async function isInvited(
  db: Db,
  invited: { readonly email: string; readonly at: Date },
): Promise<boolean> {
  const row = await db
    .selectFrom("invitations")
    .innerJoin("projects", "projects.id", "invitations.project_id")
    .select("invitations.id")
    .where("email", "=", invited.email)
    .where("expires_at", ">", invited.at)
    .where("projects.deleted_at", "is", null)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** Notes that mail to the address of a person reaches them. */
export async function confirmAddress(tx: Db, personId: string): Promise<void> {
  await tx.updateTable("people").set({ email_verified: true }).where("id", "=", personId).execute();
}
