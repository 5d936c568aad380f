// Use cases for the secrets that sign a project's webhooks: list, create and delete. Creating one
// rotates: the secret before it expires. A project has one secret from the start, and at most two
// are valid at once. Called by the API; each change and its audit row are one transaction.
import { lockProject } from "#accounts/project-store.ts";
import { record, type By } from "#audit/record.ts";
import { Fault, noSuchProject } from "#lib/fault.ts";
import { uuidForm, type ProjectId } from "#lib/ids.ts";
import { notify } from "#store/notify.ts";
import {
  addSecret,
  secretResource,
  validSecrets,
  type OpenedSecret,
  type SecretParts,
} from "./project-secrets.ts";
import { deleteSecret } from "./secret-store.ts";

/** A secret as it is shown to members of the project. */
export type WebhookSecret = ReturnType<typeof shown>;

/** The use cases of webhook secrets. They throw `Fault("not_found" | "no_such_project")`. */
export class WebhookSecretUseCases {
  readonly #parts: SecretParts;

  constructor(parts: SecretParts) {
    this.#parts = parts;
  }

  /**
   * The one or two valid secrets, newest first. The audit log records that they were read. Throws
   * `Fault("no_such_project")`.
   */
  async list(projectId: ProjectId, by: By): Promise<readonly WebhookSecret[]> {
    const secrets = await validSecrets(this.#parts, projectId);
    if (secrets.length === 0) throw noSuchProject();
    const resource = { type: "project", id: projectId };
    await record(this.#parts.db, { projectId, action: "webhook_secrets.read", by, resource });
    return secrets.map(shown);
  }

  /**
   * Creates a secret, which signs at once. The previous secret expires after `overlapHours` hours,
   * and older ones expire now.
   */
  async create(projectId: ProjectId, overlapHours: number, by: By): Promise<WebhookSecret> {
    const row = await this.#parts.db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      return addSecret(tx, this.#parts.sealer, { projectId, by, overlapHours });
    });
    return shown(row);
  }

  /**
   * Deletes a secret, which stops signing at once. If it was the newest one, the next reader of the
   * secrets creates another.
   */
  async delete(projectId: ProjectId, id: string, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      // The database fails for a text that is no id.
      const isRemoved = uuidForm.test(id) && (await deleteSecret(tx, projectId, id));
      if (!isRemoved)
        throw new Fault("not_found", `There is no webhook secret ${id} in this project.`);
      await record(tx, {
        projectId,
        action: "webhook_secrets.delete",
        by,
        resource: secretResource(id),
      });
      await notify(tx, "webhook_secrets", projectId);
    });
  }
}

function shown({ id, created_at: createdAt, expires_at: expiresAt, secret }: OpenedSecret) {
  return { id, createdAt, expiresAt, secret };
}
