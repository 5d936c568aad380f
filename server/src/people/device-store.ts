// Rows of device logins. Times are the platform's, handed in; the states are those of the
// migration's check.
import type { Insertable, Selectable } from "kysely";
import { countRows, insertNew, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

export type DeviceLoginRow = Selectable<Tables["device_logins"]>;

/** Adds a login that waits. False: its user code is one that is shown elsewhere at the moment. */
export async function insertDeviceLogin(
  db: Db,
  row: Insertable<Tables["device_logins"]>,
): Promise<boolean> {
  return await insertNew(db, "device_logins", row);
}

/** How many logins have not ended, counted up to `max`. */
export async function countOpenLogins(
  db: Db,
  { nowAt, max }: { nowAt: Date; max: number },
): Promise<number> {
  const some = db
    .selectFrom("device_logins")
    .select("id")
    .where("expires_at", ">", nowAt)
    .limit(max)
    .as("some");
  return await countRows(db.selectFrom(some));
}

/**
 * Removes up to `max` logins that ended before this instant; rows that others remove just now are
 * left to them.
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

/** The login whose code a person reads, or undefined; ended ones are none. */
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

/** The login of a device; ended ones too, as long as their row is there. */
export async function loginByDeviceCode(db: Db, hash: Buffer): Promise<DeviceLoginRow | undefined> {
  return await db
    .selectFrom("device_logins")
    .selectAll()
    .where("device_code_hash", "=", hash)
    .executeTakeFirst();
}

/**
 * Decides a login that waits; undefined when it does not (any more). Locks its row until the
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

/** Who decided on a login, or undefined. No locks. */
export async function approverOf(db: Db, hash: Buffer): Promise<{ personId: string } | undefined> {
  return await db
    .selectFrom("device_logins")
    .innerJoin("person_sessions", "person_sessions.id", "device_logins.session_id")
    .select("person_sessions.person_id as personId")
    .where("device_code_hash", "=", hash)
    .executeTakeFirst();
}

/**
 * Takes an approved login away and returns who approved it; undefined when there is none, or the
 * session it was approved in has ended. Of several that ask at once one gets it.
 */
export async function takeApprovedLogin(
  tx: Tx,
  hash: Buffer,
  nowAt: Date,
): Promise<{ personId: string } | undefined> {
  const taken = await tx
    .deleteFrom("device_logins")
    .using("person_sessions")
    .where("device_logins.device_code_hash", "=", hash)
    .where("device_logins.state", "=", "approved")
    .where("device_logins.expires_at", ">", nowAt)
    .whereRef("person_sessions.id", "=", "device_logins.session_id")
    .where("person_sessions.expires_at", ">", nowAt)
    .returning("person_sessions.person_id")
    .executeTakeFirst();
  return taken === undefined ? undefined : { personId: taken.person_id };
}
