// Who may do what: roles and kinds of token → permissions. Pure; routes name the permission they need.

/** Every permission: `<area>.<what>`, each with one sentence. */
export const permissionTable = {
  "projects.read": "See the project.",
  "projects.update": "Rename the project.",
  "projects.delete": "Delete the project.",
  "apps.read": "See apps, their settings, builds, releases and replicas.",
  "apps.create": "Create apps.",
  "apps.update": "Change apps, promote releases, stop replicas.",
  "apps.delete": "Delete apps.",
  "apps.call": "Call apps.",
  "builds.create": "Start and repeat builds.",
  "builds.cancel": "Cancel builds.",
  "logs.read": "Read logs of apps and builds.",
  "runs.read": "See runs and calls of apps, and the results of runs.",
  "runs.cancel": "Cancel runs.",
  "runs.redrive": "Run failed runs again, and delete their kept requests.",
  "webhooks.read": "See deliveries to webhooks, endpoints, and which signing secrets there are, never the secrets.",
  "webhooks.write":
    "See, make and remove signing secrets of webhooks, repeat deliveries, resume endpoints, choose the schedule.",
  "secrets.read": "Read secrets.",
  "secrets.write": "Set and remove secrets.",
  "credentials.read": "See which git credentials there are, never their secrets.",
  "credentials.write": "Set and remove git credentials.",
  "tokens.read": "See which tokens there are.",
  "tokens.write": "Issue and revoke tokens.",
  "members.read": "See members.",
  "members.write": "Add, change and remove members.",
  "audit_log.read": "Read and export the audit log.",
  "audit_log.forward": "Choose where entries of the audit log are sent.",
  "billing.read": "See usage, costs, statements and budgets.",
  "billing.write": "Redeem coupons, set budgets.",
  "platform.manage": "Operate the platform itself: make projects, see every project.",
} as const;

export type Permission = keyof typeof permissionTable;
export type Role = "owner" | "admin" | "member" | "billing";

const member: readonly Permission[] = [
  "projects.read",
  "apps.read",
  "apps.create",
  "apps.update",
  "apps.call",
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

/** The audit log is the owner's alone. */
const rolePermissions: Readonly<Record<Role, ReadonlySet<Permission>>> = {
  owner: new Set<Permission>([...admin, "projects.delete", "audit_log.read", "audit_log.forward", "billing.write"]),
  admin: new Set(admin),
  member: new Set(member),
  billing: new Set<Permission>(["projects.read", "members.read", "billing.read", "billing.write"]),
};

const inferencePermissions: ReadonlySet<Permission> = new Set<Permission>(["apps.call"]);

/** True when the role gives the permission. */
export function roleAllows(role: Role, permission: Permission): boolean {
  return rolePermissions[role].has(permission);
}

/** All that a role gives. */
export function permissionsOf(role: Role): ReadonlySet<Permission> {
  return rolePermissions[role];
}

/** What of a caller decides; see caller.ts. */
type Bearer =
  | { readonly kind: "operator" }
  | { readonly kind: "inference"; readonly projectId: string | null }
  | {
      readonly kind: "service_account";
      readonly projectId: string | null;
      readonly role: Role | null;
      readonly permissions: ReadonlySet<Permission> | null;
    }
  | { readonly kind: "person"; readonly roles: ReadonlyMap<string, Role> };

/** True when the caller may do this in the project (null: in none). Operators may do everything everywhere. */
export function allows(caller: Bearer, permission: Permission, projectId: string | null): boolean {
  if (caller.kind === "operator") return true;
  if (projectId === null || !belongsTo(caller, projectId)) return false;
  if (caller.kind === "inference") return inferencePermissions.has(permission);
  if (caller.kind === "service_account" && caller.permissions !== null) return caller.permissions.has(permission);
  const role = caller.kind === "person" ? caller.roles.get(projectId) : caller.role;
  return role !== undefined && role !== null && roleAllows(role, permission);
}

/** True when the caller may do in the project all that the role allows: nobody gives or takes a right that they do not have. */
export function mayGive(caller: Bearer, role: Role, projectId: string): boolean {
  return [...rolePermissions[role]].every((permission) => allows(caller, permission, projectId));
}

/** True when the project is the token's, or one that the person is a member of; operators belong to none. */
export function belongsTo(caller: Bearer, projectId: string): boolean {
  if (caller.kind === "operator") return false;
  return caller.kind === "person" ? caller.roles.has(projectId) : caller.projectId === projectId;
}
