// The projects that a caller may see.
import { listProjects, type ProjectRow } from "#accounts/account-store.ts";
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

  #rowsOf(caller: Caller): Promise<readonly (ProjectRow | null)[]> {
    if (caller.kind === "operator") return listProjects(this.#db, projectsMost);
    const own = caller.projectId === null ? [] : [caller.projectId];
    const ids = caller.kind === "person" ? [...caller.roles.keys()] : own;
    return Promise.all(ids.map((id) => findProject(this.#db, id)));
  }

  /** The caller's own, or all for an operator, oldest first. */
  async of(caller: Caller): Promise<ProjectView[]> {
    const rows = await this.#rowsOf(caller);
    return rows.flatMap((row) => (row === null ? [] : [{ id: row.id, name: row.name }]));
  }
}
