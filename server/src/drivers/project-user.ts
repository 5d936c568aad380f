// The user that a project's programs run as. Pure.
import type { ProjectId } from "#lib/ids.ts";

/**
 * The user id of a project's programs when the platform is root; it must own files that a program
 * should change. Nothing else assigns ids from 0x70000000 on: useradd, containers and systemd stay
 * below.
 */
export function projectUser(projectId: ProjectId): number {
  return 0x70000000 + (Number.parseInt(projectId.slice(-8), 16) & 0x0fffffff);
}
