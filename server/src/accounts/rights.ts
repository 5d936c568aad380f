// The rights of a service account: a role, or individually chosen permissions; and the rule that
// nobody grants more than they have. Pure.
import { choosablePermissions, type Permission, type Role } from "@slipway/contract/words.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Fault } from "#lib/fault.ts";
import type { Caller } from "./caller.ts";
import { allows, permissionsOf } from "./permissions.ts";

/** The rights of a token: exactly one of the two fields is set. */
export type Rights =
  | { readonly role: Role; readonly permissions: null }
  | { readonly role: null; readonly permissions: readonly Permission[] };

/** The rights of a token for calling apps. */
export const callingRights: Rights = { role: null, permissions: ["apps.call"] };

/** The rights stored in a row. A stored permission that cannot be chosen grants nothing. */
export function rightsOf(row: {
  readonly role: Role | null;
  readonly permissions: readonly string[] | null;
}): Rights {
  if (row.role !== null) return { role: row.role, permissions: null };
  return {
    role: null,
    permissions: choosablePermissions.filter((permission) => row.permissions?.includes(permission)),
  };
}

/**
 * Throws `Fault("forbidden")`, naming the missing rights, unless the caller has all of them in the
 * project.
 */
export function requireRights(caller: Caller, rights: Rights, projectId: ProjectId): void {
  const permissions = rights.role === null ? rights.permissions : [...permissionsOf(rights.role)];
  const missing = permissions.filter((permission) => !allows(caller, permission, projectId));
  if (missing.length === 0) return;
  const subject = rights.role === null ? "these permissions" : `the role ${rights.role}`;
  throw new Fault(
    "forbidden",
    `You cannot give a token more permissions than you have: ${subject} would need ${missing.join(", ")}, which you lack.`,
  );
}
