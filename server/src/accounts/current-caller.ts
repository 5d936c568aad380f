// Reads a caller's present rights: cached rights may be up to a second old, and a request takes
// time. Code that grants rights reads the caller again within its transaction.
import type { Permission, Role } from "@slipway/contract/words.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { roleIn } from "./account-store.ts";
import type { Caller } from "./caller.ts";
import { tokenById } from "./token-store.ts";

/**
 * The caller with their present rights in the project (null: outside all projects). They have no
 * rights when their session or membership has ended, or their token was revoked. No locks.
 */
export async function currentCaller(
  db: Db,
  caller: Caller,
  projectId: ProjectId | null,
): Promise<Caller> {
  if (caller.kind === "person") {
    const roles = new Map<ProjectId, Role>();
    if (projectId !== null) {
      const role = await roleIn(db, { ...caller, projectId });
      if (role !== undefined) roles.set(projectId, role);
    }
    return { ...caller, roles };
  }
  const row = await tokenById(db, caller.tokenId);
  if (row === undefined || row.revoked_at !== null) {
    // With the kind of an operator, the caller would still be allowed everything.
    return { ...caller, kind: "service_account", role: null, permissions: new Set() };
  }
  const permissions = row.permissions === null ? null : new Set(row.permissions as Permission[]);
  return { ...caller, role: row.role, permissions };
}
