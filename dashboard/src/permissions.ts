// What whoever is signed in may do in a project, by their role. It decides what pages offer; the
// platform decides what is allowed.
import { useQuery } from "@tanstack/react-query";
import { rolePermissions } from "@slipway/contract/role-permissions.ts";
import { roles, type Permission, type Role } from "@slipway/contract/words.ts";
import { projectQuery } from "./queries.ts";

/**
 * Says for a permission whether the role has it; true as long as the role is unknown, and for
 * whoever has none.
 */
export function useMay(project: string): (permission: Permission) => boolean {
  const { data } = useQuery(projectQuery(project));
  const role = data?.role ?? null;
  return (permission) => role === null || rolePermissions[role].has(permission);
}

/**
 * The roles that whoever is signed in may give and take: those without permissions that they lack.
 */
export function useGrantable(project: string): readonly Role[] {
  const may = useMay(project);
  return roles.filter((role) => [...rolePermissions[role]].every(may));
}
