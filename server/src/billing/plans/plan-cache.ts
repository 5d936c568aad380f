// Caches the plan of each project and the stops of budgets in memory: the scheduler needs them at
// every turn, the proxy at every call. They are loaded at the start, and reloaded whenever a
// process changes a plan or a budget. A stop ends automatically with its month.
import type { AppId, ProjectId } from "#lib/ids.ts";
import { Loop } from "#lib/loop.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Notifications } from "#store/notify.ts";
import { boundsOf, periodOf } from "#billing/period.ts";
import type { ProjectPlan, Plans } from "./plan.ts";
import { readStandings, type StandingRow } from "./plan-store.ts";

/** A stop by a budget; `appId` null: it stops the whole project. */
export type BudgetStop = {
  readonly appId: AppId | null;
  /** The month of the stop. */
  readonly period: string;
  /** The end of that month. */
  readonly untilMs: number;
};

export type PlanCacheOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly notifications: Pick<Notifications, "listen">;
  readonly plans: Plans;
};

/** Called for a project whose plan or stops may have changed; null: any project. */
type Listener = (projectId: ProjectId | null) => void;

type Entry = { readonly plan: ProjectPlan; readonly stops: readonly BudgetStop[] };

/**
 * The interval of the turns. A failed read is repeated in the next turn, and a turn with nothing to
 * read does nothing.
 */
const retryMs = 1_000;

/** The cache; call `start()` once before use. `stop()` stops listening. */
export class PlanCache {
  readonly #options: PlanCacheOptions;
  /** Projects with a plan of their own or with stops; all others have the default plan. */
  #entries = new Map<ProjectId, Entry>();
  readonly #listeners = new Set<Listener>();
  /** What notifications say is to be read: everything, or these projects. */
  readonly #pending = { everything: false, projectIds: new Set<ProjectId>() };
  readonly #loop: Loop;
  #unlisten: () => void = () => undefined;

  constructor(options: PlanCacheOptions) {
    const { clock, log } = options;
    this.#options = options;
    this.#loop = new Loop({
      name: "plans",
      intervalMs: retryMs,
      turn: () => this.#readPending(),
      clock,
      log,
    });
  }

  planOf(projectId: ProjectId): ProjectPlan {
    return this.#entries.get(projectId)?.plan ?? this.#options.plans.standard;
  }

  /** The stop that keeps the app from taking calls now, or null. Usually one map lookup. */
  stopOf(projectId: ProjectId, appId: AppId): BudgetStop | null {
    const stops = this.#entries.get(projectId)?.stops;
    if (stops === undefined || stops.length === 0) return null;
    const stop = stops.find((candidate) => candidate.appId === null || candidate.appId === appId);
    return stop !== undefined && this.#options.clock.now() < stop.untilMs ? stop : null;
  }

  /** Projects with a plan other than the default. */
  projectsWithPlan(): { readonly projectId: ProjectId; readonly plan: ProjectPlan }[] {
    const { standard } = this.#options.plans;
    return [...this.#entries]
      .map(([projectId, { plan }]) => ({ projectId, plan }))
      .filter(({ plan }) => plan !== standard);
  }

  /** Subscribes the listener; returns a function that unsubscribes it. */
  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Starts listening, and resolves when everything is loaded. Rejects when the database does not
   * answer.
   */
  async start(): Promise<void> {
    this.#unlisten = this.#options.notifications.listen("plans", (payload) =>
      this.#readLater(payload),
    );
    await this.#read(null);
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#unlisten();
    await this.#loop.stop();
  }

  #readLater(payload: string | null): void {
    if (payload === null) this.#pending.everything = true;
    else this.#pending.projectIds.add(payload as ProjectId);
    this.#loop.nudge();
  }

  /** Reads what is pending. Turns do not overlap, so no older read overwrites a newer result. */
  async #readPending(): Promise<void> {
    const { everything, projectIds } = this.#pending;
    if (!everything && projectIds.size === 0) return;
    const idsToRead = everything ? null : [...projectIds];
    this.#pending.everything = false;
    projectIds.clear();
    try {
      await this.#read(idsToRead);
    } catch (error) {
      // What could not be read is part of everything.
      this.#pending.everything = true;
      throw error;
    }
  }

  /** Reads these projects; null: all projects. */
  async #read(projectIds: readonly ProjectId[] | null): Promise<void> {
    const { db, clock } = this.#options;
    const period = periodOf(clock.now());
    const rows = Map.groupBy(await readStandings(db, { projectIds, period }), ({ id }) => id);
    const entries = projectIds === null ? new Map<ProjectId, Entry>() : new Map(this.#entries);
    // A project gets no row if it has neither a plan of its own nor a stop any more.
    for (const projectId of projectIds ?? []) entries.delete(projectId);
    for (const [id, projectRows] of rows) entries.set(id, this.#entryOf(projectRows, period));
    this.#entries = entries;
    for (const listener of this.#listeners) {
      for (const projectId of projectIds ?? [null]) listener(projectId);
    }
  }

  /** The entry of one project, whose rows all have the same id and plan. */
  #entryOf(rows: readonly StandingRow[], period: string): Entry {
    const { plans, log } = this.#options;
    const id = rows[0]?.id ?? null;
    const name = rows[0]?.plan ?? null;
    const plan = name === null ? plans.standard : plans.byName.get(name);
    if (plan === undefined)
      log.error(
        { projectId: id, plan: name },
        "a project has a plan that SLIPWAY_PLANS_FILE lacks",
      );
    const untilMs = boundsOf(period).toMs;
    const stops = rows
      .filter(({ isStopped }) => isStopped)
      .map(({ appId }) => ({ appId, period, untilMs }));
    return { plan: plan ?? plans.standard, stops };
  }
}
