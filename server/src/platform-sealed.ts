// The columns with sealed texts; every new one must be added here. The platform refuses to start
// without the keys that sealed them, and re-encrypts them after a rotation of the secret key.
import { signingKeyContext, withdrawnKeyContext } from "#accounts/keys.ts";
import { requestAnswerContext } from "#accounts/request-keys.ts";
import { accountKeyContext } from "#acme/acme-authority.ts";
import { certificateKeyContext, orderKeyContext } from "#acme/certificate-keeper.ts";
import { dockerAuthContext } from "#apps/app.ts";
import { credentialContext } from "#apps/credentials.ts";
import { secretContext } from "#apps/secrets.ts";
import { forwardingSecretContext } from "#audit/forwarding/forwarding-use-cases.ts";
import { authSecretContext } from "#people/auth-secret.ts";
import { hookSecretContext } from "#pushes/git-hooks.ts";
import { callSecretContext } from "#runs/settlement.ts";
import { sealedColumn, type SealedColumn } from "#store/sealed-store.ts";
import { deliverySecretContext } from "#webhooks/delivery.ts";
import { projectSecretContext } from "#webhooks/project-secrets.ts";

/**
 * Each element gives the table, the sealed column, the columns that its context is made of, and the
 * function that makes the context. A text can be opened only with the context it was sealed with.
 */
export const sealedColumns: readonly SealedColumn[] = [
  sealedColumn("signing_keys", "private_key_sealed", ["id"], ({ id }) => signingKeyContext(id)),
  sealedColumn("signing_keys", "withdrawn_public_sealed", ["id"], ({ id }) =>
    withdrawnKeyContext(id),
  ),
  sealedColumn("person_secret", "secret_sealed", [], () => authSecretContext),
  sealedColumn("secrets", "value_sealed", ["project_id", "app_id", "name"], (row) =>
    secretContext({ projectId: row.project_id, appId: row.app_id }, row.name),
  ),
  sealedColumn("git_credentials", "secret_sealed", ["project_id", "host"], (row) =>
    credentialContext(row.project_id, row.host),
  ),
  sealedColumn("apps", "docker_auth_sealed", ["id"], ({ id }) => dockerAuthContext(id)),
  sealedColumn("git_hooks", "secret_sealed", ["app_id"], (row) => hookSecretContext(row.app_id)),
  sealedColumn("webhook_secrets", "secret_sealed", ["id", "project_id"], (row) =>
    projectSecretContext(row.project_id, row.id),
  ),
  sealedColumn("webhook_deliveries", "secret_sealed", ["id"], ({ id }) =>
    deliverySecretContext(id),
  ),
  sealedColumn("runs", "webhook_secret_sealed", ["app_id"], (row) => callSecretContext(row.app_id)),
  sealedColumn("request_keys", "answer_sealed", ["caller", "key_hash"], (row) =>
    requestAnswerContext(row),
  ),
  sealedColumn("audit_forwardings", "secret_sealed", ["id"], ({ id }) =>
    forwardingSecretContext(id),
  ),
  sealedColumn("acme_accounts", "key_sealed", ["directory_url"], (row) =>
    accountKeyContext(row.directory_url),
  ),
  sealedColumn("certificates", "key_sealed", ["name"], ({ name }) => certificateKeyContext(name)),
  sealedColumn("certificates", "order_key_sealed", ["name"], ({ name }) => orderKeyContext(name)),
];
