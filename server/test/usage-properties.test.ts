// Random replicas, sizes of storage, coupons and turns of metering on a real database, some of the
// turns broken off by a lost connection: whatever the order and the number of steps, what is
// charged is the exact price of the time of each replica and size, coupons take off what `settle`
// says of all slices, and the sums and the ledger agree with both to the micro-unit.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { readApplied } from "#billing/coupons/applied-store.ts";
import type { MeterOptions } from "#billing/usage/meter.ts";
import { meterSteps } from "#billing/usage/meter-step.ts";
import { boundsOf, periodOf } from "#billing/period.ts";
import { builtInPrices, rateAt, storageRateAt, type Prices } from "#billing/usage/prices.ts";
import { settle, type UsageItem } from "#billing/coupons/settle.ts";
import { StatementQueries } from "#billing/statements/statement-queries.ts";
import { bordersOf, stretchOf } from "#billing/usage/stretches.ts";
import { must } from "#lib/assert.ts";
import type { ProjectId, ReplicaId } from "#lib/ids.ts";
import { readCurrency } from "#lib/money.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { Seeded } from "./support/seeded.ts";
import {
  assertReplicasExact,
  assertStorageExact,
  assertSums,
  type AttosOf,
  type StorageAttosOf,
} from "./usage-exact.ts";
import { usageStage, type AppPlace, type UsageStage } from "./usage-stage.ts";

const usd = must(readCurrency("USD"), "dollars are known");
const hourMs = 3_600_000;
/** Prices change in the middle. */
const changeMs = Date.UTC(2026, 1, 2, 3);
const prices: Prices = [
  builtInPrices[0],
  { ...builtInPrices[0], validFromMs: changeMs, core: 7_777n, protectedThousandths: 1_500n },
];
const seeds =
  process.env["SLIPWAY_TEST_SEEDS"]?.split(",").map(Number) ??
  drawCases([1, 2, 3, 4, 5, 6], { what: "seeds", max: 2 });

type Known = {
  readonly id: ReplicaId;
  readonly startMs: number;
  stopMs: number | null;
  seenMs: number;
};
type World = {
  readonly stage: UsageStage;
  readonly seeded: Seeded;
  readonly projectId: ProjectId;
  readonly places: readonly AppPlace[];
  readonly replicas: Known[];
  /**
   * Coupons are applied by a platform whose clock is behind: usage from their beginning on may have
   * been counted before.
   */
  readonly isSkewed: boolean;
};

const sizes = [
  { compute: "CPU", gpuCount: 0, cpuCores: 0.25, memoryGb: 0.333 },
  { compute: "HOPPER_H100", gpuCount: 8, cpuCores: 12.5, memoryGb: 100 },
  { compute: "TURING_T4", gpuCount: 1, cpuCores: 1.001, memoryGb: 3 },
] as const;

async function startReplica({ stage, seeded, projectId, places, replicas }: World): Promise<void> {
  const nowMs = stage.clock.now();
  const wish = {
    ...seeded.pick(sizes),
    computeTier: seeded.chance(0.5) ? ("protected" as const) : ("interruptible" as const),
  };
  const startMs = nowMs - seeded.integer(0, 5_000);
  const id = await stage.addReplica(projectId, seeded.pick(places), startMs, wish);
  replicas.push({ id, startMs, stopMs: null, seenMs: startMs });
}

/**
 * Ends a replica. The end may lie before the moment at which it was last seen, or become known long
 * after.
 */
async function stopReplica({ stage, seeded, replicas }: World): Promise<void> {
  const running = replicas.filter(({ stopMs }) => stopMs === null);
  if (running.length === 0) return;
  const replica = seeded.pick(running);
  const nowMs = stage.clock.now();
  const earliestMs = Math.max(
    replica.startMs,
    replica.seenMs - (seeded.chance(0.2) ? 2 * hourMs : 20_000),
  );
  replica.stopMs = seeded.integer(Math.min(earliestMs, nowMs), nowMs);
  await stage.stop(replica.id, replica.stopMs);
}

/** Some of them: what is not seen for long is counted late. */
async function seeReplicas({ stage, seeded, replicas }: World): Promise<void> {
  const running = replicas.filter(({ stopMs }) => stopMs === null && seeded.chance(0.6));
  const at = stage.clock.now();
  for (const replica of running) replica.seenMs = at;
  await stage.rows.seen(running.map(({ id }) => ({ replicaId: id, at })));
}

const sizesMb = [0, 1, 99_999, 100_000, 100_001, 250_123, 7_000_000];

/** Most counts find the same; a size may have been known for long, or for a moment. */
async function countStorage({ stage, seeded, projectId }: World): Promise<void> {
  if (seeded.chance(0.4)) await stage.hold(projectId, seeded.pick(sizesMb), stage.clock.now());
  else await stage.holds(projectId, stage.clock.now());
}

async function applyCoupon({ stage, seeded, projectId, isSkewed }: World): Promise<void> {
  const rightMs = stage.clock.now();
  if (isSkewed) stage.clock.atMs -= seeded.integer(0, 3 * hourMs);
  const nowMs = stage.clock.now();
  const frequency = seeded.pick(["once", "recurring", "forever"] as const);
  const isPercentage = seeded.chance(0.4);
  await stage.apply(projectId, {
    ...(isPercentage
      ? { coupon_type: "percentage", percentage_rate: seeded.integer(1, 10_000_000) / 100_000 }
      : { amount_cents: seeded.integer(1, 2_000) }),
    frequency,
    frequency_duration: frequency === "recurring" ? seeded.integer(1, 2) : null,
    expiration_at: seeded.chance(0.5)
      ? new Date(nowMs + seeded.integer(1, 20 * 24) * (hourMs + 1_234))
      : null,
  });
  stage.clock.atMs = rightMs;
}

/** A turn, or one that dies at a step; what it had written in the transaction is undone. */
async function meterSome({ stage, seeded }: World): Promise<void> {
  const options: Partial<MeterOptions> = {
    prices,
    postingDelayMs: seeded.chance(0.5) ? 0 : 3_600_000,
  };
  const deadly = seeded.chance(0.3) ? seeded.pick(meterSteps) : null;
  let left = seeded.integer(1, 2);
  const meter = stage.meter({
    ...options,
    onStep: (step) => {
      if (step === deadly && --left === 0) throw new Error("the connection was lost");
    },
  });
  await meter.turn();
}

async function run(world: World): Promise<void> {
  const { stage, seeded } = world;
  for (let step = 0; step < 120; step++) {
    stage.clock.atMs += seeded.pick([
      1,
      999,
      15_000,
      61_001,
      hourMs / 2 + 7,
      3 * hourMs,
      9 * hourMs,
    ]);
    const what = seeded.next();
    if (what < 0.2) await startReplica(world);
    else if (what < 0.32) await stopReplica(world);
    else if (what < 0.4) await applyCoupon(world);
    else if (what < 0.62) await seeReplicas(world);
    else if (what < 0.74) await countStorage(world);
    else await meterSome(world);
  }
}

const attosOf: AttosOf = (resources, fromMs, toMs) => {
  const before = BigInt(Math.max(0, Math.min(toMs, changeMs) - fromMs));
  const after = BigInt(toMs - fromMs) - before;
  return before * rateAt(prices, resources, 0) + after * rateAt(prices, resources, changeMs);
};

/** At one price, and in the months that it lies in. */
const storageAttosOf: StorageAttosOf = (size, fromMs, toMs) => {
  let attos = 0n;
  for (let atMs = fromMs; atMs < toMs;) {
    const endMs = Math.min(toMs, boundsOf(periodOf(atMs)).toMs);
    attos += storageRateAt(prices, size, atMs) * BigInt(endMs - atMs);
    atMs = endMs;
  }
  return attos;
};

async function checkCoupons({ stage, projectId, isSkewed }: World, total: bigint): Promise<void> {
  const applied = await readApplied(stage.db, projectId);
  const borders = bordersOf(applied);
  const { rows } = await sql<{ id: string; begins_at: Date; ms: number; micros: string }>`
    select source_id as id, begins_at, ms, amount_micros as micros from usage_slices where project_id = ${projectId}`.execute(
    stage.db,
  );
  const usage = rows.map((row): UsageItem => ({
    id: `${row.id} ${row.begins_at.getTime()}`,
    atMs: row.begins_at.getTime(),
    amount: { currency: usd, micros: BigInt(row.micros) },
  }));
  for (const row of rows) {
    const beginMs = row.begins_at.getTime();
    const lastMs = beginMs + row.ms - 1;
    assert.equal(
      Math.floor(beginMs / hourMs),
      Math.floor(lastMs / hourMs),
      "a slice lies in one hour",
    );
    if (isSkewed) continue;
    assert.equal(
      stretchOf(borders, beginMs),
      stretchOf(borders, lastMs),
      "no border lies within a slice",
    );
  }
  // All slices one by one, not their sums by stretch.
  const { base, drawn, net } = settle(usd, applied, usage);
  assert.equal(base.micros, total);
  const kept = await stage.db
    .selectFrom("coupon_draws")
    .selectAll()
    .where("amount_micros", ">", "0")
    .execute();
  const shown = (list: readonly (readonly [string, string, string])[]) =>
    list.map((one) => one.join(" ")).sort();
  assert.deepEqual(
    shown(kept.map((row) => [row.application_id, row.period, row.amount_micros])),
    shown(
      drawn.map(({ applicationId, period, amount }) => [
        applicationId,
        period,
        String(amount.micros),
      ]),
    ),
  );
  await assertSums(stage, projectId, total);
  const sums = await stage.sums(projectId);
  assert.equal(
    sums.receivable,
    net.micros,
    "what is owed in the ledger is what was used, less what coupons take off",
  );
  assert.equal(sums.drawn, total - net.micros);
}

/** Statements that were closed while time went on, and what came to light after that. */
async function checkStatements({ stage, projectId }: World): Promise<void> {
  const { db, clock } = stage;
  const statements = await new StatementQueries({ db, clock }).list(projectId);
  const total = statements.reduce((all, { content }) => all + BigInt(content.totalMicros), 0n);
  assert.equal(
    total,
    (await stage.sums(projectId)).receivable,
    "all statements together are what is owed",
  );
  for (const { content } of statements) {
    const lines = content.lines.reduce((all, { micros }) => all + BigInt(micros), 0n);
    assert.equal(lines, BigInt(content.usageMicros), content.period);
  }
}

async function checkLedger({ stage, projectId }: World): Promise<void> {
  const { rows } = await sql<{ period: string; used: string; posted: string }>`
    select p.period, p.amount_micros as used, coalesce((
        select -sum(e.amount_micros) from ledger_entries e join ledger_transactions t on t.id = e.transaction_id
         where t.project_id = p.project_id and t.period = p.period and e.account = 'revenue'), 0) as posted
      from usage_posted p where p.project_id = ${projectId}`.execute(stage.db);
  for (const { period, used, posted } of rows)
    assert.equal(posted, used, `the ledger's usage of ${period}`);
  const { rows: slices } = await sql<{ at: Date; micros: string }>`
    select begins_at as at, amount_micros as micros from usage_slices`.execute(stage.db);
  const byMonth = new Map<string, bigint>();
  for (const { at, micros } of slices) {
    const period = periodOf(at.getTime());
    byMonth.set(period, (byMonth.get(period) ?? 0n) + BigInt(micros));
  }
  for (const { period, used } of rows)
    assert.equal(BigInt(used), byMonth.get(period) ?? 0n, period);
  const { rows: balances } = await sql<{
    id: string;
    balance: string;
    drawn: string;
    granted: string;
  }>`
    select a.id, a.balance_micros as balance,
           coalesce((select sum(amount_micros) from coupon_draws d where d.application_id = a.id), 0) as drawn,
           coalesce((select -sum(e.amount_micros) from ledger_entries e join ledger_transactions t on t.id = e.transaction_id
              where e.application_id = a.id and t.kind = 'coupon.grant' and e.account = 'coupon_credit'), 0) as granted
      from coupon_applications a`.execute(stage.db);
  for (const { id, balance, drawn, granted } of balances) {
    if (granted !== "0")
      assert.equal(BigInt(balance), BigInt(granted) - BigInt(drawn), `the credit of ${id}`);
  }
}

for (const seed of seeds) {
  test(`seed ${seed}: exact, conserving, and the same however it came about`, async (t) => {
    const stage = await usageStage(t, Date.UTC(2026, 0, 28, 21, 7));
    const projectId = await stage.addProject();
    const places = [await stage.addApp(projectId, "one"), await stage.addApp(projectId, "two")];
    const world: World = {
      stage,
      seeded: new Seeded(seed),
      projectId,
      places,
      replicas: [],
      isSkewed: seed % 2 === 0,
    };
    await run(world);
    const last = stage.meter({ prices });
    await last.turn();
    await sql`update billing_accounts set posting_due_at = clock_timestamp()`.execute(stage.db);
    await last.turn();
    const stored = await assertStorageExact(stage.db, storageAttosOf);
    assert.ok(stored > 0n);
    const total = stored + (await assertReplicasExact(stage.db, attosOf));
    await checkCoupons(world, total);
    await checkLedger(world);
    await checkStatements(world);
    const before = await stage.sums(projectId);
    const entries = await stage.db
      .selectFrom("ledger_entries")
      .select(({ fn }) => fn.countAll().as("count"))
      .execute();
    await last.turn();
    assert.deepEqual(await stage.sums(projectId), before, "a repeat changes nothing");
    assert.deepEqual(
      await stage.db
        .selectFrom("ledger_entries")
        .select(({ fn }) => fn.countAll().as("count"))
        .execute(),
      entries,
    );
  });
}
