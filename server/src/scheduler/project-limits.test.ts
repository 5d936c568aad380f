// Which part of a plan the limits of a project allow: exchanges of replicas with different GPUs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { withDefaults } from "#apps/settings.ts";
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { planExchange, type PlannedReplica } from "./plan.ts";
import { ProjectLimits, type ProjectLimitsParts } from "./project-limits.ts";
import { Fleet, Replica } from "./replica.ts";

const projectId = "p-00000000" as ProjectId;
const appId = "p-00000000-app" as AppId;
const release = {
  projectId,
  appId,
  releaseId: "00000000-0000-7000-8000-000000000000" as ReleaseId,
  buildId: "00000000-0000-7000-8000-000000000001" as BuildId,
  settings: withDefaults({ name: "app" }),
};

/**
 * Whether replicas of an app, each with so many GPUs, may be exchanged for one with a GPU, in a
 * project that may have one GPU. The last is the one that an exchange drains.
 */
function mayExchange(gpus: readonly number[]): boolean {
  const fleet = new Fleet();
  const planned = gpus.map((ofOne, index): PlannedReplica => {
    const replicaId = `r-${index}` as ReplicaId;
    const began = { beganAtMs: index, createdAtMs: index, seenAtMs: index };
    const facts = { replicaId, release, gpus: ofOne, restarts: 0, isTrial: false, ...began };
    fleet.add(new Replica({ ...facts, state: "ready" }));
    const running = gpus.length - index;
    const isReady = { state: "ready", readyAtMs: 0, isOutdated: true, isRouted: true } as const;
    return { ...isReady, replicaId, running };
  });
  const limits = new ProjectLimits({
    fleet,
    allowance: { limitsOf: () => ({ name: "The plan", replicasMax: null, gpusMax: 1 }) },
    occupancy: { running: () => 1 },
    clock: new VirtualClock(),
  } as unknown as ProjectLimitsParts);
  const wanted = { starts: 1, drains: [], gpusEach: 1, exchange: planExchange(planned) };
  const app = { appId, projectId, live: release, isWaiting: false };
  return limits.within(wanted, app).exchange !== null;
}

test("an exchange is allowed if the replica that it drains frees what the other one needs", () => {
  assert.equal(mayExchange([1]), true);
  assert.equal(mayExchange([0, 1]), true, "the oldest replica has no GPU");
  assert.equal(mayExchange([1, 0]), false, "the one that is drained has no GPU");
  assert.equal(mayExchange([]), false);
});
