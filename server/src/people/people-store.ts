// Queries of people, their sessions, their ways to sign in, and the addresses they have used.
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

/** Stores the sealed secret that signs sessions, unless the database has one already. */
export async function insertSecret(db: Db, sealed: string): Promise<void> {
  await insertNew(db, "person_secret", { secret_sealed: sealed });
}

/** The sealed secret that signs sessions. Throws if the database has none. */
export async function secretSealed(db: Db): Promise<string> {
  const row = await db.selectFrom("person_secret").select("secret_sealed").executeTakeFirst();
  return must(row, "the secret of sessions was made").secret_sealed;
}

/** The person with the id, or undefined. */
export function personById(db: Db, id: string): Promise<PersonRow | undefined> {
  return db.selectFrom("people").selectAll().where("id", "=", id).executeTakeFirst();
}

/**
 * The person with the id, or undefined; locks the person's row. Code that opens a session takes
 * this lock and then checks the credentials again. Code that ends all sessions of a person takes
 * the same lock. So no session is opened unnoticed while all sessions of the person are being
 * ended.
 */
export function lockPerson(tx: Tx, id: string): Promise<PersonRow | undefined> {
  return tx
    .selectFrom("people")
    .selectAll()
    .where("id", "=", id)
    .forNoKeyUpdate()
    .executeTakeFirst();
}

/** A person with the data that a sign-in by password needs. */
export type Credential = PersonRow & {
  /** Null: the person has no password. */
  readonly passwordHash: string | null;
  /** Whether the person has signed in from the network address before. */
  readonly isKnownAddress: boolean;
};

/** The person with the email address (in lower case), or undefined. No locks. */
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

/** The hash of a person's password; null: the person has none. */
export async function passwordHashOf(db: Db, personId: string): Promise<string | null> {
  const row = await db
    .selectFrom("person_accounts")
    .select("password_hash")
    .where("person_id", "=", personId)
    .where("provider_id", "=", "credential")
    .executeTakeFirst();
  return row?.password_hash ?? null;
}

/** Changes the person's password. Returns false when the person has none. */
export async function updatePassword(tx: Tx, personId: string, hash: string): Promise<boolean> {
  return await changeOne(tx)`
    update person_accounts set password_hash = ${hash} where person_id = ${personId} and provider_id = 'credential'`;
}

/**
 * The projects that the person is a member of, each with the person's role: the oldest membership
 * first, and without deleted projects.
 */
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

/** At most `limit` sessions of a person that have not expired, the last used one first. */
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

/** Records that a session was used at `at`, and extends it until `until`. */
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

/** Sessions of a person: all, or one, or all but one. */
export type SessionChoice = {
  readonly personId: string;
  /** The id of the one session that is meant; without it, all are meant. */
  readonly only?: string;
  /** The id of a session that is left out; absent or null: none is left out. */
  readonly except?: string | null;
};

/** Deletes sessions of a person. Returns the ids of the deleted rows. */
export async function deleteSessions(tx: Db, choice: SessionChoice): Promise<string[]> {
  let query = tx.deleteFrom("person_sessions").where("person_id", "=", choice.personId);
  if (choice.only !== undefined) query = query.where("id", "=", choice.only);
  if (choice.except !== undefined && choice.except !== null)
    query = query.where("id", "<>", choice.except);
  return (await query.returning("id").execute()).map((row) => row.id);
}

/**
 * Records that a person signed in from an address, and forgets the addresses above `addressesMax`
 * that were unused the longest. Returns whether the address is new for the person, and whether it
 * is the person's first address.
 */
export async function noteAddress(
  tx: Db,
  signIn: {
    readonly personId: string;
    readonly address: string;
    readonly at: Date;
    readonly addressesMax: number;
  },
): Promise<{ isNew: boolean; isFirst: boolean }> {
  const { personId, address, at, addressesMax } = signIn;
  const earlier = await tx
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
  const others = earlier.map((row) => row.address).filter((other) => other !== address);
  // The address of this sign-in takes one of the `addressesMax` positions.
  const surplus = others.slice(addressesMax - 1);
  if (surplus.length > 0) {
    await tx
      .deleteFrom("person_addresses")
      .where("person_id", "=", personId)
      .where("address", "in", surplus)
      .execute();
  }
  // The address is new if none of the earlier ones was left out for being the same.
  return { isNew: others.length === earlier.length, isFirst: earlier.length === 0 };
}

/**
 * The accounts with which a person can sign in now, oldest first. The password is an account whose
 * provider is `credential`.
 */
export async function accountsOf(
  db: Db,
  personId: string,
  settings: Pick<PeopleSettings, "oidc" | "github">,
): Promise<AccountRow[]> {
  const rows = db.selectFrom("person_accounts").selectAll().where("person_id", "=", personId);
  const all = await rows.orderBy("created_at").orderBy("id").execute();
  // The id of an account with an identity provider begins with the URL of the issuer. If that is
  // not the URL in the settings, the operator has replaced the issuer. Without settings the text
  // begins with `undefined`, and no id begins with that.
  return all.filter(({ provider_id: providerId, account_id: accountId }) => {
    if (providerId === "credential") return true;
    return accountId.startsWith(`${settings[providerId as "oidc" | "github"]?.url} `);
  });
}

/**
 * Removes accounts with which a person can sign in: those of one provider, or all if `providerId`
 * is null. Returns the number of removed accounts.
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
 * Whether the email address (in lower case) has an invitation that has not expired, to a project
 * that is not deleted.
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

/** Records that the person has proven to own their email address. */
export async function confirmAddress(tx: Db, personId: string): Promise<void> {
  await tx.updateTable("people").set({ email_verified: true }).where("id", "=", personId).execute();
}
