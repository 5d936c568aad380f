// What must hold in the simulated world: at every moment, when a replica is ended, and once
// everything has come to rest.
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { SchedulerRoute } from "#scheduler/app-state.ts";
import type { FakeDriver, FakeReplica } from "#test/support/fake-driver.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import type { MemoryRows } from "./memory-rows.ts";
import type { Crowd } from "./crowd.ts";
import { harmDone } from "./others.ts";
import type { SimPlatform } from "./sim-platform.ts";

/** What is looked at. */
export type Observed = {
  readonly clock: VirtualClock;
  readonly rows: MemoryRows;
  readonly driver: FakeDriver;
  readonly platform: SimPlatform;
  readonly routes: readonly SchedulerRoute[];
  /** Releases that have got calls. */
  readonly served: ReadonlySet<ReleaseId>;
  /** How many replicas the project of all apps may have; null: any number. */
  readonly replicasMax: number | null;
  /** The pool that all share, where it is a small one. */
  readonly crowd: Crowd | null;
  /** A person has stopped the app. */
  isStopped(appId: AppId): boolean;
  /**
   * For how long there have been replicas beyond the limit that could have gone; 0 when `isBeyond`
   * is false.
   */
  beyondMs(isBeyond: boolean): number;
  /**
   * For how long calls of the app have been waiting without any replica that takes calls; 0 when
   * `isUnserved` is false.
   */
  unservedMs(appId: AppId, isUnserved: boolean): number;
};

/** A promise was broken. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/**
 * Calls learn that no replica comes at the latest when a start has taken all its time, after one
 * that failed.
 */
const waitMsMax = 150_000;
const noticeMs = 30_000;
/** A limit that was lowered, and a replica that comes from a trial, are seen at the next look. */
const beyondMsMax = 2_000;

/** After each event. */
export function checkNow(world: Observed): void {
  checkCounts(world);
  const harm = harmDone(world);
  expect(world, harm === undefined, harm ?? "");
  if (!world.platform.isAlive) return;
  checkLimit(world);
  const crowded = world.crowd?.violation(world);
  expect(world, crowded === undefined, crowded ?? "");
  const { proxy, view } = world.platform;
  for (const { appId, refusedReleaseId } of world.routes) {
    const isWaiting = proxy.demandOf(appId).waiting > 0;
    expect(
      world,
      !isWaiting || proxy.free(appId) === undefined,
      `a call of ${appId} waits although a replica has room`,
    );
    // At a limit calls wait for as long as the replicas of other apps are busy.
    const isUnserved =
      world.replicasMax === null &&
      world.crowd === null &&
      isWaiting &&
      view.ready(appId).length === 0;
    const unservedMs = world.unservedMs(appId, isUnserved);
    expect(
      world,
      unservedMs <= waitMsMax,
      `calls of ${appId} wait for ${unservedMs} ms and no replica came`,
    );
    const stopped = world.isStopped(appId) ? view.ready(appId)[0] : undefined;
    expect(
      world,
      stopped === undefined,
      `calls of ${appId} go to ${stopped?.replicaId}, although it is stopped`,
    );
    const isStrange = (releaseId: ReleaseId): boolean =>
      !world.served.has(releaseId) || refusedReleaseId === releaseId;
    const strange = view.ready(appId).find((ready) => isStrange(ready.releaseId));
    expect(
      world,
      strange === undefined,
      `calls of ${appId} go to a release that is not to get any`,
    );
    const shares = view.shares(appId) ?? [];
    const sum = shares.reduce((all, { weight }) => all + weight, 0);
    expect(
      world,
      shares.length === 0 || Math.abs(sum - 1) < 1e-6,
      `the shares of ${appId} sum to ${sum}`,
    );
  }
}

/** When a replica is asked to end, ends by itself, or is ended by force. */
export function checkStop(
  world: Observed,
  replica: FakeReplica,
  how: "asked" | "exit" | "forced",
): void {
  const { replicaId } = replica.spec;
  expect(world, world.rows.rows.has(replicaId), `replica ${replicaId} has no row`);
  // A crash is nobody's order.
  if (how === "exit" && replica.askedAtMs === null) return;
  const busy = world.platform.isAlive ? world.platform.proxy.running(replicaId) : 0;
  if (busy === 0) return;
  const drainingAt = world.rows.rows.get(replicaId)?.drainingAt ?? null;
  expect(
    world,
    drainingAt !== null,
    `replica ${replicaId} was ended (${how}) without being drained`,
  );
  const drainedMs = world.clock.now() - (drainingAt ?? 0);
  const graceMs = replica.spec.graceSeconds * 1000;
  const msMin = how === "asked" ? graceMs - Math.min(noticeMs, graceMs / 4) : graceMs;
  expect(
    world,
    drainedMs >= msMin,
    `replica ${replicaId} with ${busy} calls was ended (${how}) after ${drainedMs} ms`,
  );
}

/** Without calls and faults for long: each app has its minimum, and rows and replicas agree. */
export function checkAtRest(world: Observed): void {
  const { installationId } = world.driver;
  const alive = [...world.rows.rows.values()].filter(
    (row) => row.state !== "stopped" && row.backend.instanceId === installationId,
  );
  const running = world.driver.running().map((replica) => replica.spec.replicaId);
  expect(
    world,
    sameMembers(
      alive.map((row) => row.replicaId),
      running,
    ),
    `rows and replicas differ at rest`,
  );
  for (const { appId, live, restarts = 0 } of world.routes) {
    const ofApp = alive.filter((row) => row.appId === appId);
    const outdated = ofApp.find((row) => row.restarts !== restarts);
    expect(
      world,
      outdated === undefined,
      `replica ${outdated?.replicaId} has outlived a restart of its app`,
    );
    const min = live?.settings.minReplicaCount ?? 0;
    if (world.replicasMax !== null || world.crowd !== null) continue;
    const isAtLeast =
      ofApp.length === min &&
      ofApp.every((row) => row.releaseId === live?.releaseId && row.state === "ready");
    const found = ofApp
      .map((row) => `${row.replicaId} ${row.state} of ${row.releaseId}`)
      .join(", ");
    expect(
      world,
      isAtLeast,
      `${appId} should rest at ${min} replicas of ${live?.releaseId}, but has [${found}]`,
    );
    expect(
      world,
      world.platform.proxy.demandOf(appId).waiting === 0,
      `a call of ${appId} waits at rest`,
    );
  }
  checkLimitAtRest(world, alive.length);
  const crowded = world.crowd?.violationAtRest(world);
  expect(world, crowded === undefined, crowded ?? "");
  for (const replicaId of world.driver.started) {
    expect(world, world.rows.rows.has(replicaId), `replica ${replicaId} ran without a row`);
  }
  for (const row of world.rows.rows.values()) {
    const isEnded = row.stoppedAt !== null && row.stoppedAt >= row.createdAt;
    expect(world, row.state !== "stopped" || isEnded, `the row of ${row.replicaId} has no end`);
  }
  expect(world, world.driver.remains() === 0, "records of ended replicas were not forgotten");
}

/**
 * Replicas that start or serve are within the project's limit, but for a moment, and for those that
 * start.
 */
function checkLimit(world: Observed): void {
  const { replicasMax } = world;
  if (replicasMax === null) return;
  const releases = new Set(world.routes.map(({ live }) => live?.releaseId));
  const live = [...world.rows.rows.values()].filter(({ releaseId }) => releases.has(releaseId));
  const starting = live.filter(({ state }) => state === "starting").length;
  const ready = live.filter(({ state }) => state === "ready").length;
  const beyondMs = world.beyondMs(ready > 0 && starting + ready > replicasMax);
  const what = `${starting} replicas start and ${ready} serve for ${beyondMs} ms, where ${replicasMax} may`;
  expect(world, beyondMs <= beyondMsMax, what);
}

/** As many as may be; and where minimums leave a place, whoever waited for one has had it. */
function checkLimitAtRest(world: Observed, alive: number): void {
  const { replicasMax, routes, platform } = world;
  if (replicasMax === null) return;
  const min = routes.reduce((sum, { live }) => sum + (live?.settings.minReplicaCount ?? 0), 0);
  expect(
    world,
    alive === Math.min(min, replicasMax),
    `${alive} replicas at rest of ${min}, where ${replicasMax} may`,
  );
  if (min >= replicasMax) return;
  const waiting = routes.find(({ appId }) => platform.proxy.demandOf(appId).waiting > 0);
  expect(
    world,
    waiting === undefined,
    `a call of ${waiting?.appId} waits at rest although there is a place`,
  );
}

/**
 * Replicas that start or serve never exceed the maximum of their release, but for a quarter, at
 * least one, while those from before a restart of the app are replaced; those being drained do not
 * count.
 */
function checkCounts(world: Observed): void {
  const restarts = new Map(world.routes.map((route) => [route.appId, route.restarts ?? 0]));
  const counts = new Map<string, { all: number; outdated: number }>();
  for (const row of world.rows.rows.values()) {
    if (row.state !== "starting" && row.state !== "ready") continue;
    const count = counts.get(row.releaseId) ?? { all: 0, outdated: 0 };
    count.all += 1;
    if (row.restarts < (restarts.get(row.appId) ?? 0)) count.outdated += 1;
    counts.set(row.releaseId, count);
  }
  for (const [releaseId, { all, outdated }] of counts) {
    const release = [...world.rows.releases.values()].find((one) => one.releaseId === releaseId);
    const max = release?.settings.maxReplicaCount ?? 0;
    const surge = outdated > 0 ? Math.max(1, Math.floor(max / 4)) : 0;
    expect(
      world,
      all <= max + surge,
      `${all} replicas of ${releaseId}, at most ${max + surge} allowed`,
    );
    expect(
      world,
      all - outdated <= max,
      `${all - outdated} new replicas of ${releaseId}, at most ${max} allowed`,
    );
  }
}

function expect(world: Observed, holds: boolean, what: string): void {
  if (holds) return;
  throw new Violation(
    `${what} (${(world.clock.now() - VirtualClock.beginMs) / 1000} s after the beginning)`,
  );
}

function sameMembers(left: readonly string[], right: readonly string[]): boolean {
  return left.length === right.length && left.every((one) => right.includes(one));
}
