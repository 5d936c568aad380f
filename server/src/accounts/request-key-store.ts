// Rows of idempotency keys of requests to the management API.
import { changeOne, type Db } from "#store/database.ts";

/** The columns that identify a row. */
export type RequestKeyId = { readonly caller: string; readonly key_hash: Buffer };

/**
 * Takes the key, and returns whether that succeeded. A key that was taken before `olderThan` is
 * free again.
 */
export async function takeKey(
  db: Db,
  row: RequestKeyId & { readonly request_hash: Buffer; readonly created_at: Date },
  olderThan: Date,
): Promise<boolean> {
  const { request_hash, created_at } = row;
  const written = await db
    .insertInto("request_keys")
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(["caller", "key_hash"])
        .doUpdateSet({ request_hash, created_at, answer_sealed: null })
        .where("request_keys.created_at", "<", olderThan),
    )
    .returning("caller")
    .executeTakeFirst();
  return written !== undefined;
}

/** The row of a key; undefined when there is none. */
export async function readKey(db: Db, id: RequestKeyId) {
  return await db
    .selectFrom("request_keys")
    .select(["request_hash", "answer_sealed"])
    .where("caller", "=", id.caller)
    .where("key_hash", "=", id.key_hash)
    .executeTakeFirst();
}

/** Stores the answer that repetitions of the request get. */
export async function writeAnswer(db: Db, id: RequestKeyId, sealed: string): Promise<void> {
  await changeOne(db)`
    update request_keys set answer_sealed = ${sealed} where caller = ${id.caller} and key_hash = ${id.key_hash}`;
}

/** Deletes an idempotency key, so that it can be used again. */
export async function dropKey(db: Db, id: RequestKeyId): Promise<void> {
  await db
    .deleteFrom("request_keys")
    .where("caller", "=", id.caller)
    .where("key_hash", "=", id.key_hash)
    .execute();
}
