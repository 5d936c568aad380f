// Lists, creates, renames and deletes projects.
import type { z } from "zod";
import type { projectDetail } from "@slipway/contract/project-answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { Role } from "@slipway/contract/words.ts";
import type { Caller } from "#accounts/caller.ts";
import {
  isProject,
  lockProjectWhole,
  projectRows,
  projectsByIds,
  type ProjectRow,
} from "#accounts/project-store.ts";
import { createProject, deleteProject, findProject, renameProject } from "#accounts/projects.ts";
import type { By } from "#audit/record.ts";
import { Fault, noSuchProject } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { recordOfApp } from "./app-audit.ts";
import { lockAppsOf, markAppsDeleted } from "./app-removal-store.ts";

type ProjectView = Sent<z.infer<typeof projectDetail>>;

/** The maximum number of projects that an operator sees; it bounds the response. */
const projectsMax = 10_000;

/**
 * Use cases of projects. They throw `Fault("not_found" | "forbidden" | "invalid" | "conflict")`.
 */
export class ProjectList {
  readonly #db: Db;
  readonly #ownedMax: number;
  readonly #personChanged: (personId: string) => void;
  readonly #onDeleted: () => void;

  /**
   * `personChanged` is called after the commit for each person with a new project, to update this
   * process's cache of people.
   */
  constructor(options: {
    readonly db: Db;
    /** The maximum number of projects that one person may own. */
    readonly ownedMax: number;
    readonly personChanged: (personId: string) => void;
    /** Called after the commit when a project was deleted, perhaps with apps. */
    readonly onDeleted: () => void;
  }) {
    this.#db = options.db;
    this.#ownedMax = options.ownedMax;
    this.#personChanged = options.personChanged;
    this.#onDeleted = options.onDeleted;
  }

  /** True when the project exists. */
  async has(projectId: ProjectId): Promise<boolean> {
    return (await findProject(this.#db, projectId)) !== null;
  }

  /** True when the project exists or existed before. */
  wasMade(projectId: ProjectId): Promise<boolean> {
    return isProject(this.#db, projectId);
  }

  /** The caller's own projects, or all projects if the caller is an operator, oldest first. */
  async of(caller: Caller): Promise<ProjectView[]> {
    return (await this.#rowsOf(caller)).map((row) => viewOf(row, caller));
  }

  /** One project. Whether the caller may see it was checked before. */
  async get(projectId: ProjectId, caller: Caller): Promise<ProjectView> {
    const row = await findProject(this.#db, projectId);
    if (row === null) throw noSuchProject();
    return viewOf(row, caller);
  }

  /** Throws `Fault("forbidden")` for callers that may not create projects: tokens of a project. */
  requireMaker(caller: Caller): void {
    if (caller.kind === "person" || caller.kind === "operator") return;
    const text = `The token "${caller.name}" belongs to one project and cannot create others.`;
    throw new Fault("forbidden", text);
  }

  /**
   * Creates a project. A person becomes its owner; an operator's project has no members until some
   * are invited.
   */
  async create(name: string, caller: Caller, by: By): Promise<ProjectView> {
    this.requireMaker(caller);
    const ownerId = caller.kind === "person" ? caller.personId : null;
    const created = await this.#db.transaction().execute(async (tx) => {
      const id = await createProject(tx, { name, ownerId, by, ownedMax: this.#ownedMax });
      const row = await findProject(tx, id);
      if (row === null) throw noSuchProject();
      // The caller's roles were read before the project existed, so `viewOf` finds none.
      return { ...viewOf(row, caller), role: ownerId === null ? null : ("owner" as const) };
    });
    if (ownerId !== null) this.#personChanged(ownerId);
    return created;
  }

  /** Renames the project. */
  async rename(
    change: { id: ProjectId; name: string; by: By },
    caller: Caller,
  ): Promise<ProjectView> {
    return viewOf(await this.#db.transaction().execute((tx) => renameProject(tx, change)), caller);
  }

  /**
   * Deletes a project, its members, invitations, tokens and secrets, and its apps; an app is
   * deleted as `AppLifecycle.delete` does it.
   */
  async delete(deletion: { id: ProjectId; nowMs: number; by: By }): Promise<void> {
    const { id: projectId, by } = deletion;
    await this.#db.transaction().execute(async (tx) => {
      await lockProjectWhole(tx, projectId);
      for (const { id, name } of await markAppsDeleted(tx, await lockAppsOf(tx, projectId))) {
        await recordOfApp(tx, { projectId, appId: id, name, action: "app.delete", by });
      }
      await deleteProject(tx, deletion);
    });
    this.#onDeleted();
  }

  #rowsOf(caller: Caller): Promise<readonly ProjectRow[]> {
    if (caller.kind === "operator") return projectRows(this.#db, projectsMax);
    if (caller.kind === "person") return projectsByIds(this.#db, [...caller.roles.keys()]);
    return projectsByIds(this.#db, caller.projectId === null ? [] : [caller.projectId]);
  }
}

function viewOf(row: Pick<ProjectRow, "id" | "name" | "created_at">, caller: Caller): ProjectView {
  return { id: row.id, name: row.name, role: roleIn(row.id, caller), createdAt: row.created_at };
}

function roleIn(projectId: ProjectId, caller: Caller): Role | null {
  if (caller.kind === "operator") return null;
  return caller.kind === "person" ? (caller.roles.get(projectId) ?? null) : caller.role;
}
