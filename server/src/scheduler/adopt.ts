// Compares the platform's replicas with those of the driver: at the start of the platform, and
// periodically for missed events. Adopts running replicas unchanged, records the end of exited
// ones, and stops unknown ones that carry the label of this installation. Leaves alone replicas of
// other installations, and rows whose replicas this platform cannot see.
import type { Driver, OwnedReplica, ReplicaSink } from "#drivers/driver.ts";
import { deliverKept } from "#drivers/kept-ends.ts";
import type { Clock } from "#lib/clock.ts";
import type { Foundation } from "#store/foundation.ts";
import { Replica, type Fleet } from "./replica.ts";
import type { ReplicaDrain } from "./replica-drain.ts";
import type { ReplicaRemoval } from "./replica-removal.ts";
import type { AliveRow, Backend, ReplicaRows } from "./replica-rows.ts";
import type { ReplicaWatch } from "./replica-watch.ts";
import type { RowWriter } from "./row-writer.ts";

export type AdoptParts = Pick<Foundation, "clock" | "log"> & {
  readonly driver: Driver;
  readonly backend: Backend;
  readonly rows: ReplicaRows;
  readonly writer: RowWriter;
  readonly fleet: Fleet;
  readonly watch: ReplicaWatch;
  readonly drain: ReplicaDrain;
  readonly removal: ReplicaRemoval;
  /**
   * The file with the ends and the last lines of replicas that ended while no platform ran; null:
   * there is none.
   */
  readonly endsFile: string | null;
};

/**
 * Smaller clock steps are not noticed: a process starts a little before its usage does, so the
 * durations of both always differ by a few seconds.
 */
const awayStepMsMin = 60_000;

/**
 * Opens the driver and adopts its replicas. Rejects when the database or the driver does not
 * answer.
 */
export async function adoptReplicas(parts: AdoptParts, sink: ReplicaSink): Promise<void> {
  const { clock, driver, fleet, log } = parts;
  const rows = await parts.rows.alive(parts.backend);
  // Replicas are registered before the driver is opened, so that none of their events and lines is
  // lost.
  for (const row of rows) {
    const { appId, replicaId, unreadable } = row;
    if (unreadable !== undefined)
      log.error({ appId, replicaId, reason: unreadable }, "a replica has no settings");
    fleet.add(replicaOf(row, clock));
  }
  await driver.open(sink);
  if (parts.endsFile !== null) await deliverKept(parts.endsFile, sink, parts);
  const listed = new Map((await driver.list()).map((owned) => [owned.replicaId, owned]));
  for (const row of rows) adoptReplica(parts, row, listed.get(row.replicaId));
  const known = new Set(rows.map((row) => row.replicaId));
  const unknown = [...listed.values()].filter((owned) => !known.has(owned.replicaId));
  for (const owned of unknown) void clearUnknown(parts, owned);
  if (rows.length + unknown.length > 0) {
    log.info(
      { adopted: fleet.all().length, rows: rows.length, unknown: unknown.length },
      "replicas taken over",
    );
  }
  const others = await parts.rows.countOthers(parts.backend);
  if (others > 0) {
    log.warn(
      { replicas: others },
      "the database has replicas of other data folders or of another driver, which this platform leaves alone: they end when a platform with that data folder and driver starts (the table instances lists the folders)",
    );
  }
}

/**
 * Finds replicas that are gone or unknown although no event said so. Rejects when the driver does
 * not answer.
 */
export async function compareReplicas(parts: AdoptParts): Promise<void> {
  const { clock, driver, fleet, removal } = parts;
  // Chosen before the driver lists its replicas: one that is created meanwhile may not be listed.
  const created = fleet.all().filter((replica) => !replica.isCreating);
  const listed = await driver.list();
  const listedIds = new Set(listed.map(({ replicaId }) => replicaId));
  for (const replica of created) {
    if (listedIds.has(replica.replicaId)) continue;
    removal.remove(replica, {
      reason: "It is gone, and its end was not observed.",
      exitCode: null,
      at: clock.now(),
    });
  }
  // The end of an exited replica is recorded already or will be soon, and the driver then forgets
  // it.
  const unknown = listed.filter(
    ({ replicaId, state }) => state !== "exited" && fleet.get(replicaId) === undefined,
  );
  await Promise.all(unknown.map((owned) => clearUnknown(parts, owned)));
}

/**
 * Creates the replica from its row; `beganAtMs` preserves its deadline. A draining replica keeps
 * the reason for which it ends.
 */
function replicaOf(row: AliveRow, clock: Clock): Replica {
  const {
    replicaId,
    projectId,
    appId,
    releaseId,
    buildId,
    settings,
    gpus,
    restarts,
    isTrial,
    state,
  } = row;
  const replica = new Replica({
    replicaId,
    gpus,
    restarts,
    isTrial,
    state,
    release: { projectId, appId, releaseId, buildId, settings },
    beganAtMs: clock.monotonicMs() - (clock.now() - row.createdAt),
    createdAtMs: row.createdAt,
    seenAtMs: row.lastKnownAt,
  });
  if (state === "draining") takeStoredOrder(replica, row);
  return replica;
}

/**
 * Makes the replica follow the stored order to end. The grace period neither begins anew nor ends
 * early because the platform was away.
 */
function takeStoredOrder(replica: Replica, row: AliveRow): void {
  const drainingAt = row.drainingAt ?? row.lastKnownAt;
  const graceEndsAt =
    row.graceEndsAt ?? drainingAt + row.settings.responseGracePeriodSeconds * 1000;
  // Rows of earlier versions have no order.
  const order = row.endOrder ?? { reason: "It was being stopped.", kind: "wanted" };
  // A replica that was never ready works on no calls.
  const mayFinish = row.readyAt !== null && order.kind !== "stuck";
  replica.takeOrder(order, {
    // The time at which it began to drain, on the replica's own clock.
    nowMs: replica.beganAtMs + (drainingAt - row.createdAt),
    graceMs: graceEndsAt - drainingAt,
    mayFinish,
  });
}

/**
 * Continues with a replica where its state is; `owned` is what the driver lists of it. Undefined:
 * the driver does not list it.
 */
function adoptReplica(parts: AdoptParts, row: AliveRow, owned: OwnedReplica | undefined): void {
  const { clock, drain, fleet, removal, watch } = parts;
  const replica = fleet.get(row.replicaId);
  // An event since the driver was opened has already recorded its end.
  if (replica === undefined) return;
  if (owned === undefined) {
    // The time of its exit is unknown, so usage counts up to the last moment when it surely ran.
    const reason = "It ended while the platform was away.";
    // It may have been killed with the platform before the driver had started it.
    const isExternal = row.startedAt === null;
    removal.remove(replica, { reason, exitCode: null, at: row.lastKnownAt, isExternal });
    return;
  }
  if (owned.state === "exited") {
    removal.remove(replica, {
      reason: owned.reason ?? "It ended while the platform was away.",
      exitCode: null,
      at: row.lastKnownAt,
    });
    return;
  }
  correctTimes(parts, replica, { row, owned });
  const nowMs = clock.monotonicMs();
  // The replica started just when the platform ended, or while the platform was away.
  if (row.startedAt === null && owned.address !== null) {
    void parts.writer.change(row.replicaId, {
      kind: "started",
      at: replica.timeAt(nowMs),
      address: owned.address,
    });
  }
  const address = owned.address ?? row.address;
  if (replica.state === "draining") {
    // The order is taken again, since `correctTimes` may have moved the replica's times. The plain
    // calls ended with the previous process of the platform, but async runs may still be running.
    takeStoredOrder(replica, row);
    drain.endWhenIdle(replica);
    return;
  }
  // A replica that an event has made ready since the driver was opened already has `ready`.
  if (replica.state === "ready" && address !== null && replica.ready === null) {
    replica.isPending = false;
    replica.adoptReady(address, readyAtMs(replica, row, nowMs));
    watch.checkHealth(replica, address);
    return;
  }
  if (replica.state !== "starting") return;
  if (owned.address === null) {
    watch.awaitRunning(replica);
    return;
  }
  const ranMs = row.startedAt === null ? 0 : replica.timeAt(nowMs) - row.startedAt;
  const remainingMs = Math.max(0, replica.deadlineMs - ranMs);
  watch.awaitReady(replica, owned.address, remainingMs);
}

/** When the replica became ready, so that a cooldown that began then goes on. */
function readyAtMs(replica: Replica, row: AliveRow, nowMs: number): number {
  const readyAt = row.readyAt ?? row.createdAt;
  return Math.min(nowMs, replica.beganAtMs + (readyAt - row.createdAt));
}

/**
 * Corrects the replica's times if the clock stepped while the platform was away. The running time
 * of a process, as the machine counts it, does not depend on the clock.
 */
function correctTimes(
  { clock, log }: AdoptParts,
  replica: Replica,
  { row, owned }: { readonly row: AliveRow; readonly owned: OwnedReplica },
): void {
  if (row.startedAt === null || owned.ranMs === undefined) return;
  const nowMs = clock.monotonicMs();
  const aheadMs = replica.timeAt(nowMs) - (row.startedAt + owned.ranMs);
  if (Math.abs(aheadMs) <= awayStepMsMin) return;
  log.warn(
    { replicaId: replica.replicaId, seconds: Math.round(aheadMs / 1000) },
    "the machine's clock stepped while the platform was away; the replica's usage is counted by how long its process has run",
  );
  replica.beganAtMs += aheadMs;
}

/**
 * Stops a replica without a row. Rows are written before replicas exist, so the replica belongs to
 * another database, or this database was restored from an older backup.
 */
async function clearUnknown(
  { driver, log, removal, rows }: AdoptParts,
  owned: OwnedReplica,
): Promise<void> {
  if (owned.state !== "exited") {
    log.warn(
      { replicaId: owned.replicaId, appId: owned.appId },
      "stopping a replica that no row tells of",
    );
  }
  try {
    await driver.stop(owned.replicaId, { graceMs: 0 });
  } catch (error) {
    log.error({ err: error, replicaId: owned.replicaId }, "could not stop an unknown replica");
    return;
  }
  // Perhaps the row ended just before the platform did, and some lines of the replica are not
  // stored yet. Without its release nobody knows to which app they belong.
  const release = await rows.release(owned.releaseId).catch(() => undefined);
  await removal.forget(owned.replicaId, release);
}
