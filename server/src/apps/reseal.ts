// Rotates the secret key. After the platform starts with a new first key, it re-encrypts everything sealed with an
// older key, so that the old key can be removed from the settings.
import { sql } from "kysely";
import type { AppId, ProjectId } from "#lib/ids.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { dockerAuthContext } from "./app.ts";
import { credentialContext } from "./credentials.ts";
import { secretContext } from "./secrets.ts";

/** One sealed text, and how to replace it unless it changed meanwhile. */
type SealedRow = {
  readonly sealed: string;
  readonly context: string;
  readonly replace: (by: string) => Promise<unknown>;
};

/**
 * Re-encrypts what an older key sealed; returns the number of texts. May run twice, or concurrently with changes, which
 * take precedence.
 */
export async function resealOld(db: Db, sealer: Sealer): Promise<number> {
  const rows = [...(await secretRows(db)), ...(await credentialRows(db)), ...(await dockerAuthRows(db))];
  const old = rows.filter(({ sealed }) => sealer.isOld(sealed));
  for (const { sealed, context, replace } of old) {
    await replace(sealer.seal(sealer.open(sealed, context).reveal(), context));
  }
  return old.length;
}

async function secretRows(db: Db): Promise<SealedRow[]> {
  const rows = await db.selectFrom("secrets").select(["project_id", "app_id", "name", "value_sealed"]).execute();
  return rows.map((row) => ({
    sealed: row.value_sealed,
    context: secretContext({ projectId: row.project_id as ProjectId, appId: row.app_id as AppId | null }, row.name),
    replace: (by) =>
      db
        .updateTable("secrets")
        .set({ value_sealed: by })
        .where("project_id", "=", row.project_id)
        .where(sql<boolean>`app_id is not distinct from ${row.app_id}`)
        .where("name", "=", row.name)
        .where("value_sealed", "=", row.value_sealed)
        .execute(),
  }));
}

async function credentialRows(db: Db): Promise<SealedRow[]> {
  const rows = await db.selectFrom("git_credentials").select(["project_id", "host", "secret_sealed"]).execute();
  return rows.map((row) => ({
    sealed: row.secret_sealed,
    context: credentialContext(row.project_id as ProjectId, row.host),
    replace: (by) =>
      db
        .updateTable("git_credentials")
        .set({ secret_sealed: by })
        .where("project_id", "=", row.project_id)
        .where("host", "=", row.host)
        .where("secret_sealed", "=", row.secret_sealed)
        .execute(),
  }));
}

async function dockerAuthRows(db: Db): Promise<SealedRow[]> {
  const rows = await db
    .selectFrom("apps")
    .select(["id", "docker_auth_sealed"])
    .where("docker_auth_sealed", "is not", null)
    .execute();
  return rows.flatMap(({ id, docker_auth_sealed: sealed }) => {
    if (sealed === null) return [];
    const replace = (by: string): Promise<unknown> =>
      db
        .updateTable("apps")
        .set({ docker_auth_sealed: by })
        .where("id", "=", id)
        .where("docker_auth_sealed", "=", sealed)
        .execute();
    return [{ sealed, context: dockerAuthContext(id as AppId), replace }];
  });
}
