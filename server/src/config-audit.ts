// The settings for forwarding all audit log entries, read for config.ts.
import { Secret } from "#lib/secret.ts";
import { readWebhookSecret } from "#lib/webhook-signature.ts";
import type { SettingReader } from "./config-table.ts";

/** The operator's receiver. `key` null: requests to it are not signed. */
export type AuditForwardConfig = { readonly url: Secret; readonly key: Buffer | null };

/** Reads the settings; null: nothing is forwarded. */
export function readAuditForward(reader: SettingReader): AuditForwardConfig | null {
  const url = reader.text("SLIPWAY_AUDIT_FORWARD_URL");
  const secret = reader.text("SLIPWAY_AUDIT_FORWARD_SECRET");
  if (url === null && secret === null) return null;
  if (url === null)
    return reader.refuse(
      "SLIPWAY_AUDIT_FORWARD_SECRET is set, but SLIPWAY_AUDIT_FORWARD_URL is not.",
    );
  const parsed = URL.parse(url);
  if (
    parsed === null ||
    !/^https?:$/.test(parsed.protocol) ||
    parsed.username !== "" ||
    parsed.hash !== ""
  ) {
    const allowed = "an http or https URL without user and fragment";
    return reader.refuse(`SLIPWAY_AUDIT_FORWARD_URL must be ${allowed} (its value is not shown).`);
  }
  const key = secret === null ? null : readWebhookSecret(secret);
  if (secret !== null && key === null) {
    const allowed = "whsec_ and 24 to 64 bytes in base64";
    return reader.refuse(
      `SLIPWAY_AUDIT_FORWARD_SECRET must be ${allowed} (its value is not shown).`,
    );
  }
  return { url: new Secret(url), key };
}
