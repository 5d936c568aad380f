// Rotation of the secret key for what the audit log keeps sealed: the secrets that sign what is sent on. Called at the
// start of the platform, after `apps/reseal.ts`.
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { forwardingSecretContext } from "./forwarding-use-cases.ts";

/** Seals anew what an older key sealed; returns how many texts. May run twice, or beside changes: those win. */
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
