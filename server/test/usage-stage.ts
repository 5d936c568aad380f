// What tests of usage have in common: a project on a real database with rows of replicas and builds
// as the platform leaves them, time that the test moves, and the meter.
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { sql } from "kysely";
import { CouponUseCases } from "#billing/coupons/coupon-use-cases.ts";
import { termsOf, type CouponWish } from "#billing/coupons/coupon.ts";
import { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import { plansOfNoFile } from "#billing/plans/plan.ts";
import { Meter, type MeterOptions } from "#billing/usage/meter.ts";
import { builtInPrices } from "#billing/usage/prices.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import {
  appIdOf,
  newBuildId,
  newProjectId,
  newReleaseId,
  newReplicaId,
  type AppId,
  type BuildId,
  type ProjectId,
  type ReleaseId,
  type ReplicaId,
} from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { NewReplicaRow } from "#scheduler/replica-rows.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { addInstance } from "#test/support/instances.ts";
import { byPlatform } from "./support/accounts.ts";
import { testDatabase } from "./support/database.ts";

/**
 * What replicas of a test cost by the built-in prices: one core, 2 GB, no GPU. In micro-units per
 * second: 6.55 + 2 × 2.22.
 */
export const plainMicrosPerSecond = 10.99;

export type AppPlace = {
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly buildId: BuildId;
};

/** A clock that says what it is told. */
export class SetClock implements Clock {
  atMs: number;

  constructor(atMs: number) {
    this.atMs = atMs;
  }

  now(): number {
    return this.atMs;
  }

  readonly monotonicMs = systemClock.monotonicMs;
  readonly isSettled = systemClock.isSettled;
  readonly sleep = systemClock.sleep;
  readonly after = systemClock.after;
  readonly random = systemClock.random;
}

export class UsageStage {
  readonly db: Db;
  readonly clock: SetClock;
  readonly rows: ReplicaStore;
  readonly coupons: CouponUseCases;

  constructor(db: Db, clock: SetClock) {
    this.db = db;
    this.clock = clock;
    this.rows = new ReplicaStore(db);
    this.coupons = new CouponUseCases({
      db,
      clock,
      plans: new PlanUseCases({ db, plans: plansOfNoFile, clock }),
    });
  }

  meter(options: Partial<MeterOptions> = {}): Meter {
    const { db, clock } = this;
    const fixed = {
      db,
      clock,
      log: silentLog,
      prices: builtInPrices,
      intervalMs: 1_000,
      postingDelayMs: 0,
      onPosted: () => undefined,
      onStep: () => undefined,
    };
    return new Meter({ ...fixed, ...options });
  }

  async addProject(): Promise<ProjectId> {
    const id = newProjectId();
    await this.db.insertInto("projects").values({ id, name: "test" }).execute();
    return id;
  }

  /** An app with one build that is left alone by the meter, and a release. */
  async addApp(projectId: ProjectId, name = "app"): Promise<AppPlace> {
    const { db } = this;
    const place = {
      appId: appIdOf(projectId, name),
      buildId: newBuildId(),
      releaseId: newReleaseId(),
    };
    await db
      .insertInto("apps")
      .values({ id: place.appId, project_id: projectId, name, request: toJson({}) })
      .execute();
    const of = { project_id: projectId, app_id: place.appId };
    const build = {
      ...of,
      number: 1,
      cause: "create",
      status: "success",
      request: toJson({}),
    } as const;
    await db
      .insertInto("builds")
      .values({
        id: place.buildId,
        ...build,
        ended_at: new Date(this.clock.now()),
        is_metered: true,
      })
      .execute();
    const release = { ...of, build_id: place.buildId, settings: toJson({}), artifact: toJson({}) };
    const facts = { number: 1, cause: "create", state: "live" } as const;
    await db
      .insertInto("releases")
      .values({ id: place.releaseId, ...release, ...facts })
      .execute();
    return place;
  }

  /** A replica whose process began to run at `startMs`. */
  async addReplica(
    projectId: ProjectId,
    place: AppPlace,
    startMs: number,
    wish: Partial<NewReplicaRow> = {},
  ): Promise<ReplicaId> {
    const replicaId = newReplicaId("app");
    const { appId, releaseId, buildId } = place;
    const plain = {
      compute: "CPU",
      computeTier: "interruptible",
      gpuCount: 0,
      cpuCores: 1,
      memoryGb: 2,
      restarts: 0,
    } as const;
    const backend = await addInstance(this.db, { instanceId: "usage", name: "process" });
    await this.rows.insert({
      replicaId,
      projectId,
      appId,
      releaseId,
      buildId,
      backend,
      isTrial: false,
      ...plain,
      provider: null,
      region: null,
      createdAt: startMs,
      ...wish,
    });
    await this.rows.change(replicaId, {
      kind: "started",
      at: startMs,
      address: { host: "127.0.0.1", port: 1 },
    });
    return replicaId;
  }

  async seen(replicaId: ReplicaId, at: number): Promise<void> {
    await this.rows.seen([{ replicaId, at }]);
  }

  async stop(replicaId: ReplicaId, at: number): Promise<void> {
    await this.rows.change(replicaId, {
      kind: "stopped",
      at,
      reason: "It was stopped.",
      exitCode: 0,
    });
  }

  /**
   * The volume of the project holds so many MB from an instant on, instead of what it held; 0:
   * nothing.
   */
  async hold(projectId: ProjectId, sizeMb: number, at: number): Promise<void> {
    const open = this.db
      .updateTable("volume_uses")
      .where("project_id", "=", projectId)
      .where("ended_at", "is", null);
    await open.set({ seen_at: new Date(at), ended_at: new Date(at) }).execute();
    const row = { id: randomUUID(), project_id: projectId, size_mb: sizeMb };
    if (sizeMb === 0) return;
    await this.db
      .insertInto("volume_uses")
      .values({ ...row, began_at: new Date(at), seen_at: new Date(at) })
      .execute();
  }

  /** The volume of the project was counted, and holds the same. */
  async holds(projectId: ProjectId, at: number): Promise<void> {
    const open = this.db
      .updateTable("volume_uses")
      .where("project_id", "=", projectId)
      .where("ended_at", "is", null);
    await open.set({ seen_at: new Date(at) }).execute();
  }

  /** A build that has ended, and made an environment between two instants, if any. */
  async addBuild(
    projectId: ProjectId,
    place: AppPlace,
    given: {
      readonly startedMs: number;
      readonly environment?: readonly [number, number];
      readonly number: number;
    },
  ): Promise<BuildId> {
    const id = newBuildId();
    const [from, to] = given.environment ?? [];
    await this.db
      .insertInto("builds")
      .values({
        id,
        project_id: projectId,
        app_id: place.appId,
        number: given.number,
        cause: "push",
        status: "build_failure",
        request: toJson({}),
        settings: toJson({ cpu: 2, memory: 4.5 }),
        created_at: new Date(given.startedMs),
        started_at: new Date(given.startedMs),
        ended_at: new Date(to ?? given.startedMs + 1_000),
        environment_started_at: from === undefined ? null : new Date(from),
        environment_ended_at: to === undefined ? null : new Date(to),
      })
      .execute();
    return id;
  }

  /** Makes a coupon and applies it at the clock's time. */
  async apply(projectId: ProjectId, wish: Partial<CouponWish>): Promise<void> {
    const code = `C${randomUUID()}`;
    const isFixed = (wish.coupon_type ?? "fixed_amount") === "fixed_amount";
    await this.coupons.create(
      termsOf({
        code,
        name: "Test",
        coupon_type: "fixed_amount",
        percentage_rate: null,
        frequency: "once",
        amount_cents: isFixed ? 1_000 : null,
        amount_currency: isFixed ? "USD" : null,
        frequency_duration: null,
        expiration_at: null,
        reusable: false,
        max_uses: null,
        plans: null,
        ...wish,
      }),
      byPlatform,
    );
    await this.coupons.apply(projectId, code, byPlatform);
  }

  /** Sums that must always agree with each other, as micro-units. */
  async sums(
    projectId: ProjectId,
  ): Promise<
    Record<
      | "slices"
      | "days"
      | "months"
      | "projectDays"
      | "stretches"
      | "posted"
      | "receivable"
      | "drawn",
      bigint
    >
  > {
    const { rows } = await sql<Record<string, string>>`
      select (select coalesce(sum(amount_micros), 0) from usage_slices where project_id = ${projectId}) as slices,
             (select coalesce(sum(amount_micros), 0) from usage_days where project_id = ${projectId}) as days,
             (select coalesce(sum(amount_micros), 0) from usage_months where project_id = ${projectId}) as months,
             (select coalesce(sum(amount_micros), 0) from usage_project_days where project_id = ${projectId}) as "projectDays",
             (select coalesce(sum(amount_micros), 0) from usage_stretches where project_id = ${projectId}) as stretches,
             (select coalesce(sum(amount_micros), 0) from usage_posted where project_id = ${projectId}) as posted,
             (select coalesce(sum(e.amount_micros), 0) from ledger_entries e join ledger_transactions t on t.id = e.transaction_id
               where t.project_id = ${projectId} and e.account = 'receivable') as receivable,
             (select coalesce(sum(d.amount_micros), 0) from coupon_draws d join coupon_applications a on a.id = d.application_id
               where a.project_id = ${projectId}) as drawn`.execute(this.db);
    const row = rows[0] ?? {};
    const of = (name: string): bigint => BigInt(row[name] ?? "0");
    return {
      slices: of("slices"),
      days: of("days"),
      months: of("months"),
      projectDays: of("projectDays"),
      stretches: of("stretches"),
      posted: of("posted"),
      receivable: of("receivable"),
      drawn: of("drawn"),
    };
  }
}

/** A stage whose time begins at `atMs`; everything is gone after the test. */
export async function usageStage(
  t: TestContext,
  atMs = Date.UTC(2026, 0, 10, 12),
): Promise<UsageStage> {
  const { db } = await testDatabase(t);
  return new UsageStage(db, new SetClock(atMs));
}
