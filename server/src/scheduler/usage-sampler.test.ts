// One measurement of the driver for all who want to know what replicas use.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReplicaUsage } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { UsageSampler, type UsageReader } from "./usage-sampler.ts";

const one = "one" as ReplicaId;

function stage() {
  const clock = new VirtualClock();
  let asked = 0;
  let cpuSeconds = 0;
  let failure: Error | null = null;
  const usage = async (): Promise<ReadonlyMap<ReplicaId, ReplicaUsage>> => {
    asked++;
    if (failure !== null) throw failure;
    return await Promise.resolve(new Map([[one, { cpuSeconds, memoryBytes: 1 }]]));
  };
  const sampler = new UsageSampler({ driver: { usage }, clock });
  const coresOf = async (reader: UsageReader): Promise<number | null | undefined> =>
    (await reader.read()).uses.get(one)?.cpuCores;
  return {
    sampler,
    coresOf,
    asked: () => asked,
    fail: (error: Error | null) => void (failure = error),
    async step(seconds: number, used: number) {
      await clock.advance(seconds * 1000);
      cpuSeconds += used;
    },
  };
}

test("readers share a measurement of the last two seconds, also while it is taken", async () => {
  const { sampler, asked, step } = stage();
  const readers = [sampler.reader(), sampler.reader(), sampler.reader()];
  await Promise.all(readers.map((reader) => reader.read()));
  await step(1.9, 0);
  await Promise.all(readers.map((reader) => reader.read()));
  assert.equal(asked(), 1);
  await step(0.1, 0);
  await Promise.all(readers.map((reader) => reader.read()));
  assert.equal(asked(), 2);
});

test("each reader gets the mean since its own previous answer", async () => {
  const { sampler, coresOf, step } = stage();
  const often = sampler.reader();
  const seldom = sampler.reader();
  assert.deepEqual([await coresOf(often), await coresOf(seldom)], [null, null]);
  await step(4, 4);
  assert.equal(await coresOf(often), 1);
  await step(4, 12);
  assert.deepEqual([await coresOf(often), await coresOf(seldom)], [3, 2]);
  await step(1, 100);
  assert.deepEqual([await coresOf(often), await coresOf(seldom)], [3, 2], "the same answer");
});

test("a mean is not taken over longer than the reader wants", async () => {
  const { sampler, coresOf, step } = stage();
  const reader = sampler.reader(60_000);
  await coresOf(reader);
  await step(61, 61);
  assert.equal(await coresOf(reader), null);
  await step(60, 120);
  assert.equal(await coresOf(reader), 2);
});

test("a failure reaches those who wait, and the next reader asks again", async () => {
  const { sampler, asked, fail } = stage();
  const reader = sampler.reader();
  fail(new Error("the engine does not answer"));
  await assert.rejects(reader.read(), /does not answer/);
  fail(null);
  await reader.read();
  assert.equal(asked(), 2);
});
