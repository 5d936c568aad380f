// What replicas must cost by their rows and the prices alone, and that every sum and the ledger say
// so to the micro-unit.
import assert from "node:assert/strict";
import { sql } from "kysely";
import type { PricedResources } from "#billing/usage/prices.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import type { UsageStage } from "./usage-stage.ts";

const attosOfMicro = 10n ** 12n;

/** What some time of a replica costs, in 10^-18 of the currency's unit. */
export type AttosOf = (resources: PricedResources, fromMs: number, toMs: number) => bigint;

/** What some time of storage of a size costs, likewise. */
export type StorageAttosOf = (gbThousandths: bigint, fromMs: number, toMs: number) => bigint;

type Row = {
  id: string;
  compute: string;
  compute_tier: string;
  gpu_count: number;
  cpu_cores: string;
  memory_gb: string;
  started_at: Date;
  until_at: Date;
  micros: string;
  ms: string;
};

/**
 * Each replica's slices are all of its time, up to when it surely ran, and cost the exact price
 * rounded once; returns the sum.
 */
export async function assertReplicasExact(db: Db, attosOf: AttosOf): Promise<bigint> {
  const { rows } = await sql<Row>`
    select r.id, r.compute, r.compute_tier, r.gpu_count, r.cpu_cores, r.memory_gb, r.started_at,
           coalesce(r.stopped_at, r.seen_at, r.started_at) as until_at,
           coalesce(sum(s.amount_micros), 0) as micros, coalesce(sum(s.ms), 0) as ms
      from replicas r left join usage_slices s on s.source_id = r.id
     where r.started_at is not null group by r.id`.execute(db);
  let total = 0n;
  for (const row of rows) {
    const fromMs = row.started_at.getTime();
    const toMs = Math.max(fromMs, row.until_at.getTime());
    assert.equal(Number(row.ms), toMs - fromMs, `${row.id}: each millisecond is counted once`);
    const resources = {
      compute: row.compute,
      computeTier: row.compute_tier,
      provider: null,
      region: null,
      gpuCount: row.gpu_count,
      coreThousandths: BigInt(Math.round(Number(row.cpu_cores) * 1000)),
      gbThousandths: BigInt(Math.round(Number(row.memory_gb) * 1000)),
    };
    const exact = (attosOf(resources, fromMs, toMs) + attosOfMicro / 2n) / attosOfMicro;
    assert.equal(BigInt(row.micros), exact, `${row.id}: the exact price, rounded once`);
    total += BigInt(row.micros);
  }
  return total;
}

/** The same for storage, of which each row is a time of one size. */
export async function assertStorageExact(db: Db, attosOf: StorageAttosOf): Promise<bigint> {
  const { rows } = await sql<{
    id: string;
    size: string;
    from: Date;
    to: Date;
    micros: string;
    ms: string;
  }>`
    select u.id, u.size_mb as size, u.began_at as from, coalesce(u.ended_at, u.seen_at) as to,
           coalesce(sum(s.amount_micros), 0) as micros, coalesce(sum(s.ms), 0) as ms
      from volume_uses u left join usage_slices s on s.source_id = u.id group by u.id`.execute(db);
  let total = 0n;
  for (const { id, size, from, to, micros, ms } of rows) {
    const fromMs = from.getTime();
    const toMs = Math.max(from.getTime(), to.getTime());
    assert.equal(Number(ms), toMs - fromMs, `${id}: each millisecond is counted once`);
    const exact = (attosOf(BigInt(size), fromMs, toMs) + attosOfMicro / 2n) / attosOfMicro;
    assert.equal(BigInt(micros), exact, `${id}: the exact price, rounded once`);
    total += exact;
  }
  return total;
}

/** Every sum is `total`, and so is what the ledger says, with what coupons took off it. */
export async function assertSums(
  stage: UsageStage,
  projectId: ProjectId,
  total: bigint,
): Promise<void> {
  const { receivable, drawn, ...others } = await stage.sums(projectId);
  const found = { ...others, owed: receivable + drawn };
  assert.deepEqual(found, Object.fromEntries(Object.keys(found).map((name) => [name, total])));
}
