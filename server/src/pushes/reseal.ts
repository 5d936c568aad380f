// Re-encrypts the secrets of hook addresses after a rotation of the secret key. Called when the platform starts.
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { hookSecretContext } from "./git-hooks.ts";

/** Reseals what an older key sealed; returns the number of texts. Safe to repeat, and concurrent changes win. */
export async function resealGitHooks(db: Db, sealer: Sealer): Promise<number> {
  const rows = await db.selectFrom("git_hooks").select(["app_id", "secret_sealed"]).execute();
  const old = rows.filter((row) => sealer.isOld(row.secret_sealed));
  for (const { app_id: appId, secret_sealed: sealed } of old) {
    const context = hookSecretContext(appId);
    await db
      .updateTable("git_hooks")
      .set({ secret_sealed: sealer.seal(sealer.open(sealed, context).reveal(), context) })
      .where("app_id", "=", appId)
      .where("secret_sealed", "=", sealed)
      .execute();
  }
  return old.length;
}
