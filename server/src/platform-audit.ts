// Connects the audit log: reading, retention.
import type { SigningKeys } from "#accounts/keys.ts";
import { AuditLog } from "#audit/audit-log.ts";
import { auditRetentionLoop } from "#audit/audit-retention.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

/** What the API does with the audit log. */
export type AuditParts = { readonly auditLog: AuditLog };

/** Opens it; its loops end with the platform. */
export function openAudit(config: Config, foundation: Foundation & { readonly keys: SigningKeys }): AuditParts {
  const { db, log, lifecycle, clock } = foundation;
  const { auditRetentionDays: retentionDays } = config;
  const retention = auditRetentionLoop({ db, clock, log, retentionDays });
  retention.start();
  lifecycle.onClose("audit retention", () => retention.stop());
  return { auditLog: new AuditLog({ db, clock, retentionDays }) };
}
