// Use cases of plans: the operator assigns them to projects, projects see their limits and usage,
// and a new app is admitted or refused. Called by the API, by coupons, and by `admission.ts` for
// new apps.
import { lockProject } from "#accounts/project-store.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { pageOf, type Page } from "#lib/page-token.ts";
import type { Db, Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import type { ProjectPlan, Plans } from "./plan.ts";
import { setPlanCredit } from "./plan-credit.ts";
import * as store from "./plan-store.ts";

/** A project with its plan. */
export type ProjectWithPlan = {
  readonly project: store.PlannedProject;
  readonly plan: ProjectPlan;
};

type PlanParts = Pick<Foundation, "db" | "clock"> & { readonly plans: Plans };

/** The use cases. They throw `Fault("invalid" | "forbidden" | "no_such_project")`. */
export class PlanUseCases {
  readonly #parts: PlanParts;

  constructor(parts: PlanParts) {
    this.#parts = parts;
  }

  /** The names of all plans. */
  get names(): readonly string[] {
    return [...this.#parts.plans.byName.keys()];
  }

  /** The project's plan and its usage. */
  async get(
    projectId: ProjectId,
  ): Promise<{ readonly plan: ProjectPlan; readonly usage: store.PlanUsage }> {
    const plan = await this.planOf(this.#parts.db, projectId);
    return { plan, usage: await store.planUsageOf(this.#parts.db, projectId) };
  }

  /** Lists projects with their plans, as `listPlanned` does. */
  async list(
    page: Omit<store.PlannedPage, "limit"> & { readonly size: number },
  ): Promise<Page<ProjectWithPlan>> {
    // One more row shows whether there is another page.
    const rows = await store.listPlanned(this.#parts.db, { ...page, limit: page.size + 1 });
    const { items, nextToken } = pageOf(rows, page.size, (last) => last.id);
    return {
      items: items.map((project) => ({ project, plan: this.#planNamed(project.plan) })),
      nextToken,
    };
  }

  /** Assigns a plan to the project. The scheduler drains replicas that exceed a lower limit. */
  async change(projectId: ProjectId, name: string, by: By): Promise<ProjectWithPlan> {
    if (!this.#parts.plans.byName.has(name)) {
      throw new Fault(
        "invalid",
        `plan is ${JSON.stringify(name)}, but must be one of ${this.names.join(", ")}.`,
      );
    }
    return await this.#parts.db.transaction().execute(async (tx) => {
      const project = await lockProject(tx, projectId);
      const before = this.#planNamed(project.plan);
      const plan = this.#planNamed(name);
      await store.updatePlan(tx, projectId, name);
      await setPlanCredit(tx, { projectId, plan, nowMs: this.#parts.clock.now() });
      const resource = { type: "project", id: projectId, name: project.name };
      const changes = { plan: { old: before.name, new: plan.name } };
      await record(tx, { projectId, action: "plan.change", by, resource, changes });
      await notify(tx, "plans", projectId);
      return { project: { ...project, plan: name }, plan };
    });
  }

  /**
   * Refuses a new app that exceeds the plan. Runs in the transaction that has inserted the app, so
   * the app is counted too. A transaction that adds another app at the same time waits here for the
   * lock on the project, and then counts this app too.
   */
  async admitApp(tx: Tx, projectId: ProjectId): Promise<void> {
    const plan = await this.planOf(tx, projectId);
    if (plan.appsMax === null) return;
    const project = await lockProject(tx, projectId);
    // The plan may have changed while waiting for the lock.
    const { name, appsMax } = this.#planNamed(project.plan);
    if (appsMax === null || (await store.countApps(tx, projectId)) <= appsMax) return;
    const many = appsMax === 1 ? "1 app" : `${appsMax} apps`;
    const advice = "use one of them, or ask the operator of the platform for another plan";
    throw new Fault(
      "forbidden",
      `The plan "${name}" allows the project ${many}, and it already has that many: ${advice}.`,
    );
  }

  /** The project's plan in the database. */
  async planOf(db: Db, projectId: ProjectId): Promise<ProjectPlan> {
    return this.#planNamed(await store.planNameOf(db, projectId));
  }

  /**
   * The plan with this name, or the default plan. An unknown name was assigned after the start of
   * this platform, by another platform that knows it: a start with an unknown name is refused.
   */
  #planNamed(name: string | null): ProjectPlan {
    const plan = name === null ? undefined : this.#parts.plans.byName.get(name);
    return plan ?? this.#parts.plans.standard;
  }
}
