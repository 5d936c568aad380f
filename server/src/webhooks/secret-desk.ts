// The secrets that sign a project's webhooks: made, rotated and deleted. A value is shown once, when it is made; at most two
// are valid at a time. Called by the API; each change and its audit row are one transaction.
import { randomUUID } from "node:crypto";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { makeWebhookSecret } from "#lib/webhook-signature.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import {
  deleteSecret,
  insertSecret,
  lockProject,
  readValidSecrets,
  retireSecrets,
  type SecretRow,
} from "./secret-store.ts";
import { webhookSecretContext } from "./signing-keys.ts";

/** A secret as it is listed. */
export type WebhookSecret = {
  readonly id: string;
  readonly createdAt: Date;
  /** Null: the newest one, valid until another is made or it is deleted. */
  readonly expiresAt: Date | null;
};
export type NewWebhookSecret = WebhookSecret & { readonly secret: Secret };

const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;
const overlapHoursDefault = 24;
const overlapHoursMax = 720;
const hourMs = 3_600_000;

/** The use cases. They throw `Fault("not_found" | "invalid")`. */
export class SecretDesk {
  readonly #db: Db;
  readonly #sealer: Sealer;

  constructor(parts: { readonly db: Db; readonly sealer: Sealer }) {
    this.#db = parts.db;
    this.#sealer = parts.sealer;
  }

  /** The valid ones, newest first; at most two. */
  async list(projectId: ProjectId): Promise<readonly WebhookSecret[]> {
    return (await readValidSecrets(this.#db, projectId)).map((row) => shown(row));
  }

  /** Makes one, which signs at once. The one before stays valid for `overlapHours` (0 to 720, default 24), any older one ends. */
  async create(
    projectId: ProjectId,
    { overlapHours = overlapHoursDefault }: { readonly overlapHours?: number | undefined },
    by: By,
  ): Promise<NewWebhookSecret> {
    if (!(overlapHours >= 0 && overlapHours <= overlapHoursMax)) {
      throw new Fault("invalid", `overlapHours is ${overlapHours}, but must be a number from 0 to ${overlapHoursMax}.`);
    }
    const id = randomUUID();
    const secret = makeWebhookSecret();
    const sealed = this.#sealer.seal(secret.reveal(), webhookSecretContext(projectId, id));
    const row = await this.#db.transaction().execute(async (tx) => {
      if (!(await lockProject(tx, projectId))) throw new Fault("not_found", `There is no project ${projectId}.`);
      await retireSecrets(tx, projectId, overlapHours * hourMs);
      const made = await insertSecret(tx, { id, project_id: projectId, secret_sealed: sealed });
      const changes = { overlapHours: { new: overlapHours } };
      await record(tx, { projectId, action: "webhook_secrets.create", by, resource: resourceOf(id), changes });
      await notify(tx, "webhook_secrets", projectId);
      return made;
    });
    return { ...shown(row), secret };
  }

  /** It signs no more, at once. */
  async delete(projectId: ProjectId, id: string, by: By): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      const isGone = uuidForm.test(id) && (await lockProject(tx, projectId)) && (await deleteSecret(tx, projectId, id));
      if (!isGone) throw new Fault("not_found", `There is no webhook secret ${id} in this project.`);
      await record(tx, { projectId, action: "webhook_secrets.delete", by, resource: resourceOf(id) });
      await notify(tx, "webhook_secrets", projectId);
    });
  }
}

function shown({ id, created_at: createdAt, expires_at: expiresAt }: SecretRow): WebhookSecret {
  return { id, createdAt, expiresAt };
}

function resourceOf(id: string): { readonly type: string; readonly id: string } {
  return { type: "webhook_secret", id };
}
