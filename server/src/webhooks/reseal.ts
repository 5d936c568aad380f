// Re-encrypts sealed values of webhooks after a rotation of the secret key: the projects' secrets, and those that callers
// sent with deliveries. Called when the platform starts, after `apps/reseal.ts`.
import { sql } from "kysely";
import type { DeliveryId, ProjectId } from "#lib/ids.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { deliverySecretContext } from "./delivery.ts";
import { projectSecretContext } from "./project-secrets.ts";

const batchMax = 1000;

/** Reseals what an older key sealed; returns the number of texts. Safe to repeat, and concurrent changes win. */
export async function resealWebhooks(db: Db, sealer: Sealer): Promise<number> {
  return (await resealSecrets(db, sealer)) + (await resealDeliveries(db, sealer));
}

async function resealSecrets(db: Db, sealer: Sealer): Promise<number> {
  const rows = await db.selectFrom("webhook_secrets").select(["id", "project_id", "secret_sealed"]).execute();
  const old = rows.filter((row) => sealer.isOld(row.secret_sealed));
  for (const { id, project_id: projectId, secret_sealed: sealed } of old) {
    const context = projectSecretContext(projectId as ProjectId, id);
    await db
      .updateTable("webhook_secrets")
      .set({ secret_sealed: sealer.seal(sealer.open(sealed, context).reveal(), context) })
      .where("id", "=", id)
      .where("secret_sealed", "=", sealed)
      .execute();
  }
  return old.length;
}

/** In batches, because there may be many. */
async function resealDeliveries(db: Db, sealer: Sealer): Promise<number> {
  const [current = ""] = sealer.keyIds();
  for (let total = 0; ;) {
    const { rows } = await sql<{ id: DeliveryId; sealed: string }>`
      select id, secret_sealed as sealed from webhook_deliveries
       where secret_sealed is not null and split_part(secret_sealed, '.', 2) <> ${current}
       limit ${batchMax}`.execute(db);
    if (rows.length === 0) return total;
    const newer = rows.map(({ id, sealed }) => {
      const context = deliverySecretContext(id);
      return sealer.seal(sealer.open(sealed, context).reveal(), context);
    });
    await sql`
      update webhook_deliveries as changed set secret_sealed = given.newer
        from unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.sealed)}::text[], ${newer}::text[])
             as given (id, sealed, newer)
       where changed.id = given.id and changed.secret_sealed = given.sealed`.execute(db);
    total += rows.length;
  }
}
