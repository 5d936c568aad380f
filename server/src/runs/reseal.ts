// Re-encrypts sealed values of runs after a rotation of the secret key: the secrets that callers sent for their webhooks.
// Called when the platform starts, before it processes runs.
import { sql } from "kysely";
import type { AppId, RunId } from "#lib/ids.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { callSecretContext } from "./settlement.ts";

const batchMax = 1_000;

/** Reseals what an older key sealed; returns the number of texts. Safe to repeat, and concurrent changes win. */
export async function resealRuns(db: Db, sealer: Sealer): Promise<number> {
  const [current = ""] = sealer.keyIds();
  for (let total = 0; ;) {
    const { rows } = await sql<{ id: RunId; app_id: AppId; sealed: string }>`
      select id, app_id, webhook_secret_sealed as sealed from runs
       where webhook_secret_sealed is not null and split_part(webhook_secret_sealed, '.', 2) <> ${current}
       limit ${batchMax}`.execute(db);
    if (rows.length === 0) return total;
    const newer = rows.map(({ app_id: appId, sealed }) => {
      const context = callSecretContext(appId);
      return sealer.seal(sealer.open(sealed, context).reveal(), context);
    });
    await sql`
      update runs as changed set webhook_secret_sealed = given.newer
        from unnest(${rows.map((row) => row.id)}::uuid[], ${rows.map((row) => row.sealed)}::text[], ${newer}::text[])
             as given (id, sealed, newer)
       where changed.id = given.id and changed.webhook_secret_sealed = given.sealed`.execute(db);
    total += rows.length;
  }
}
