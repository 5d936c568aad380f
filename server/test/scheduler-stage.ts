// What the tests of the scheduler stand on: rows in a real database, replicas of the fake driver, a
// model of the proxy, and a clock that the test moves.
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { CardPool } from "#drivers/pools/cards.ts";
import { systemClock } from "#lib/clock.ts";
import {
  appIdOf,
  newBuildId,
  newReleaseId,
  newRunId,
  type AppId,
  type ProjectId,
  type ReplicaId,
  type RunId,
} from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Allowance, AppStop, ReplicaLimits } from "#scheduler/allowance.ts";
import type { RouteSource, SchedulerRoute } from "#scheduler/app-state.ts";
import type { StoredRelease } from "#scheduler/replica-rows.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import type { LineStore } from "#scheduler/replica-lines.ts";
import { Scheduler } from "#scheduler/scheduler.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { testDatabase } from "#test/support/database.ts";
import { addInstance } from "#test/support/instances.ts";
import { ModelProxy } from "#test/support/model-proxy.ts";
import {
  FakeDriver,
  goodScript,
  type FakeDriverOptions,
  type StartScript,
} from "#test/support/fake-driver.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { firstRoute } from "./support/first-route.ts";

/** In real time. */
const reachWaitMs = 60_000;

const projectId = "p-0123abcd" as ProjectId;

/** A start without any trouble. */
export const goodStart: StartScript = { ...goodScript, createMs: 5, readyMs: 100 };

/** The same start, but it exits by itself on the way. */
export function exitsEarly(start: StartScript): StartScript {
  return { ...start, exit: { afterMs: (start.createMs + (start.readyMs ?? 0)) / 2, exitCode: 1 } };
}

/** One process of the platform. */
export type Process = {
  readonly scheduler: Scheduler;
  readonly view: ReplicaView;
  readonly proxy: ModelProxy;
};

/** Allows everything until a test says otherwise. */
class ChosenAllowance implements Allowance {
  replicasMax: number | null = null;
  gpusMax: number | null = null;
  readonly stops = new Map<AppId, string>();
  readonly #listeners = new Set<(projectId: ProjectId | null) => void>();

  limitsOf(): ReplicaLimits {
    return { name: 'The plan "hobby"', replicasMax: this.replicasMax, gpusMax: this.gpusMax };
  }

  stopOf(_projectId: ProjectId, appId: AppId): AppStop | undefined {
    const reason = this.stops.get(appId);
    return reason === undefined ? undefined : { code: "budget_reached", reason };
  }

  onChange(listener: (projectId: ProjectId | null) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Tells that something of it was changed. */
  changed(): void {
    for (const listener of this.#listeners) listener(projectId);
  }
}

/** A stage with one app and no release yet. */
export class Stage {
  readonly clock = new VirtualClock();
  readonly db: Db;
  readonly driver: FakeDriver;
  readonly appId: AppId = appIdOf(projectId, "example");
  readonly lines: Parameters<LineStore["append"]>[0][number][] = [];
  /** Whose last lines belong to which runs. */
  readonly assigned: { replicaId: ReplicaId; runIds: readonly RunId[] }[] = [];
  /** How the next starts go; the last one goes on for ever. */
  scripts: StartScript[] = [goodStart];
  /** Limits and stops; a test changes them. */
  readonly allowance = new ChosenAllowance();
  readonly #routes = new Map<AppId, SchedulerRoute>([
    [this.appId, { ...firstRoute, appId: this.appId, projectId, live: null }],
  ]);
  readonly #listeners = new Set<(appId: AppId) => void>();
  /** How long replicas of processes that are opened from now on may wait for a machine. */
  pendingMs = 600_000;
  #releases = 0;

  constructor(db: Db, given: Pick<FakeDriverOptions, "compute" | "pools">) {
    this.db = db;
    this.driver = new FakeDriver({ clock: this.clock, script: () => this.#nextScript(), ...given });
  }

  /**
   * Starts a process of the platform; stopped after the test at the latest. `heldOn`: a replica
   * with a run from before. `instanceId`: that of its data folder, by default the first one's.
   */
  async openProcess(
    t: TestContext,
    given: { readonly heldOn?: ReplicaId; readonly instanceId?: string } = {},
  ): Promise<Process> {
    const { clock, db, driver } = this;
    const { heldOn, instanceId = driver.installationId } = given;
    const view = new ReplicaView();
    const proxy = new ModelProxy(clock);
    if (heldOn !== undefined) proxy.hold(heldOn);
    const routes: RouteSource = {
      byAppId: (appId) => this.#routes.get(appId),
      all: () => [...this.#routes.values()],
      onChange: (listener) => {
        this.#listeners.add(listener);
        return () => this.#listeners.delete(listener);
      },
    };
    const scheduler = new Scheduler({
      driver,
      instanceId,
      zygoteBytes: 0,
      pendingMs: this.pendingMs,
      rows: new ReplicaStore(db),
      routes,
      demand: proxy,
      occupancy: proxy,
      environmentOf: () => Promise.resolve({ GREETING: "hello" }),
      lines: {
        append: (lines) => {
          this.lines.push(...lines);
          return Promise.resolve();
        },
        assignLast: (replicaId, { runIds }) => {
          this.assigned.push({ replicaId, runIds });
          return Promise.resolve();
        },
      },
      view,
      allowance: this.allowance,
      exitMs: 30_000,
      endsFile: null,
      log: silentLog,
      clock,
      probe: ({ address }) =>
        Promise.resolve(
          driver.answers(address) ? { ok: true } : { ok: false, reason: "It does not answer." },
        ),
    });
    proxy.connect(view, (appId) => scheduler.nudge(appId));
    proxy.onBroken = (replicaId) =>
      void scheduler.brokeOff({ replicaId, runId: newRunId(), sinceMs: 0 });
    driver.busy = (replicaId) => proxy.running(replicaId);
    driver.onExit = (replica) => proxy.lose(replica.spec.replicaId);
    t.after(() => this.closeProcess(scheduler));
    await scheduler.start();
    return { scheduler, view, proxy };
  }

  /** Stops a process while its clock runs. */
  async closeProcess(scheduler: Scheduler): Promise<void> {
    let isStopped = false;
    const stopping = scheduler.stop().finally(() => (isStopped = true));
    await this.reach("the scheduler has stopped", () => isStopped);
    await stopping;
  }

  /** Another app of the project, without a release. */
  async addApp(name: string): Promise<AppId> {
    const appId = appIdOf(projectId, name);
    await this.db
      .insertInto("apps")
      .values({ id: appId, project_id: projectId, name, request: toJson({}) })
      .execute();
    this.#routes.set(appId, { ...firstRoute, appId, projectId, live: null });
    return appId;
  }

  /** A stored release of the app. */
  async addRelease(
    changes: Partial<AppSettings> = {},
    appId: AppId = this.appId,
  ): Promise<StoredRelease> {
    const { db } = this;
    const settings = settingsWith(changes);
    const release = {
      releaseId: newReleaseId(),
      projectId,
      appId,
      buildId: newBuildId(),
      settings,
    };
    const artifact = { kind: "scripted" };
    const ids = { id: release.buildId, project_id: projectId, app_id: appId };
    await db
      .insertInto("builds")
      .values({
        ...ids,
        number: ++this.#releases,
        cause: "create",
        status: "success",
        request: toJson({}),
        ended_at: new Date(),
      })
      .execute();
    await db
      .insertInto("releases")
      .values({
        ...ids,
        id: release.releaseId,
        build_id: release.buildId,
        settings: toJson(settings),
        artifact: toJson(artifact),
        number: this.#releases,
        cause: "create",
        state: "starting",
      })
      .execute();
    return { ...release, artifact };
  }

  /** Lets no release of the app take calls. */
  withdraw(): void {
    const { appId } = this;
    this.#routes.set(appId, { ...firstRoute, appId, projectId, live: null });
    for (const listener of this.#listeners) listener(appId);
  }

  /** Lets a release take the calls. */
  promote({ appId, releaseId, buildId, settings }: StoredRelease): void {
    const restarts = this.#routes.get(appId)?.restarts ?? 0;
    const live = { releaseId, buildId, settings };
    this.#routes.set(appId, { ...firstRoute, appId, projectId, restarts, live });
    for (const listener of this.#listeners) listener(appId);
  }

  /** Asks for a restart of the app's replicas. */
  restart(appId: AppId = this.appId): void {
    const route = this.#routes.get(appId) ?? { ...firstRoute, appId, projectId, live: null };
    this.#routes.set(appId, { ...route, restarts: route.restarts + 1 });
    for (const listener of this.#listeners) listener(appId);
  }

  /**
   * Moves the clock in small steps until the condition holds; real work such as queries goes on
   * meanwhile.
   */
  async reach(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    const endMs = systemClock.monotonicMs() + reachWaitMs;
    while (!(await condition())) {
      assert.ok(
        systemClock.monotonicMs() < endMs,
        `within ${reachWaitMs} ms it did not come true: ${what}`,
      );
      await this.clock.advance(10);
      // Queries take their time; the clock must not run far ahead of them.
      await systemClock.sleep(1);
    }
  }

  /** Rows of all replicas, oldest first. */
  rows() {
    return this.db.selectFrom("replicas").selectAll().orderBy("created_at").orderBy("id").execute();
  }

  /** How many rows are in each state. */
  async states(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const { state } of await this.rows()) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  }

  #nextScript(): StartScript {
    const [script = goodStart] = this.scripts;
    if (this.scripts.length > 1) this.scripts.shift();
    return script;
  }
}

/** A stage in a database of its own. */
export async function openStage(
  t: TestContext,
  compute: readonly string[] = ["CPU"],
  pools?: readonly CardPool[],
): Promise<Stage> {
  const { db } = await testDatabase(t);
  const stage = new Stage(db, pools === undefined ? { compute } : { pools });
  const { installationId: instanceId, name } = stage.driver;
  await addInstance(db, { instanceId, name });
  await db.insertInto("projects").values({ id: projectId, name: "Project" }).execute();
  await db
    .insertInto("apps")
    .values({ id: stage.appId, project_id: projectId, name: "example", request: toJson({}) })
    .execute();
  return stage;
}
