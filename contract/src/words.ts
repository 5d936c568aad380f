// The enumerations that the API, the database and the code share. Each is defined here and nowhere
// else.

/** The roles of project members and service accounts. */
export const roles = ["owner", "admin", "member", "billing"] as const;
export type Role = (typeof roles)[number];

/** Every permission: `<area>.<what>`, each with one sentence. */
export const permissionTable = {
  "projects.read": "See the project.",
  "projects.update": "Rename the project.",
  "projects.delete": "Delete the project.",
  "apps.read": "See apps, their settings, builds, releases and replicas.",
  "apps.create": "Create apps.",
  "apps.update":
    "Change apps (a changed setting may start a build), roll releases out and back, start, stop and restart apps.",
  "apps.delete": "Delete apps.",
  "apps.call": "Call apps.",
  "apps.exec": "Run commands in replicas of apps, which read the secrets that the apps have.",
  "builds.create": "Start builds and rebuilds.",
  "builds.cancel": "Cancel builds.",
  "logs.read": "Read logs of apps and builds.",
  "runs.read": "See runs and calls of apps, and the results of runs.",
  "runs.cancel": "Cancel runs.",
  "runs.redrive": "Redrive failed runs, and delete their stored requests.",
  "webhooks.read":
    "See deliveries to webhooks, endpoints, and which signing secrets there are, never the secrets.",
  "webhooks.write":
    "See, create and delete webhook signing secrets, replay deliveries, pause and resume endpoints, set the retry schedule.",
  "secrets.read": "Read secrets.",
  "secrets.write": "Set and remove secrets.",
  "volumes.read": "List and download files of the persistent storage.",
  "volumes.write": "Upload and remove files of the persistent storage, and change its size.",
  "credentials.read": "See which git credentials there are, never their secrets.",
  "credentials.write": "Set and remove git credentials.",
  "tokens.read": "See which tokens there are.",
  "tokens.write": "Issue and revoke tokens.",
  "members.read": "See members.",
  "members.write": "Add, change and remove members.",
  "audit_log.read": "Read and export the audit log.",
  "audit_log.forward": "Configure forwarding of the audit log.",
  "billing.read": "See usage, costs, statements and budgets.",
  "billing.write": "Redeem coupons, set budgets.",
  "platform.manage": "Operate the platform itself: create projects, see every project.",
} as const;

export type Permission = keyof typeof permissionTable;

/**
 * The permissions that a service account can have. Operating the platform is not a project's to
 * grant.
 */
export const choosablePermissions = (Object.keys(permissionTable) as Permission[]).filter(
  (permission) => permission !== "platform.manage",
);

/**
 * Every action of the audit log, `<area>.<verb>`, each with one sentence. Unlisted actions cannot
 * be recorded.
 */
export const actionTable = {
  "platform.bootstrap": "The first start created an owner, a project, a signing key and tokens.",
  "project.create": "A project was created.",
  "project.update": "A project was renamed.",
  "project.delete": "A project was deleted.",
  "invitation.create": "A person was invited to a project.",
  "invitation.delete": "An invitation was withdrawn.",
  "invitation.accept": "A person accepted an invitation.",
  "member.add": "A person joined a project.",
  "member.update": "A member's role was changed.",
  "member.remove": "A person left a project or was removed from it.",
  "person.sign_in": "A person signed in, or a sign-in attempt was refused.",
  "person.sign_out": "A person signed out.",
  "person.new_address": "A person signed in from a new address.",
  "person.provider_connect": "A person connected an account with a provider, as a way to sign in.",
  "person.provider_disconnect": "A person disconnected an account with a provider.",
  "person.session_end": "A session of a person was ended.",
  "person.password_change": "A person changed their password.",
  "person.password_reset": "A person's password was reset with a link, or such a link was created.",
  "person.two_factor_enable": "A person turned on two-factor sign-in.",
  "person.two_factor_disable": "A person turned off two-factor sign-in.",
  "person.device_approve": "A person allowed a command line or another device to sign in as them.",
  "signing_key.create": "A key that signs tokens was created; an older one was retired.",
  "signing_key.withdraw": "A signing key was withdrawn: tokens that it signed are no longer valid.",
  "token.create": "A service account, inference or operator token was issued.",
  "token.read": "API keys for calling apps were shown again.",
  "token.update": "A token's name or permissions were changed.",
  "token.rotate": "A token was replaced by a new one; the old one stays valid for a while.",
  "token.revoke": "A token was revoked.",
  "token.new_address": "A token was used from a new address.",
  "app.create": "An app was created, or its settings were replaced by a repeated create.",
  "app.update": "An app's settings were changed.",
  "app.delete": "An app was deleted.",
  "app.stop": "An app was stopped: it takes no calls until somebody starts it.",
  "app.start": "A stopped app was started.",
  "app.restart": "A restart of an app's replicas was requested.",
  "git_hook.create":
    "The address and the secret for push events of an app were made, or its secret was replaced.",
  "git_deliveries.replay": "A push event of an app was replayed.",
  "domain.add": "A domain was added to an app.",
  "domain.check": "The records of a domain were looked up, because somebody asked for it.",
  "domain.validate": "DNS proved that a domain belongs to an app, which answers on it now.",
  "domain.fail": "DNS has no proof of a domain, so the app does not answer on it.",
  "domain.remove": "A domain was removed from an app.",
  "app.promote": "A release of an app started to receive its calls.",
  "app.rollback": "An app went back to an earlier release, and automatic deploys were paused.",
  "app.resume_deploys": "Automatic deploys of an app were resumed.",
  "rollout.pause": "A roll-out was paused.",
  "rollout.resume": "A paused roll-out was resumed.",
  "rollout.finish": "A roll-out ended: its release gets all calls of the app.",
  "rollout.take_back":
    "A roll-out was rolled back, by a person or because its release was worse than the one before.",
  "build.create": "A build was requested.",
  "build.cancel": "A build was cancelled.",
  "build.rebuild": "A rebuild was requested.",
  "build.download": "The uploaded files of a build were downloaded.",
  "secrets.read": "Secrets were shown.",
  "secrets.update": "Secrets were set or removed.",
  "volume.download":
    "A file of the persistent storage was downloaded: an address to download it was given.",
  "volume.upload": "A file was uploaded to the persistent storage.",
  "volume.remove": "A file or a folder of the persistent storage was removed.",
  "volume.resize": "The size of the persistent storage was changed.",
  "git_credentials.read": "The list of git credentials was shown.",
  "git_credentials.update": "A git credential was set.",
  "git_credentials.delete": "A git credential was removed.",
  "replica.stop": "A replica was stopped manually.",
  "replica.exec":
    "A command was started in a replica; its arguments are not recorded, only how many there are.",
  "replica.exec_end": "A command in a replica ended.",
  "webhook_secrets.read": "The secrets that sign a project's webhooks were listed.",
  "webhook_secrets.create":
    "A secret that signs a project's webhooks was created; the previous one stays valid for a while.",
  "webhook_secrets.delete": "A secret that signs a project's webhooks was deleted.",
  "webhook_deliveries.replay": "Webhook deliveries were replayed.",
  "webhook_endpoints.pause":
    "Deliveries to a webhook endpoint were paused, manually or because they failed for days.",
  "webhook_endpoints.resume": "Deliveries to a paused webhook endpoint were resumed.",
  "webhook_schedule.update": "A project chose the retry schedule of failed deliveries.",
  "run.cancel": "Cancellation of a run was requested.",
  "runs.redrive": "Failed runs were run again.",
  "runs.purge": "Stored requests of failed runs were deleted.",
  "certificate.renew": "An operator had a TLS certificate requested.",
  "certificate.revoke": "An operator had a TLS certificate revoked, and another one requested.",
  "coupon.create": "A coupon was created.",
  "coupon.end": "A coupon was ended: it can no longer be applied.",
  "coupon.apply": "A coupon was applied to a project.",
  "plan.change": "A project's plan was changed.",
  "budget.set": "A budget was set.",
  "budget.delete": "A budget was deleted.",
  "budget.warn": "Costs reached a warning threshold of a budget.",
  "budget.stop": "Costs reached a budget: the project or app was stopped.",
  "budget.resume": "What a budget had stopped was resumed.",
  "audit_log.export": "The audit log was exported.",
  "audit_log.forwarding_set": "Forwarding of audit log entries was configured.",
  "audit_log.forwarding_delete": "Forwarding of audit log entries was ended.",
  "audit_log.forwarding_pause":
    "Forwarding of audit log entries was paused: the receiver did not accept them for days.",
  "audit_log.read":
    "The operator read a project's audit log, or an attempt to read it was refused.",
} as const;

export type AuditAction = keyof typeof actionTable;

/** States of a domain: to be proven, proven, and not proven in time. */
export const domainStates = ["Pending", "Validated", "Failed"] as const;
export type DomainState = (typeof domainStates)[number];

/** States of a certificate that the platform gets by itself. */
export const certificateStates = ["waiting", "valid", "failing", "ended", "revoking"] as const;

/** States of a build; the first three are not final. */
export const buildStates = [
  "pending",
  "building",
  "initializing",
  "success",
  "build_failure",
  "init_failure",
  "init_timeout",
  "cancelled",
] as const;
export type BuildState = (typeof buildStates)[number];

/** Why a build was made, and with it a release. */
export const buildCauses = ["create", "push", "rebuild", "deploy", "settings"] as const;
export type BuildCause = (typeof buildCauses)[number];

/** States of a release; the first three are not final. */
export const releaseStates = [
  "starting",
  "rolling_out",
  "live",
  "replaced",
  "taken_back",
  "failed",
] as const;

/** States of a roll-out; the first two are not final. */
export const rollOutStates = ["running", "paused", "finished", "taken_back", "replaced"] as const;
export type RollOutState = (typeof rollOutStates)[number];

/** Final states of a run or a call. */
export const finalStates = ["success", "failure", "cancelled", "timeout"] as const;
export type FinalState = (typeof finalStates)[number];

/** States of an async run. */
export const runStates = ["pending", "queued", "running", ...finalStates] as const;
export type RunState = (typeof runStates)[number];

/** With the word for any end without success of a run of a file, which clients wait for. */
export const shownRunStates = [...runStates, "failed"] as const;

/** States of a delivery to a webhook. */
export const deliveryStates = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** Kinds of git hosts whose pushes are understood. */
export const gitHostKinds = ["github", "gitea", "gitlab", "bitbucket"] as const;
export type GitHostKind = (typeof gitHostKinds)[number];

/** What became of a push: it waits, a build was started, or there is a reason why not. */
export const gitVerdicts = ["waiting", "built", "ignored", "refused", "failed"] as const;
export type GitVerdict = (typeof gitVerdicts)[number];
