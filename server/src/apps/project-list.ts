// The projects that a caller may see.
import { listProjects } from "#accounts/account-store.ts";
import type { Caller } from "#accounts/caller.ts";
import { findProject } from "#accounts/projects.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

export type ProjectView = { readonly id: ProjectId; readonly name: string };

const projectsMost = 10_000;

/** Projects as callers see them. */
export class ProjectList {
  readonly #db: Db;

  constructor({ db }: { readonly db: Db }) {
    this.#db = db;
  }

  /** True when there is such a project. */
  async has(projectId: ProjectId): Promise<boolean> {
    return (await findProject(this.#db, projectId)) !== null;
  }

  /** The caller's own, or all for an operator, oldest first. */
  async of(caller: Caller): Promise<ProjectView[]> {
    const rows =
      caller.projectId === null
        ? await listProjects(this.#db, projectsMost)
        : [await findProject(this.#db, caller.projectId)];
    return rows.flatMap((row) => (row === null ? [] : [{ id: row.id, name: row.name }]));
  }
}
