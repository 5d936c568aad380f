// Queries about sealed data: which secret keys the database needs.
import { sql } from "kysely";
import type { Db } from "./database.ts";

/** Ids of all keys that sealed anything in the database. A sealed text is `v1.<key id>.…`, see lib/seal.ts. */
export async function sealingKeyIds(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select distinct split_part(sealed, '.', 2) as id
      from (select private_key_sealed as sealed from signing_keys
            union all select withdrawn_public_sealed from signing_keys where withdrawn_public_sealed is not null
            union all select secret_sealed from git_credentials
            union all select value_sealed from secrets
            union all select docker_auth_sealed from apps where docker_auth_sealed is not null
            union all select secret_sealed from webhook_secrets
            union all select secret_sealed from git_hooks
            union all select secret_sealed from audit_forwardings where secret_sealed is not null
            union all select secret_sealed from person_secret) as everything
    union
    select distinct split_part(secret_sealed, '.', 2) from webhook_deliveries where secret_sealed is not null
    union
    select distinct split_part(webhook_secret_sealed, '.', 2) from runs where webhook_secret_sealed is not null
     order by 1`.execute(db);
  return rows.map((row) => row.id);
}
