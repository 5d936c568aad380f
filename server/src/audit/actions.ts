// Every action that the audit log knows, `<area>.<verb>`. Closed: what is not listed cannot be recorded.

/** Action → one sentence for the documentation. */
export const actionTable = {
  "platform.bootstrap": "The first start made an owner, a project, a signing key and tokens.",
  "project.create": "A project was made.",
  "project.update": "A project's name was changed.",
  "member.add": "A person became a member of a project.",
  "member.update": "A member's role was changed.",
  "member.remove": "A person's membership ended.",
  "signing_key.create": "A key that signs tokens was made; an older one was retired.",
  "token.create": "A service account, inference or operator token was issued.",
  "token.revoke": "A token was revoked.",
  "app.create": "An app was created, or its settings were replaced by a repeated create.",
  "app.update": "An app's settings were changed.",
  "app.delete": "An app was deleted.",
  "app.promote": "A release of an app began to take its calls.",
  "build.create": "A build was requested.",
  "build.cancel": "A build was cancelled.",
  "build.rebuild": "A build was repeated.",
  "secrets.read": "Secrets were shown.",
  "secrets.update": "Secrets were set or removed.",
  "git_credentials.read": "The list of git credentials was shown.",
  "git_credentials.update": "A git credential was set.",
  "git_credentials.delete": "A git credential was removed.",
  "replica.stop": "A replica was stopped by hand.",
  "webhook_secrets.create":
    "A secret that signs a project's webhooks was made; the one before stays valid for a while.",
  "webhook_secrets.delete": "A secret that signs a project's webhooks was deleted.",
  "webhook_deliveries.replay": "Deliveries to webhooks were sent again.",
  "webhook_endpoints.pause": "Deliveries to a webhook were held back, by hand or because it failed for days.",
  "webhook_endpoints.resume": "Deliveries to a paused webhook went on.",
  "webhook_schedule.update": "A project chose when failed deliveries are tried again.",
  "run.cancel": "A run was asked to end.",
  "runs.redrive": "Runs that had failed were run again.",
  "runs.purge": "Kept requests of runs that had failed were deleted.",
  "coupon.create": "A coupon was made.",
  "coupon.end": "A coupon was ended: it can be applied no more.",
  "coupon.apply": "A coupon was applied to a project.",
  "audit_log.read": "The operator read a project's audit log, or reading one was refused.",
} as const;

export type AuditAction = keyof typeof actionTable;
