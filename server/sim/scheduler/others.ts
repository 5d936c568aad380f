// What belongs to another platform: a row whose replica runs elsewhere.
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import type { StoredRelease } from "#scheduler/replica-rows.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import type { FakeDriver } from "#test/support/fake-driver.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import type { MemoryRow, MemoryRows } from "./memory-rows.ts";

const elsewhere = "elsewhere" as ReplicaId;

/** Adds it. */
export function addOthers({
  rows,
  driver,
}: {
  readonly rows: MemoryRows;
  readonly driver: FakeDriver;
}): void {
  const ids = {
    projectId: "p-0000000f" as ProjectId,
    appId: "p-0000000f-other" as AppId,
    releaseId: "release-of-another" as ReleaseId,
    buildId: "build-of-another" as BuildId,
  };
  const release: StoredRelease = {
    ...ids,
    settings: settingsWith({ minReplicaCount: 1 }),
    artifact: { kind: "fake" },
  };
  const at = VirtualClock.beginMs;
  const row: MemoryRow = {
    ...ids,
    replicaId: elsewhere,
    backend: { instanceId: "another", name: driver.name },
    isTrial: false,
    compute: "CPU",
    computeTier: "interruptible",
    gpuCount: 0,
    cpuCores: 1,
    memoryGb: 1,
    provider: null,
    region: null,
    restarts: 0,
    address: null,
    reason: null,
    state: "ready",
    createdAt: at,
    startedAt: at,
    readyAt: at,
    lastKnownAt: at,
    drainingAt: null,
    stoppedAt: null,
    endOrder: null,
    graceEndsAt: null,
  };
  rows.releases.set(ids.releaseId, release);
  rows.rows.set(elsewhere, row);
}

/** What was done to it that is nobody's business; undefined when nothing was. */
export function harmDone({ rows }: { readonly rows: MemoryRows }): string | undefined {
  return rows.rows.get(elsewhere)?.state === "ready"
    ? undefined
    : "the row of another platform's replica was changed";
}
