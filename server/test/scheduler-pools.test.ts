// The scheduler where pools are full: replicas wait and say why, get what becomes free at once and
// in turn, and the row of each says where it ran.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CardPool } from "#drivers/pools/cards.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { goodStart, openStage } from "./scheduler-stage.ts";

const gpu = {
  compute: ["ADA_L4"],
  gpuCount: 1,
  cooldownPeriodSeconds: 0,
  maxReplicaCount: 4,
  replicaConcurrency: 1,
} as const;

function pool(given: Partial<CardPool> & { readonly cards?: number }): CardPool {
  const { cards = 0, ...rest } = given;
  const gpus = Array.from({ length: cards }, (_, index) => ({
    id: `GPU-${index}`,
    compute: "ADA_L4",
    memoryGb: 24,
    isUsable: true,
  }));
  return {
    name: "rack",
    provider: null,
    region: null,
    tier: "protected",
    takesCpu: true,
    cores: 64,
    memoryGb: 256,
    overcommit: 1,
    gpus,
    ...rest,
  };
}

test("a replica waits while another app has the only GPU, says so, and starts when that has ended", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 1, provider: "local", region: "eu-1" })]);
  const { proxy, scheduler } = await stage.openProcess(t);
  const other = await stage.addApp("other");
  stage.promote(await stage.addRelease(gpu));
  stage.promote(await stage.addRelease({ ...gpu, region: "global" }, other));
  proxy.call(stage.appId, 5_000);
  await stage.reach("the first has it", () => proxy.demandOf(stage.appId).running === 1);
  proxy.call(other, 10);
  await stage.clock.advance(3_000);
  assert.equal(stage.driver.running().length, 1);
  assert.match(
    scheduler.waitReason(other) ?? "",
    /^All of the platform's ADA_L4 with region global is in use; a replica starts/,
  );
  await stage.reach(
    "the first has ended",
    () => stage.driver.running()[0]?.spec.appId !== stage.appId,
  );
  await stage.reach("the other runs", () => stage.driver.running()[0]?.spec.appId === other);
  await stage.reach("the call is served", () => proxy.outcomes.served === 2);
  const rows = await stage.rows();
  assert.deepEqual(
    rows.map(({ provider, region, gpu_count }) => [provider, region, gpu_count]),
    [
      ["local", "eu-1", 1],
      ["local", "eu-1", 1],
    ],
  );
});

test("of the types in compute the first with something free is taken, in their order", async (t) => {
  const other = { id: "GPU-other", compute: "AMPERE_A10", memoryGb: 24, isUsable: true };
  const stage = await openStage(
    t,
    [],
    [pool({ cards: 1 }), pool({ name: "second rack", gpus: [other] })],
  );
  const { proxy } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ ...gpu, compute: ["ADA_L4", "AMPERE_A10"] }));
  proxy.call(stage.appId, 3_000);
  await stage.reach("the first runs", () => proxy.demandOf(stage.appId).running === 1);
  proxy.call(stage.appId, 3_000);
  await stage.reach("the second runs", () => proxy.demandOf(stage.appId).running === 2);
  assert.deepEqual(
    (await stage.rows()).map(({ compute }) => compute),
    ["ADA_L4", "AMPERE_A10"],
  );
  assert.deepEqual(
    stage.driver.running().map(({ claim }) => claim.gpus),
    [["GPU-0"], ["GPU-other"]],
  );
  const turned = await stage.addApp("turned");
  stage.promote(await stage.addRelease({ ...gpu, compute: ["AMPERE_A10", "ADA_L4"] }, turned));
  await stage.reach("both cards are free again", () => stage.driver.running().length === 0);
  proxy.call(turned, 10);
  await stage.reach("it runs", () => stage.driver.running().length === 1);
  assert.equal(
    stage.driver.running()[0]?.spec.compute,
    "AMPERE_A10",
    "the order decides, not the pools'",
  );
});

test("starts of one turn share what there is, whichever app they are of, and never a card", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 3 })]);
  const { proxy } = await stage.openProcess(t);
  const other = await stage.addApp("other");
  stage.promote(await stage.addRelease(gpu));
  stage.promote(await stage.addRelease(gpu, other));
  for (let count = 0; count < 4; count++) {
    proxy.call(stage.appId, 3_000);
    proxy.call(other, 3_000);
  }
  await stage.reach(
    "three serve",
    () => proxy.demandOf(stage.appId).running + proxy.demandOf(other).running === 3,
  );
  await stage.clock.advance(2_000);
  assert.equal(stage.driver.running().length, 3);
  const cards = stage.driver.running().flatMap(({ claim }) => claim.gpus);
  assert.deepEqual(cards.toSorted(), ["GPU-0", "GPU-1", "GPU-2"]);
  await stage.reach("all calls are served in the end", () => proxy.outcomes.served === 8);
});

test("an app that needs several cards gets them although others that need one keep coming", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 2 })]);
  const { proxy } = await stage.openProcess(t);
  const many = await stage.addApp("many");
  stage.promote(await stage.addRelease(gpu));
  stage.promote(await stage.addRelease({ ...gpu, gpuCount: 2 }, many));
  proxy.call(stage.appId, 4_000);
  proxy.call(stage.appId, 6_000);
  await stage.reach("both cards are in use", () => proxy.demandOf(stage.appId).running === 2);
  proxy.call(many, 1_000);
  await stage.clock.advance(100);
  // Each of these would take the card that the ones before have just given back.
  for (let count = 0; count < 6; count++) proxy.call(stage.appId, 4_000);
  await stage.reach("the app with two runs", () => proxy.demandOf(many).running === 1);
  await stage.reach("all calls are served in the end", () => proxy.outcomes.served === 9);
});

test("a crash gives back the card, and a platform that starts again knows who has which", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 2 })]);
  const first = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ ...gpu, minReplicaCount: 2, maxReplicaCount: 2 }));
  await stage.reach("both cards are in use", () => stage.driver.running().length === 2);
  await stage.closeProcess(first.scheduler);
  await stage.openProcess(t);
  assert.deepEqual(
    stage.driver.pools.free.map(({ gpus }) => [...gpus]),
    [[["ADA_L4", 0]]],
  );
  const [crashed] = stage.driver.running();
  assert.ok(crashed);
  stage.driver.crash(crashed.spec.replicaId);
  await stage.reach("it was replaced", () => stage.driver.running().length === 2);
  const cards = stage.driver.running().flatMap(({ claim }) => claim.gpus);
  assert.deepEqual(cards.toSorted(), ["GPU-0", "GPU-1"]);
});

test("a restart of an app that has all there is ends one replica after the other, each for its replacement", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 2 })]);
  const { scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ ...gpu, minReplicaCount: 2, maxReplicaCount: 2 }));
  await stage.reach("both serve", async () => (await stage.states())["ready"] === 2);
  stage.restart();
  await stage.reach("both were replaced", async () => {
    const rows = await stage.rows();
    return (
      rows.length === 4 &&
      rows.filter(({ state, restarts }) => state === "ready" && restarts === 1).length === 2
    );
  });
  assert.equal(scheduler.waitReason(stage.appId), undefined);
});

test("a protected replica takes the place of an interruptible one, which finishes its call first and says why it ended", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 2 })]);
  const { proxy, scheduler } = await stage.openProcess(t);
  const other = await stage.addApp("other");
  stage.promote(
    await stage.addRelease({ ...gpu, minReplicaCount: 2, responseGracePeriodSeconds: 600 }),
  );
  stage.promote(await stage.addRelease({ ...gpu, computeTier: "protected" }, other));
  proxy.call(stage.appId, 5_000);
  await stage.reach("both cards are in use", async () => (await stage.states())["ready"] === 2);
  const idle = stage.driver.running().find(({ spec }) => proxy.running(spec.replicaId) === 0);
  proxy.call(other, 20_000);
  await stage.reach("the protected one runs", () => proxy.demandOf(other).running === 1);
  assert.equal(proxy.demandOf(stage.appId).running, 1, "the one with a call was left alone");
  const [reclaimed] = (await stage.rows()).filter(({ state }) => state === "stopped");
  assert.equal(reclaimed?.id, idle?.spec.replicaId);
  assert.match(
    reclaimed?.reason ?? "",
    /^A protected replica of another app took its place, .*computeTier is interruptible/,
  );
  await stage.reach("the app's log has it", () =>
    stage.lines.some(({ text }) => /A protected replica of another app/.test(text)),
  );
  assert.ok(scheduler.isReclaimed(reclaimed?.id as ReplicaId));

  proxy.call(other, 20_000);
  await stage.reach("the second one runs", () => proxy.demandOf(other).running === 2);
  assert.equal(proxy.outcomes.served, 1, "the call was finished first");
  await stage.clock.advance(5_000);
  assert.match(scheduler.waitReason(stage.appId) ?? "", /ADA_L4 is in use/);
  assert.equal((await stage.rows()).length, 4, "nothing starts only to be ended again");
  await stage.reach("there is room for the others again", async () => {
    const rows = await stage.rows();
    return (
      rows.filter(({ state, app_id: appId }) => state === "ready" && appId === stage.appId)
        .length === 2
    );
  });
  assert.equal(proxy.outcomes.served, 3);
});

test("a protected replica waits for protected ones, and for machines that cannot disappear", async (t) => {
  const stage = await openStage(
    t,
    [],
    [pool({ cards: 1 }), pool({ name: "spot", cores: 1, tier: "interruptible" })],
  );
  const { proxy } = await stage.openProcess(t);
  const other = await stage.addApp("other");
  stage.promote(await stage.addRelease({ ...gpu, computeTier: "protected" }));
  stage.promote(await stage.addRelease({ ...gpu, computeTier: "protected" }, other));
  proxy.call(stage.appId, 3_000);
  await stage.reach("the first has the card", () => proxy.demandOf(stage.appId).running === 1);
  proxy.call(other, 10);
  await stage.clock.advance(2_000);
  assert.equal(proxy.demandOf(other).waiting, 1);
  await stage.reach("both are served", () => proxy.outcomes.served === 2);
});

test("a replica that waits names what is truly lacking: cards that answer, memory, or a tier", async (t) => {
  const rack = pool({ cards: 1, memoryGb: 8 });
  const [card] = rack.gpus;
  assert.ok(card);
  const stage = await openStage(t, [], [{ ...rack, gpus: [{ ...card, isUsable: false }] }]);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.promote(await stage.addRelease({ ...gpu, memory: 6, computeTier: "protected" }));
  proxy.call(stage.appId, 10);
  const reason = (): string => scheduler.waitReason(stage.appId) ?? "";
  await stage.reach("nobody has the card, which does not answer", () =>
    reason().startsWith(
      "None of the platform's ADA_L4 answers; a replica starts when one does. The operator has to",
    ),
  );
  const other = await stage.addApp("other");
  stage.promote(
    await stage.addRelease(
      { memory: 4, cooldownPeriodSeconds: 0, computeTier: "protected" },
      other,
    ),
  );
  proxy.call(other, 60_000);
  await stage.reach("the other one runs", () => proxy.demandOf(other).running === 1);
  stage.driver.placement.setPools([rack]);
  await stage.reach("the card is free, but too little memory", () =>
    reason().startsWith(
      "A replica needs 6 GB of memory, of which only 4 are free where ADA_L4 is free; it starts",
    ),
  );
  const spot = pool({ name: "spot", tier: "interruptible" });
  stage.driver.placement.keep("busy" as ReplicaId, {
    pool: "busy",
    compute: "ADA_L4",
    tier: "protected",
    cpuCores: 1,
    memoryGb: 1,
    gpus: [card.id],
  });
  stage.driver.placement.setPools([
    { ...rack, gpus: [] },
    { ...rack, name: "busy" },
    { ...spot, gpus: [{ ...card, id: "GPU-spot" }] },
  ]);
  await stage.reach(
    "a card is free for others",
    () =>
      reason() ===
      "All of the platform's ADA_L4 with computeTier protected is in use; a replica starts when some is free again. Without computeTier protected one could start now (PATCH …/apps/{app}).",
  );
  stage.driver.placement.release("busy" as ReplicaId);
  await stage.reach("it starts", () => proxy.demandOf(stage.appId).waiting === 0);
});

test("while fewer replicas run than are wanted, the app says why, also while some serve and no call waits", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 1 })]);
  const { proxy, scheduler } = await stage.openProcess(t);
  stage.scripts = [{ ...goodStart, readyMs: 20_000 }];
  stage.promote(await stage.addRelease({ ...gpu, minReplicaCount: 3 }));
  const full = "All of the platform's ADA_L4 is in use; a replica starts when some is free again.";
  const says = (reason: string | undefined): boolean =>
    scheduler.waitReason(stage.appId) === reason;
  await stage.reach("one starts", () =>
    says(`A replica is starting. More replicas are wanted. ${full}`),
  );
  await stage.reach("one serves", () => says(`More replicas are wanted. ${full}`));
  assert.equal(proxy.demandOf(stage.appId).waiting, 0);
  stage.driver.placement.setPools([pool({ cards: 3 })]);
  await stage.reach("all run", async () => (await stage.states())["ready"] === 3);
  await stage.reach("nothing is said", () => says(undefined));
});

test("an app whose build waits for capacity says so, whether it has a release or not", async (t) => {
  const stage = await openStage(t, [], [pool({ cards: 1 })]);
  const { proxy, scheduler } = await stage.openProcess(t);
  const other = await stage.addApp("other");
  stage.promote(await stage.addRelease(gpu));
  proxy.call(stage.appId, 60_000);
  await stage.reach("the card is in use", () => proxy.demandOf(stage.appId).running === 1);
  const options = { signal: t.signal, deadlineMs: 60_000, onLine: () => undefined };
  const reason =
    "All of the platform's ADA_L4 is in use; a replica starts when some is free again.";
  assert.equal(scheduler.buildWaitReason(other), undefined);
  for (const appId of [other, stage.appId]) {
    const outcome = await scheduler.tryRelease(await stage.addRelease(gpu, appId), options);
    assert.deepEqual(outcome, { ok: false, kind: "no_capacity", reason });
    assert.equal(scheduler.waitReason(appId), undefined);
    assert.equal(
      scheduler.buildWaitReason(appId),
      `A build is finished, and its replica waits. ${reason}`,
    );
  }
  await stage.clock.advance(20_000);
  assert.equal(
    scheduler.buildWaitReason(other),
    undefined,
    "nobody has said for long that it waits",
  );
});
