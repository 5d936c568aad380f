// The route handlers of all resources, for the router.
import { apiKeyHandlers } from "./api-keys.ts";
import { appHandlers } from "./apps.ts";
import { auditExportHandlers } from "./audit-export.ts";
import { auditForwardingHandlers } from "./audit-forwarding.ts";
import { auditLogHandlers } from "./audit-log.ts";
import { budgetHandlers } from "./budgets.ts";
import { buildHandlers } from "./builds.ts";
import { certificateHandlers } from "./certificates.ts";
import { containerHandlers } from "./containers.ts";
import { couponHandlers } from "./coupons.ts";
import { credentialHandlers } from "./credentials.ts";
import { deviceLoginHandlers } from "./device-login.ts";
import { domainHandlers } from "./domains.ts";
import { execHandlers } from "./exec.ts";
import { fileRunHandlers } from "./file-runs.ts";
import { gitHookHandlers } from "./git-hooks.ts";
import { logHandlers } from "./logs.ts";
import { invitationHandlers, memberHandlers } from "./members.ts";
import { operatorTokenHandlers } from "./operator-tokens.ts";
import { peopleHandlers } from "./people-auth.ts";
import { passwordHandlers, twoFactorHandlers } from "./people-passwords.ts";
import { providerHandlers } from "./people-providers.ts";
import { planHandlers } from "./plans.ts";
import { platformHandlers } from "./platform-info.ts";
import { projectHandlers } from "./projects.ts";
import { releaseHandlers } from "./releases.ts";
import { repositoryHandlers } from "./repositories.ts";
import { resourceMetricsHandlers } from "./resource-metrics.ts";
import { rollOutHandlers } from "./roll-outs.ts";
import { runHandlers } from "./runs.ts";
import { secretHandlers } from "./secrets.ts";
import { serviceAccountHandlers } from "./service-accounts.ts";
import { settingsHandlers } from "./settings.ts";
import { statementHandlers } from "./statements.ts";
import { uploadHandlers } from "./uploads.ts";
import { usageHandlers } from "./usage.ts";
import { volumeUploadHandlers } from "./volume-uploads.ts";
import { volumeHandlers } from "./volumes.ts";
import { webhookHandlers } from "./webhooks.ts";
import type { HandlerParts } from "./parts.ts";

/** Returns the handler of every route. */
export function handlersOf(parts: HandlerParts) {
  return {
    ...appHandlers(parts),
    ...containerHandlers(parts),
    ...certificateHandlers(parts),
    ...settingsHandlers(parts),
    ...projectHandlers(parts),
    ...memberHandlers(parts),
    ...invitationHandlers(parts),
    ...uploadHandlers(parts),
    ...fileRunHandlers(parts),
    ...buildHandlers(parts),
    ...releaseHandlers(parts),
    ...logHandlers(parts),
    ...execHandlers(parts),
    ...resourceMetricsHandlers(parts),
    ...rollOutHandlers(parts),
    ...runHandlers(parts),
    ...webhookHandlers(parts),
    ...gitHookHandlers(parts),
    ...domainHandlers(parts),
    ...repositoryHandlers(parts),
    ...couponHandlers(parts),
    ...usageHandlers(parts),
    ...statementHandlers(parts),
    ...planHandlers(parts),
    ...budgetHandlers(parts),
    ...auditLogHandlers(parts),
    ...auditExportHandlers(parts),
    ...auditForwardingHandlers(parts),
    ...peopleHandlers(parts),
    ...providerHandlers(parts),
    ...passwordHandlers(parts),
    ...twoFactorHandlers(parts),
    ...deviceLoginHandlers(parts),
    ...serviceAccountHandlers(parts),
    ...apiKeyHandlers(parts),
    ...operatorTokenHandlers(parts),
    ...secretHandlers(parts),
    ...credentialHandlers(parts),
    ...volumeHandlers(parts),
    ...volumeUploadHandlers(parts),
    ...platformHandlers(parts),
  };
}
