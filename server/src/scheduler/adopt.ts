// Compares the platform's replicas with those of the driver: at the start of the platform, and
// periodically for missed events. Adopts running replicas unchanged, records the end of exited
// ones, and stops unknown ones that carry the label of this installation. Leaves replicas of other
// installations alone, and rows whose replicas this platform cannot see.
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
   * The ends and the last lines of replicas that ended while no platform ran; null: nobody keeps
   * them.
   */
  readonly endsFile: string | null;
};

/**
 * Only larger clock steps are detectable: the process starts a little before usage does, so its
 * running time differs by a few seconds.
 */
const awayStepMsMin = 60_000;

/**
 * Opens the driver and adopts its replicas. Rejects when the database or the driver does not
 * answer.
 */
export async function adoptReplicas(parts: AdoptParts, sink: ReplicaSink): Promise<void> {
  const { clock, driver, fleet, log } = parts;
  const rows = await parts.rows.alive(parts.backend);
  // Register them before the driver is opened, so that none of their events and lines is lost.
  for (const row of rows) {
    const { appId, replicaId, unreadable } = row;
    if (unreadable !== undefined)
      log.error({ appId, replicaId, reason: unreadable }, "a replica has no settings");
    fleet.add(replicaOf(row, clock));
  }
  await driver.open(sink);
  if (parts.endsFile !== null) await deliverKept(parts.endsFile, sink, parts);
  const owned = new Map((await driver.list()).map((one) => [one.replicaId, one]));
  for (const row of rows) adoptOne(parts, row, owned.get(row.replicaId));
  const known = new Set(rows.map((row) => row.replicaId));
  const unknown = [...owned.values()].filter((one) => !known.has(one.replicaId));
  for (const one of unknown) void clearUnknown(parts, one);
  log.info(
    { adopted: fleet.all().length, rows: rows.length, unknown: unknown.length },
    "replicas taken over",
  );
  const others = await parts.rows.countOthers(parts.backend);
  if (others > 0) {
    log.warn(
      { replicas: others },
      "replicas of other data folders, or of another driver, are left alone: their rows end when those start again (see the table instances)",
    );
  }
}

/**
 * Finds what events missed: replicas that are gone, and unknown replicas. Rejects when the driver
 * does not answer.
 */
export async function compareReplicas(parts: AdoptParts): Promise<void> {
  const { clock, driver, fleet, removal } = parts;
  const before = fleet.all().filter((replica) => !replica.isCreating);
  const owned = await driver.list();
  const listed = new Set(owned.map((one) => one.replicaId));
  for (const replica of before) {
    if (listed.has(replica.replicaId)) continue;
    removal.remove(replica, {
      reason: "It is gone, and its end was not observed.",
      exitCode: null,
      at: clock.now(),
    });
  }
  // Exited replicas are already recorded, or about to be, and forgotten after that.
  const unknown = owned.filter(
    (one) => one.state !== "exited" && fleet.get(one.replicaId) === undefined,
  );
  await Promise.all(unknown.map((one) => clearUnknown(parts, one)));
}

/**
 * Creates the replica from its row; `beganAtMs` preserves its deadline. One that drains ends for
 * the reason that it had.
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
 * Goes on with the stored end order. Its grace period neither begins anew nor ends because the
 * platform was away.
 */
function takeStoredOrder(replica: Replica, row: AliveRow): void {
  const drainingAt = row.drainingAt ?? row.lastKnownAt;
  const graceEndsAt =
    row.graceEndsAt ?? drainingAt + row.settings.responseGracePeriodSeconds * 1000;
  // Rows of earlier versions have no order.
  const order = row.endOrder ?? { reason: "It was being stopped.", kind: "wanted" };
  replica.takeOrder(order, {
    nowMs: replica.beganAtMs + (drainingAt - row.createdAt),
    graceMs: graceEndsAt - drainingAt,
    mayFinish: row.readyAt !== null && order.kind !== "stuck",
  });
}

function adoptOne(parts: AdoptParts, row: AliveRow, owned: OwnedReplica | undefined): void {
  const { clock, drain, fleet, removal, watch } = parts;
  const replica = fleet.get(row.replicaId);
  // An event since the driver was opened has already settled it.
  if (replica === undefined) return;
  if (owned === undefined) {
    // The time of exit is unknown: usage counts up to the last moment when it certainly ran.
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
  putRight(parts, replica, { row, owned });
  const nowMs = clock.monotonicMs();
  // It started just when the platform ended, or while the platform was away.
  if (row.startedAt === null && owned.address !== null) {
    void parts.writer.change(row.replicaId, {
      kind: "started",
      at: replica.timeAt(nowMs),
      address: owned.address,
    });
  }
  const address = owned.address ?? row.address;
  if (replica.state === "draining") {
    // Plain calls went through the previous process of the platform, which is gone; async runs may
    // still be at work.
    takeStoredOrder(replica, row);
    drain.endWhenIdle(replica);
    return;
  }
  if (replica.state === "ready" && address !== null && replica.ready === null) {
    replica.isPending = false;
    replica.adoptReady(address, readyAtMs(replica, row, nowMs));
    watch.checkHealth(replica, address);
    return;
  }
  if (replica.state !== "starting") return;
  if (owned.address === null) watch.awaitRunning(replica);
  else {
    const ranMs = replica.timeAt(nowMs) - (row.startedAt ?? replica.timeAt(nowMs));
    watch.awaitReady(replica, owned.address, Math.max(0, replica.deadlineMs - ranMs));
  }
}

/** Preserves a cooldown that started with its readiness. */
function readyAtMs(replica: Replica, row: AliveRow, nowMs: number): number {
  return Math.min(nowMs, replica.beganAtMs + (row.readyAt ?? row.createdAt) - row.createdAt);
}

/**
 * Corrects times after a clock step while the platform was away; the machine's count of a process's
 * running time is independent of it.
 */
function putRight(
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
 * Rows are written before replicas exist, so it belongs to another database, or this one was
 * restored from an older backup.
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
  // Its row may have ended just before the platform, which had not stored all of its lines.
  await removal.forget(owned.replicaId, await rows.release(owned.releaseId).catch(() => undefined));
}
