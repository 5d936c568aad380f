// Queries of device logins. Callers hand in the time by the platform's clock. A check constraint of
// the table lists the states of a login.
import type { Insertable, Selectable } from "kysely";
import { countRows, insertNew, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type DeviceLoginRow = Selectable<Tables["device_logins"]>;

/** Adds a login that waits. Returns false when its user code is already in use. */
export async function insertDeviceLogin(
  db: Db,
  row: Insertable<Tables["device_logins"]>,
): Promise<boolean> {
  return await insertNew(db, "device_logins", row);
}

/** How many logins have codes that are still valid, counted up to `max`. */
export async function countOpenLogins(
  db: Db,
  { nowAt, max }: { nowAt: Date; max: number },
): Promise<number> {
  const counted = db
    .selectFrom("device_logins")
    .select("id")
    .where("expires_at", ">", nowAt)
    .limit(max)
    .as("some");
  return await countRows(db.selectFrom(counted));
}

/**
 * Removes up to `max` logins that expired before the instant `before`. Skips rows that another
 * transaction has locked.
 */
export async function removeEndedLogins(
  db: Db,
  { before, max }: { before: Date; max: number },
): Promise<void> {
  const ended = db
    .selectFrom("device_logins")
    .select("id")
    .where("expires_at", "<", before)
    .limit(max)
    .forUpdate()
    .skipLocked();
  await db.deleteFrom("device_logins").where("id", "in", ended).execute();
}

/** The login with this user code, or undefined. Expired logins are left out. No locks. */
export async function loginByUserCode(
  db: Db,
  userCode: string,
  nowAt: Date,
): Promise<DeviceLoginRow | undefined> {
  return await db
    .selectFrom("device_logins")
    .selectAll()
    .where("user_code", "=", userCode)
    .where("expires_at", ">", nowAt)
    .executeTakeFirst();
}

/** The login of a device, expired or not, or undefined. No locks. */
export async function loginByDeviceCode(db: Db, hash: Buffer): Promise<DeviceLoginRow | undefined> {
  return await db
    .selectFrom("device_logins")
    .selectAll()
    .where("device_code_hash", "=", hash)
    .executeTakeFirst();
}

/**
 * Approves or denies a login that waits; undefined: no such login waits. Locks its row until the
 * transaction ends.
 */
export async function decideLogin(
  tx: Tx,
  decision: { userCode: string; state: "approved" | "denied"; sessionId: string; nowAt: Date },
): Promise<DeviceLoginRow | undefined> {
  return await tx
    .updateTable("device_logins")
    .set({ state: decision.state, session_id: decision.sessionId })
    .where("user_code", "=", decision.userCode)
    .where("state", "=", "waiting")
    .where("expires_at", ">", decision.nowAt)
    .returningAll()
    .executeTakeFirst();
}

/** The person who approved or denied a login, or undefined. No locks. */
export async function approverOf(db: Db, hash: Buffer): Promise<{ personId: string } | undefined> {
  return await db
    .selectFrom("device_logins")
    .innerJoin("person_sessions", "person_sessions.id", "device_logins.session_id")
    .select("person_sessions.person_id as personId")
    .where("device_code_hash", "=", hash)
    .executeTakeFirst();
}

/**
 * Deletes an approved login and returns the person who approved it; undefined: no login with this
 * hash is approved and valid, or the session in which it was approved has ended. Of several
 * concurrent calls, only one gets the person.
 */
export async function takeApprovedLogin(
  tx: Tx,
  hash: Buffer,
  nowAt: Date,
): Promise<{ personId: string } | undefined> {
  const deleted = await tx
    .deleteFrom("device_logins")
    .using("person_sessions")
    .where("device_logins.device_code_hash", "=", hash)
    .where("device_logins.state", "=", "approved")
    .where("device_logins.expires_at", ">", nowAt)
    .whereRef("person_sessions.id", "=", "device_logins.session_id")
    .where("person_sessions.expires_at", ">", nowAt)
    .returning("person_sessions.person_id")
    .executeTakeFirst();
  return deleted === undefined ? undefined : { personId: deleted.person_id };
}
