// Secrets that sign a project's webhooks. A secret without expiry always exists: a reader that
// finds none creates it, so no delivery of a project is sent unsigned. Each change and its audit
// row are one transaction.
import { randomUUID } from "node:crypto";
import { tryLockProject } from "#accounts/project-store.ts";
import { platformActor, record, type By } from "#audit/record.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { makeWebhookSecret } from "#lib/webhook-signature.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import {
  insertWebhookSecret,
  readValidSecrets,
  retireSecrets,
  type SecretRow,
} from "./secret-store.ts";

export type SecretParts = { readonly db: Db; readonly sealer: Sealer };

/** A row with its decrypted value. */
export type OpenedSecret = SecretRow & { readonly secret: Secret };

/** The context for sealing a project's secret. */
export function projectSecretContext(projectId: ProjectId, id: string): string {
  return `webhook-secret:${projectId}:${id}`;
}

/**
 * The valid secrets, newest first: at least one, unless the project is deleted or never existed.
 */
export async function validSecrets(
  { db, sealer }: SecretParts,
  projectId: ProjectId,
): Promise<OpenedSecret[]> {
  let rows = await readValidSecrets(db, projectId);
  if (!hasNewest(rows)) {
    rows = await db.transaction().execute(async (tx) => {
      const exists = (await tryLockProject(tx, projectId)) !== undefined;
      const current = await readValidSecrets(tx, projectId);
      // No secret is created for a project that is gone, nor a second one if another platform has
      // created one meanwhile.
      if (!exists || hasNewest(current)) return current;
      return [await addSecret(tx, sealer, { projectId, by: { actor: platformActor } }), ...current];
    });
  }
  return rows.map((row) => ({
    ...row,
    secret: sealer.open(row.secret_sealed, projectSecretContext(projectId, row.id)),
  }));
}

/**
 * Creates a secret, which signs at once; the previous newest one expires after `overlapHours`
 * hours. Without `overlapHours`, there is no previous newest one. The caller holds the lock on the
 * project.
 */
export async function addSecret(
  tx: Tx,
  sealer: Sealer,
  {
    projectId,
    by,
    overlapHours,
  }: { readonly projectId: ProjectId; readonly by: By; readonly overlapHours?: number },
): Promise<OpenedSecret> {
  const id = randomUUID();
  const secret = makeWebhookSecret();
  const sealed = sealer.seal(secret.reveal(), projectSecretContext(projectId, id));
  if (overlapHours !== undefined) await retireSecrets(tx, projectId, overlapHours * hourMs);
  const row = await insertWebhookSecret(tx, { id, project_id: projectId, secret_sealed: sealed });
  const changes =
    overlapHours === undefined ? {} : { changes: { overlapHours: { new: overlapHours } } };
  await record(tx, {
    projectId,
    action: "webhook_secrets.create",
    by,
    resource: secretResource(id),
    ...changes,
  });
  await notify(tx, "webhook_secrets", projectId);
  return { ...row, secret };
}

/** The resource of an audit row. */
export function secretResource(id: string): { readonly type: string; readonly id: string } {
  return { type: "webhook_secret", id };
}

const hourMs = 3_600_000;

/** The newest secret is the one without expiry. */
function hasNewest(rows: readonly SecretRow[]): boolean {
  return rows.some((row) => row.expires_at === null);
}
