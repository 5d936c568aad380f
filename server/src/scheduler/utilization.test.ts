// What replicas use, from samples of the driver.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { ReplicaUsage } from "#drivers/driver.ts";
import type { AppId, BuildId, ProjectId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { settingsWith } from "#test/support/app-settings.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Fleet, Replica } from "./replica.ts";
import { UsageSampler } from "./usage-sampler.ts";
import { Utilization } from "./utilization.ts";

function stage(changes: Partial<AppSettings>) {
  const clock = new VirtualClock();
  const fleet = new Fleet();
  const usage = new Map<ReplicaId, ReplicaUsage>();
  let asked = 0;
  const settings = settingsWith({ cpu: 2, memory: 4, evaluationIntervalSeconds: 30, ...changes });
  const release = { releaseId: "r" as ReleaseId, buildId: "b" as BuildId, settings };
  const route = { appId: "p-0-app" as AppId, projectId: "p-0" as ProjectId, live: release };
  const driver = { usage: () => Promise.resolve((asked++, new Map(usage))) };
  const sampler = new UsageSampler({ driver, clock });
  const utilization = new Utilization({ fleet, sampler, routes: { byAppId: () => route } });
  const add = (name: string): Replica => {
    const replica = new Replica({
      replicaId: name as ReplicaId,
      release: { ...release, projectId: route.projectId, appId: route.appId },
      gpus: 0,
      beganAtMs: 0,
      createdAtMs: 0,
      seenAtMs: 0,
      restarts: 0,
      isTrial: false,
    });
    replica.becomeReady({ host: "127.0.0.1", port: 1 }, 0);
    fleet.add(replica);
    return replica;
  };
  const step = async (
    seconds: number,
    used: Readonly<Record<string, ReplicaUsage>>,
  ): Promise<void> => {
    await clock.advance(seconds * 1000);
    usage.clear();
    for (const [name, one] of Object.entries(used)) usage.set(name as ReplicaId, one);
    await utilization.measure();
  };
  return { settings, utilization, add, step, asked: () => asked };
}

const used = (cpuSeconds: number, memoryBytes = 0): ReplicaUsage => ({ cpuSeconds, memoryBytes });

test("processor time is a mean over the evaluation interval, as a share of what a replica has", async () => {
  const { settings, utilization, add, step } = stage({ scalingMetric: "cpu_utilization" });
  const replicas = [add("one"), add("two")];
  await step(5, { one: used(100), two: used(0) });
  assert.equal(utilization.of(replicas, settings), null, "one sample says nothing");
  await step(5, { one: used(110), two: used(5) });
  assert.deepEqual(utilization.of(replicas, settings), { replicas: 2, shares: 1.5 });
  for (let count = 0; count < 8; count++) await step(5, { one: used(110), two: used(5) });
  assert.deepEqual(utilization.of(replicas, settings), { replicas: 2, shares: 0 });
});

test("memory is a mean over the evaluation interval; replicas that cannot be measured count as the others do", async () => {
  const { settings, utilization, add, step } = stage({ scalingMetric: "memory_utilization" });
  const replicas = [add("one"), add("two")];
  for (let count = 0; count < 6; count++) await step(5, { one: used(0, 3e9) });
  assert.deepEqual(utilization.of(replicas, settings), { replicas: 2, shares: 1.5 });
  for (let count = 0; count < 3; count++) await step(5, { one: used(0, 1e9), two: used(0, 1e9) });
  assert.deepEqual(
    utilization.of(replicas, settings),
    { replicas: 2, shares: 1 },
    "half of it was 1.5, half is 0.5",
  );
  for (let count = 0; count < 3; count++) await step(5, { one: used(0, 1e9), two: used(0, 1e9) });
  assert.deepEqual(utilization.of(replicas, settings), { replicas: 2, shares: 0.5 });
});

test("a replica more shares the usage, and the mean of all stays what it was", async () => {
  const { settings, utilization, add, step } = stage({ scalingMetric: "cpu_utilization" });
  const replicas = [add("one")];
  await step(5, { one: used(0) });
  for (let count = 1; count <= 6; count++) await step(5, { one: used(10 * count) });
  assert.deepEqual(utilization.of(replicas, settings), { replicas: 1, shares: 1 });
  replicas.push(add("two"));
  for (let count = 1; count <= 6; count++) {
    await step(5, { one: used(60 + 5 * count), two: used(5 * count) });
    assert.deepEqual(utilization.of(replicas, settings), { replicas: 2, shares: 1 });
  }
});

test("what a replica used until it was ready is no load", async () => {
  const { settings, utilization, add, step } = stage({ scalingMetric: "cpu_utilization" });
  const replicas = [add("one")];
  await step(5, { one: used(0), two: used(0) });
  await step(5, { one: used(10), two: used(40) });
  replicas.push(add("two"));
  await step(5, { one: used(20), two: used(80) });
  assert.deepEqual(utilization.of(replicas, settings), { replicas: 2, shares: 1.5 });
});

test("where no app scales by it, nothing is measured", async () => {
  const { settings, utilization, add, step, asked } = stage({
    scalingMetric: "concurrency_utilization",
  });
  const replicas = [add("one")];
  await step(5, { one: used(1) });
  assert.deepEqual([asked(), utilization.of(replicas, settings)], [0, null]);
});
