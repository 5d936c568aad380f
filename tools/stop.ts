// `npm run stop`: ends the platform that works on the data folder (SLIPWAY_DATA_DIR), if one runs,
// then its replicas, and a database server that a killed platform has left. Says what it ended.
// Does nothing the second time. Containers are those of the installation, also if a platform with
// another data folder has taken them over.
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { chooseDriver } from "@slipway/server/src/drivers/choose-driver.ts";
import type { ReplicaEvent } from "@slipway/server/src/drivers/driver.ts";
import { keepingSink } from "@slipway/server/src/drivers/kept-ends.ts";
import { firstDriver, openDriver } from "@slipway/server/src/drivers/driver-table.ts";
import { CannotStart } from "@slipway/server/src/lib/cannot-start.ts";
import { systemClock as clock } from "@slipway/server/src/lib/clock.ts";
import type { ReplicaId } from "@slipway/server/src/lib/ids.ts";
import { Lifecycle } from "@slipway/server/src/lib/lifecycle.ts";
import { createLog } from "@slipway/server/src/lib/log.ts";
import { withDeadline } from "@slipway/server/src/lib/with-deadline.ts";
import { FolderInUse, lockFolder, type FolderLock } from "@slipway/server/src/store/folder-lock.ts";
import { clusterPaths } from "@slipway/server/src/store/postgres/postgres-cluster.ts";
import { clearOrphan, isServerOf } from "@slipway/server/src/store/postgres/postgres-orphan.ts";
import { ConfigRefused, dataPaths, readConfig, type Config } from "@slipway/server/src/config.ts";

/**
 * What a platform needs to stop beyond the time for running calls: each of its parts has its own
 * deadline.
 */
const stopMs = 120_000;
const lookEveryMs = 100;
/** A platform that has just begun writes its process id within this time. */
const unknownMs = 10_000;
/** How long replicas have to end on their own: no calls run any more. */
const graceMs = 10_000;
/** For the last lines of all, and to remove what replicas have left. */
const forgetMs = 60_000;

const log = createLog({ level: "error", pretty: process.stderr.isTTY });

/** A sentence for each thing that was ended. */
const ended: string[] = [];
try {
  const config = readConfig(process.env);
  if (existsSync(dataPaths(config.dataDir).lockFile)) await stop(config);
  if (ended.length === 0) ended.push(`Nothing of the data folder ${config.dataDir} was running.`);
} catch (error) {
  if (!(error instanceof CannotStart || error instanceof ConfigRefused)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
} finally {
  if (ended.length > 0) process.stdout.write(`${ended.join("\n")}\n`);
}

async function stop(config: Config): Promise<void> {
  const paths = dataPaths(config.dataDir);
  const lock = await endPlatform(config);
  const lifecycle = new Lifecycle({ log, clock });
  lifecycle.onClose("data folder", () => lock.release());
  try {
    await endReplicas(config, { lock, lifecycle });
  } finally {
    await endDatabase(clusterPaths(paths.postgresDir).dataFolder);
    await lifecycle.close();
  }
}

/** Holds the data folder's lock once nobody else does. */
async function endPlatform({ dataDir, drainSeconds }: Config): Promise<FolderLock> {
  const { lockFile } = dataPaths(dataDir);
  const startedMs = clock.monotonicMs();
  for (let asked: number | null = null; ;) {
    try {
      const lock = lockFolder(lockFile);
      if (asked !== null) ended.push(`The platform (process ${asked}) has stopped.`);
      return lock;
    } catch (error) {
      if (!(error instanceof FolderInUse)) throw error;
      const { pid } = error;
      const nowMs = clock.monotonicMs();
      // Another one may have taken over from the one that was asked.
      if (pid !== null && pid !== asked && holdsLock(pid, lockFile)) {
        process.kill(pid, "SIGTERM");
        asked = pid;
      } else if (asked === null && nowMs >= startedMs + unknownMs) {
        throw new CannotStart(
          `The data folder ${dataDir} is in use, but not by a platform of this machine; stop it where it runs.`,
        );
      } else if (nowMs >= startedMs + drainSeconds * 1000 + stopMs) {
        throw new CannotStart(
          `Process ${asked}, the platform of ${dataDir}, does not stop; end it, then run this again.`,
        );
      }
      await clock.sleep(lookEveryMs);
    }
  }
}

/** The kernel's list of locks; without one, the file with the process id has to do. */
function holdsLock(pid: number, lockFile: string): boolean {
  if (!existsSync("/proc/locks")) return true;
  const { ino } = statSync(lockFile);
  const locks = readFileSync("/proc/locks", "utf8").split("\n");
  return locks.some((line) => {
    const fields = line.trim().split(/\s+/);
    return fields[4] === String(pid) && fields[5]?.endsWith(`:${ino}`) === true;
  });
}

async function endReplicas(
  config: Config,
  { lock, lifecycle }: { readonly lock: FolderLock; readonly lifecycle: Lifecycle },
): Promise<void> {
  const { installationId, instanceId } = lock;
  const paths = dataPaths(config.dataDir);
  const settings = { ...config, paths };
  const name = await chooseDriver(settings, {
    log,
    usedBefore: () => Promise.resolve(firstDriver),
  });
  const { driver } = await openDriver(name, settings, {
    installationId,
    instanceId,
    lifecycle,
    log,
    clock,
  });
  const sink = keepingSink(paths.endsFile);
  await driver.open(sink);
  try {
    const own = await driver.list();
    for (const { replicaId, state, reason } of own)
      if (state === "exited") sink.event(exitOf(replicaId, reason));
    const names = own
      .flatMap(({ replicaId, state }) => (state === "exited" ? [] : [replicaId]))
      .toSorted();
    await Promise.all(names.map((replicaId) => driver.stop(replicaId, { graceMs })));
    if (names.length > 0)
      ended.push(
        `${names.length === 1 ? "1 replica" : `${names.length} replicas`} ended: ${names.join(", ")}.`,
      );
    // What cannot be removed now, the next platform removes.
    const forgotten = Promise.all(own.map(({ replicaId }) => driver.forget(replicaId)));
    await withDeadline(clock, forgetMs, forgotten).catch((error: unknown) =>
      log.error(
        { err: error },
        "replicas have ended, but not all of what they left could be removed",
      ),
    );
  } finally {
    await driver.close();
  }
}

/** The end of a replica that ended before, which the last platform may not have stored. */
function exitOf(replicaId: ReplicaId, reason: string | null): ReplicaEvent {
  return {
    kind: "exited",
    replicaId,
    at: null,
    exitCode: null,
    signal: null,
    reason: reason ?? "It ended while the platform was away.",
  };
}

async function endDatabase(dataFolder: string): Promise<void> {
  const pidFile = join(dataFolder, "postmaster.pid");
  if (!existsSync(pidFile)) return;
  const pid = Math.abs(Number.parseInt(readFileSync(pidFile, "utf8"), 10));
  const isLeft = pid > 0 && isServerOf(pid, dataFolder);
  await clearOrphan(dataFolder, { log, clock });
  if (isLeft)
    ended.push(`A database server that a killed platform had left (process ${pid}) has stopped.`);
}
