// What each role of a project may do. The server decides by it, and the dashboard shows by it what
// somebody may do.
import type { Permission, Role } from "./words.ts";

const member: readonly Permission[] = [
  "projects.read",
  "apps.read",
  "apps.create",
  "apps.update",
  "apps.call",
  "apps.exec",
  "builds.create",
  "builds.cancel",
  "logs.read",
  "runs.read",
  "runs.cancel",
  "runs.redrive",
  "webhooks.read",
  "webhooks.write",
  "secrets.read",
  "secrets.write",
  "volumes.read",
  "volumes.write",
  "credentials.read",
  "members.read",
];

const admin: readonly Permission[] = [
  ...member,
  "projects.update",
  "apps.delete",
  "credentials.write",
  "tokens.read",
  "tokens.write",
  "members.write",
  "billing.read",
];

/** Only the owner may read the audit log. */
export const rolePermissions: Readonly<Record<Role, ReadonlySet<Permission>>> = {
  owner: new Set<Permission>([
    ...admin,
    "projects.delete",
    "audit_log.read",
    "audit_log.forward",
    "billing.write",
  ]),
  admin: new Set(admin),
  member: new Set(member),
  billing: new Set<Permission>(["projects.read", "members.read", "billing.read", "billing.write"]),
};
