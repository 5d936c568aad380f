// Rotates the secret key for sealed data of the audit log: the secrets that sign forwarded messages. Called at the platform's
// start, after `apps/reseal.ts`.
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { forwardingSecretContext } from "./forwarding-use-cases.ts";

/** Reseals what an older key sealed; returns how many texts. Safe to run twice, and concurrently with changes, which win. */
export async function resealForwardings(db: Db, sealer: Sealer): Promise<number> {
  const rows = await db
    .selectFrom("audit_forwardings")
    .select(["id", "secret_sealed"])
    .where("secret_sealed", "is not", null)
    .execute();
  const old = rows.flatMap(({ id, secret_sealed: sealed }) =>
    sealed !== null && sealer.isOld(sealed) ? [{ id, sealed }] : [],
  );
  for (const { id, sealed } of old) {
    const context = forwardingSecretContext(id);
    await db
      .updateTable("audit_forwardings")
      .set({ secret_sealed: sealer.seal(sealer.open(sealed, context).reveal(), context) })
      .where("id", "=", id)
      .where("secret_sealed", "=", sealed)
      .execute();
  }
  return old.length;
}
