// Computes the user that a project's programs run as. Pure.
import type { ProjectId } from "#lib/ids.ts";

/**
 * Returns the user id of a project's programs when the platform is root. Files that a program may
 * change must belong to this user. Ids from 0x70000000 on are free: useradd, containers and systemd
 * assign only lower ones.
 */
export function projectUser(projectId: ProjectId): number {
  // The id ends with eight hexadecimal digits, of which seven fit.
  return 0x70000000 + (Number.parseInt(projectId.slice(-8), 16) & 0x0fffffff);
}
