// Maps roles and kinds of tokens to permissions. Pure; routes name the permission they need.
import { rolePermissions } from "@slipway/contract/role-permissions.ts";
import type { Permission, Role } from "@slipway/contract/words.ts";

const inferencePermissions: ReadonlySet<Permission> = new Set<Permission>(["apps.call"]);

/** All permissions of a role. */
export function permissionsOf(role: Role): ReadonlySet<Permission> {
  return rolePermissions[role];
}

/** The fields of a caller that decide what the caller may do; see caller.ts. */
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

/**
 * True when the permission is the caller's in the project. `projectId` null: outside all projects.
 * Operators may do everything everywhere.
 */
export function allows(caller: Bearer, permission: Permission, projectId: string | null): boolean {
  if (caller.kind === "operator") return true;
  if (projectId === null || !belongsTo(caller, projectId)) return false;
  if (caller.kind === "inference") return inferencePermissions.has(permission);
  if (caller.kind === "service_account" && caller.permissions !== null)
    return caller.permissions.has(permission);
  const role = caller.kind === "person" ? caller.roles.get(projectId) : caller.role;
  if (role === undefined || role === null) return false;
  return rolePermissions[role].has(permission);
}

/**
 * True when the caller may do everything in the project that the role allows: nobody grants or
 * removes a right that they lack.
 */
export function mayGive(caller: Bearer, role: Role, projectId: string): boolean {
  return [...rolePermissions[role]].every((permission) => allows(caller, permission, projectId));
}

/**
 * True when the token belongs to the project, or the person is a member of it; operators belong to
 * none.
 */
export function belongsTo(caller: Bearer, projectId: string): boolean {
  if (caller.kind === "operator") return false;
  return caller.kind === "person" ? caller.roles.has(projectId) : caller.projectId === projectId;
}
