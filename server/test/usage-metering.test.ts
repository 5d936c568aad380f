// Metering on a real database: what replicas, builds and storage cost follows from their rows
// alone, to the micro-unit, wherever time was cut, in whatever order it became known, and whenever
// metering was broken off.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { sql } from "kysely";
import { builtInPrices, type Prices } from "#billing/usage/prices.ts";
import { StatementQueries } from "#billing/statements/statement-queries.ts";
import { costOfMonth, readUsage } from "#billing/usage/usage-store.ts";
import { must } from "#lib/assert.ts";
import { newReplicaId } from "#lib/ids.ts";
import { addInstance } from "#test/support/instances.ts";
import { noteUse } from "#volumes/volume-uses-store.ts";
import { assertSums } from "./usage-exact.ts";
import { plainMicrosPerSecond, usageStage, type UsageStage } from "./usage-stage.ts";

const noon = Date.UTC(2026, 0, 10, 12);
const minute = 60_000;
const hour = 3_600_000;

/** The cost of a plain replica, rounded once. */
const plain = (ms: number): bigint => BigInt(Math.round((ms / 1000) * plainMicrosPerSecond));

/** Micro-units by day. */
async function costOfDays(stage: UsageStage): Promise<Record<string, bigint>> {
  const rows = await stage.db
    .selectFrom("usage_days")
    .select(["day", "amount_micros"])
    .orderBy("day")
    .execute();
  return Object.fromEntries(rows.map((row) => [row.day, BigInt(row.amount_micros)]));
}

async function kindsOf(stage: UsageStage): Promise<string[]> {
  const rows = await stage.db
    .selectFrom("ledger_transactions")
    .select(["kind", "period"])
    .orderBy("number")
    .execute();
  return rows.map(({ kind, period }) => `${kind} ${period ?? ""}`.trimEnd());
}

describe("a replica", () => {
  test("costs from the start of its process to its end, to the micro-unit, however often it was metered", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const replicaId = await stage.addReplica(projectId, place, noon + 123);
    const meter = stage.meter();
    for (let at = noon + 1_000; at < noon + 3 * hour; at += 7 * minute + 17) {
      stage.clock.atMs = at;
      await stage.seen(replicaId, at);
      await meter.turn();
    }
    const stopMs = noon + 3 * hour + 4_567;
    await stage.stop(replicaId, stopMs);
    await meter.turn();
    await meter.turn();
    const expected = plain(stopMs - noon - 123);
    await assertSums(stage, projectId, expected);
    assert.equal(await costOfMonth(stage.db, { projectId, month: "2026-01" }), expected);
    assert.equal(await costOfMonth(stage.db, { projectId, month: "2026-02" }), 0n);
    assert.equal(
      await costOfMonth(stage.db, { projectId, appId: place.appId, month: "2026-01" }),
      expected,
    );
    const row = await stage.db
      .selectFrom("replicas")
      .select(["is_metered", "metered_until"])
      .executeTakeFirstOrThrow();
    assert.deepEqual([row.is_metered, row.metered_until?.getTime()], [true, stopMs]);
    const { rows } = await sql<{ count: string }>`select count(*) from usage_slices`.execute(
      stage.db,
    );
    assert.equal(Number(rows[0]?.count), 4, "one slice an hour");
  });

  test("costs on each day and in each month what it ran there, and all of it together what it ran in all", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const midnight = Date.UTC(2026, 1, 1);
    const startMs = midnight - 25 * hour - 1;
    const replicaId = await stage.addReplica(projectId, place, startMs);
    await stage.stop(replicaId, midnight + 1_001);
    await stage.meter().turn();
    await assertSums(stage, projectId, plain(25 * hour + 1_002));
    const days = await costOfDays(stage);
    assert.deepEqual(Object.keys(days), ["2026-01-30", "2026-01-31", "2026-02-01"]);
    const january = plain(25 * hour + 1);
    assert.equal(days["2026-01-30"], plain(hour + 1));
    assert.equal(await costOfMonth(stage.db, { projectId, month: "2026-01" }), january);
    assert.equal(
      await costOfMonth(stage.db, { projectId, month: "2026-02" }),
      plain(25 * hour + 1_002) - january,
    );
  });

  test("that vanishes costs up to when it was last seen, and one that never began to run nothing", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const replicaId = await stage.addReplica(projectId, place, noon);
    await stage.seen(replicaId, noon + 30_000);
    stage.clock.atMs = noon + 5 * hour;
    const meter = stage.meter();
    await meter.turn();
    await assertSums(stage, projectId, plain(30_000));
    const never = newReplicaId("app");
    const backend = await addInstance(stage.db, { instanceId: "usage", name: "process" });
    await stage.rows.insert({
      replicaId: never,
      projectId,
      ...place,
      backend,
      isTrial: false,
      compute: "CPU",
      computeTier: "interruptible",
      gpuCount: 0,
      cpuCores: 1,
      memoryGb: 2,
      provider: null,
      region: null,
      createdAt: noon,
      restarts: 0,
    });
    await stage.seen(never, noon + 2 * hour);
    await stage.stop(never, noon + 3 * hour);
    await stage.stop(replicaId, noon + 30_000);
    await meter.turn();
    await assertSums(stage, projectId, plain(30_000));
  });

  test("that ended before it was last seen gets back what was too much", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    await stage.apply(projectId, { amount_cents: 1 });
    const replicaId = await stage.addReplica(projectId, place, noon);
    await stage.seen(replicaId, noon + 3 * hour);
    const meter = stage.meter();
    await meter.turn();
    await assertSums(stage, projectId, plain(3 * hour));
    await stage.stop(replicaId, noon + 90_000);
    await meter.turn();
    await assertSums(stage, projectId, plain(90_000));
    const kinds = ["coupon.grant", "usage.charge 2026-01", "coupon.draw 2026-01"];
    assert.deepEqual(await kindsOf(stage), [
      ...kinds,
      "usage.correction 2026-01",
      "coupon.draw 2026-01",
    ]);
    const { receivable } = await stage.sums(projectId);
    assert.equal(receivable, 0n, "the coupon takes off all of 990 micro-units");
  });

  test("that nobody metered for weeks is caught up with", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const replicaId = await stage.addReplica(projectId, place, noon);
    await stage.seen(replicaId, noon + 40 * 24 * hour + 17);
    stage.clock.atMs = noon + 41 * 24 * hour;
    await stage.meter().turn();
    await assertSums(stage, projectId, plain(40 * 24 * hour + 17));
  });

  test("costs what its compute type, tier and pool cost when it ran; time that was counted keeps its price", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const [builtIn] = builtInPrices;
    const prices: Prices = [
      {
        ...builtIn,
        pools: [
          { provider: "aws", region: "eu-1", compute: new Map([["HOPPER_H100", 1_000_000n]]) },
        ],
      },
      { ...builtIn, validFromMs: noon + hour, core: 100_000n },
    ];
    const wish = {
      compute: "HOPPER_H100",
      computeTier: "protected",
      gpuCount: 2,
      provider: "aws",
      region: "eu-1",
    } as const;
    const replicaId = await stage.addReplica(projectId, place, noon, wish);
    await stage.seen(replicaId, noon + 60_000);
    await stage.meter({ prices }).turn();
    // (2 × 1000 + 6.55 + 2 × 2.22) × 2 = 4021.98 micro-units per second.
    await assertSums(stage, projectId, 241_319n);
    // The prices of this hour are changed, but its slice is there.
    await stage.stop(replicaId, noon + hour + 10_000);
    await stage
      .meter({ prices: [{ ...builtIn, core: 0n }, must(prices[1], "a second version")] })
      .turn();
    // 3600 × 4021.98, and from then on 10 × (2 × 944 + 100 + 4.44) × 2.
    await assertSums(stage, projectId, 14_479_128n + 39_849n);
  });
});

describe("a build", () => {
  test("costs the time in which it made an environment, at the price of its cores and memory; each is counted", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const began = noon - 20_000;
    await stage.addBuild(projectId, place, {
      number: 2,
      startedMs: began,
      environment: [noon, noon + 61_500],
    });
    await stage.addBuild(projectId, place, { number: 3, startedMs: began });
    const meter = stage.meter();
    await meter.turn();
    await meter.turn();
    // 61.5 s of 2 cores and 4.5 GB: 2 × 6.55 + 4.5 × 2.22 = 23.09 micro-units per second.
    await assertSums(stage, projectId, 1_420n);
    const row = await stage.db.selectFrom("usage_days").selectAll().executeTakeFirstOrThrow();
    assert.deepEqual([row.kind, row.builds, row.ms, row.gpu_ms], ["build", 2, 61_500, 0]);
    assert.deepEqual([Number(row.core_ms), Number(row.gb_ms)], [123_000, 276_750]);
  });
});

test("a build that takes more than one step of metering is one build", async (t) => {
  const stage = await usageStage(t);
  const projectId = await stage.addProject();
  const place = await stage.addApp(projectId);
  const began = noon - 120 * 3_600_000;
  await stage.addBuild(projectId, place, {
    number: 2,
    startedMs: began,
    environment: [began, noon],
  });
  await stage.meter().turn();
  const rows = await stage.db.selectFrom("usage_months").select(["builds", "ms"]).execute();
  assert.deepEqual(rows, [{ builds: 1, ms: 120 * 3_600_000 }]);
});

describe("storage", () => {
  const monthMs = 31 * 24 * hour;
  const january = Date.UTC(2026, 0, 1);

  test("costs what was there over time beyond what is free, however it grew and shrank", async (t) => {
    const stage = await usageStage(t, january);
    const projectId = await stage.addProject();
    const meter = stage.meter();
    // Free; 40 GB too many for a third of the month; 200 for the rest of it, and a moment of much
    // more.
    const sizes = [60_000, 140_000, 140_000, 9_000_000, 300_000, 300_000];
    const begins = [0, 1 / 3, 1 / 2, 2 / 3, 2 / 3 + 60 / 2_678_400, 5 / 6].map(
      (part) => january + part * monthMs,
    );
    for (const [index, at] of begins.entries()) {
      const isSame = sizes[index] === sizes[index - 1];
      await (isSame ? stage.holds(projectId, at) : stage.hold(projectId, sizes[index] ?? 0, at));
      stage.clock.atMs = at;
      await meter.turn();
    }
    stage.clock.atMs = january + monthMs;
    await stage.hold(projectId, 0, january + monthMs);
    await meter.turn();
    const gbMonth = (gb: number, seconds: number): number =>
      Math.round(gb * 50_000 * (seconds / 2_678_400));
    const expected = gbMonth(40, 892_800) + gbMonth(8_900, 60) + gbMonth(200, 892_740);
    await assertSums(stage, projectId, BigInt(expected));
    const sums = await readUsage(stage.db, { projectId, from: "2026-01-01", to: "2026-02-01" });
    const held = (60 * 892_800 + 140 * 892_800 + 9_000 * 60 + 300 * 892_740) * 1000;
    assert.deepEqual([sums.storageMicros, sums.storageGbMs], [BigInt(expected), held]);
    assert.deepEqual([sums.gbMs, sums.runMicros, sums.replicaMs, sums.buildMs], [0, 0n, 0, 0]);
    const rows = await stage.db.selectFrom("volume_uses").select("is_metered").execute();
    assert.deepEqual(new Set(rows.map((row) => row.is_metered)), new Set([true]));
  });

  test("costs its price in each month, whatever its length, and stands in the statement of each", async (t) => {
    const stage = await usageStage(t, january);
    const projectId = await stage.addProject();
    await stage.hold(projectId, 101_000, january);
    await stage.hold(projectId, 0, Date.UTC(2026, 2, 1));
    stage.clock.atMs = Date.UTC(2026, 2, 2, 1);
    await stage.meter().turn();
    await stage.meter().turn();
    for (const month of ["2026-01", "2026-02"] as const) {
      assert.equal(await costOfMonth(stage.db, { projectId, month }), 50_000n, month);
    }
    const statements = await new StatementQueries(stage).list(projectId);
    const lines = statements.flatMap(({ content, closedAt }) =>
      content.lines.map((line) => [
        content.period,
        closedAt !== null,
        line.kind,
        line.appId,
        line.micros,
      ]),
    );
    assert.deepEqual(lines.toSorted(), [
      ["2026-01", true, "storage", "", "50000"],
      ["2026-02", true, "storage", "", "50000"],
    ]);
  });

  test("of a deleted project costs up to its deletion, also if it was counted after that", async (t) => {
    const stage = await usageStage(t, january);
    const projectId = await stage.addProject();
    await stage.hold(projectId, 1_100_000, january);
    await stage.holds(projectId, january + 3 * hour);
    await stage.meter().turn();
    await stage.db
      .updateTable("projects")
      .set({ deleted_at: new Date(january + 2 * hour) })
      .where("id", "=", projectId)
      .execute();
    await noteUse(stage.db, { projectId, sizeMb: 1_100_000, gapMs: 10 ** 12 });
    await stage.meter().turn();
    await assertSums(stage, projectId, BigInt(Math.round((1_000 * 50_000 * 2) / (31 * 24))));
  });

  test("is noted as times of one size without a gap, and a time in which nobody counted is no use", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const note = (sizeMb: number, gapMs = 3_600_000) =>
      noteUse(stage.db, { projectId, sizeMb, gapMs });
    const rows = async () =>
      await stage.db
        .selectFrom("volume_uses")
        .selectAll()
        .orderBy("began_at")
        .orderBy("size_mb")
        .execute();
    await note(0);
    assert.deepEqual(await rows(), []);
    await note(5);
    await note(5);
    await note(7);
    await note(0);
    await note(8);
    const [five, seven, eight] = await rows();
    assert.deepEqual([five?.size_mb, seven?.size_mb, eight?.size_mb], [5, 7, 8]);
    assert.deepEqual(five?.ended_at, seven?.began_at);
    assert.ok(seven?.ended_at !== null && eight?.ended_at === null);
    // As after a long time.
    await note(8, -1);
    const [, , lost, again] = await rows();
    assert.deepEqual([lost?.ended_at, again?.ended_at, again?.size_mb], [eight?.seen_at, null, 8]);
  });
});

describe("usage that becomes known late", () => {
  test("moves a credit to where it belongs, and gives back before it draws", async (t) => {
    const stage = await usageStage(t, Date.UTC(2026, 0, 31));
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    await stage.apply(projectId, { amount_cents: 1 });
    const late = await stage.addReplica(projectId, place, Date.UTC(2026, 0, 31, 1));
    const february = await stage.addReplica(projectId, place, Date.UTC(2026, 1, 1, 1));
    await stage.stop(february, Date.UTC(2026, 1, 1, 3));
    stage.clock.atMs = Date.UTC(2026, 1, 1, 4);
    const meter = stage.meter();
    await meter.turn();
    const drawn = async (): Promise<Record<string, string>> => {
      const rows = await stage.db
        .selectFrom("coupon_draws")
        .selectAll()
        .where("amount_micros", ">", "0")
        .execute();
      return Object.fromEntries(rows.map((row) => [row.period, row.amount_micros]));
    };
    assert.deepEqual(await drawn(), { "2026-02": "10000" });
    await stage.stop(late, Date.UTC(2026, 0, 31, 2));
    await meter.turn();
    assert.deepEqual(await drawn(), { "2026-01": "10000" });
    await assertSums(stage, projectId, plain(hour) + plain(2 * hour));
  });
});

describe("meters at once", () => {
  test("count everything once, and a project that cannot be metered keeps no other waiting", async (t) => {
    const stage = await usageStage(t);
    const projects = await Promise.all(Array.from({ length: 6 }, () => stage.addProject()));
    for (const projectId of projects) {
      const place = await stage.addApp(projectId);
      for (let count = 1; count <= 5; count++)
        await stage.stop(await stage.addReplica(projectId, place, noon), noon + count * hour);
      await stage.apply(projectId, { amount_cents: 5 });
    }
    const [broken, ...others] = projects;
    // A currency that nobody knows.
    await sql`update billing_accounts set currency = 'QQQ' where project_id = ${broken}`.execute(
      stage.db,
    );
    await Promise.all(Array.from({ length: 4 }, () => stage.meter().turn()));
    await stage.meter().turn();
    for (const projectId of others)
      await assertSums(
        stage,
        projectId,
        plain(hour) + plain(2 * hour) + plain(3 * hour) + plain(4 * hour) + plain(5 * hour),
      );
    await assertSums(stage, must(broken, "a project"), 0n);
  });
});
