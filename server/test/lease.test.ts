// Leases on rows of builds: who gets which, what a worker that was given up on can still do
// (nothing).
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { systemClock, type Clock } from "#lib/clock.ts";
import { appIdOf, newProjectId, type BuildId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { Leases } from "#store/lease.ts";
import { testDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";

async function makeBuilds(db: Db, count: number): Promise<BuildId[]> {
  const projectId = newProjectId();
  const appId = appIdOf(projectId, "hello");
  await db.insertInto("projects").values({ id: projectId, name: "p" }).execute();
  await db
    .insertInto("apps")
    .values({ id: appId, project_id: projectId, name: "hello", request: toJson({}) })
    .execute();
  const ids = Array.from({ length: count }, () => randomUUID() as BuildId);
  const rows = ids.map((id, index) => ({
    id,
    project_id: projectId,
    app_id: appId,
    number: index + 1,
    cause: "create" as const,
    status: "pending" as const,
    request: toJson({}),
  }));
  await db.insertInto("builds").values(rows).execute();
  return ids;
}

function leasesOf(
  db: Db,
  holder: string,
  leaseMs = 60_000,
  clock: Clock = systemClock,
): Leases<"builds"> {
  return new Leases({ db, table: "builds", holder, leaseMs, log: silentLog, clock });
}

const open = { where: sql`ended_at is null`, order: sql`number`, limit: 10 };

async function expire(db: Db): Promise<void> {
  await db
    .updateTable("builds")
    .set({ lease_until: sql<Date>`clock_timestamp() - interval '1 second'` })
    .where("lease_until", "is not", null)
    .execute();
}

async function setup(t: TestContext, count: number): Promise<{ db: Db; ids: BuildId[] }> {
  const { db } = await testDatabase(t);
  return { db, ids: await makeBuilds(db, count) };
}

test("rows are claimed in order, up to the limit, and only while nobody holds them", async (t) => {
  const { db, ids } = await setup(t, 3);
  const a = leasesOf(db, "a");
  const b = leasesOf(db, "b");
  const first = await a.claim({ ...open, limit: 2 });
  assert.deepEqual(
    first.map(({ id }) => id),
    ids.slice(0, 2),
  );
  assert.deepEqual(await b.claim(open), [{ id: ids[2], epoch: 1, isTakenOver: false }]);
  assert.deepEqual(await a.claim(open), []);
});

test("many workers that claim at once never get the same row", async (t) => {
  const { db, ids } = await setup(t, 40);
  const workers = Array.from({ length: 8 }, (_, index) => leasesOf(db, `worker-${index}`));
  const claimed: BuildId[] = [];
  for (let round = 0; round < 2; round++) {
    const all = await Promise.all(workers.map((worker) => worker.claim({ ...open, limit: 3 })));
    claimed.push(...all.flat().map(({ id }) => id));
  }
  assert.equal(new Set(claimed).size, claimed.length);
  assert.deepEqual(claimed.toSorted(), ids.toSorted());
});

test("a released row can be claimed again; who took it over is told when the last holder was lost", async (t) => {
  const { db } = await setup(t, 1);
  const a = leasesOf(db, "a");
  const b = leasesOf(db, "b");
  const [lease] = await a.claim(open);
  assert.ok(lease);
  assert.equal(await a.release(lease), true);
  const [second] = await b.claim(open);
  assert.deepEqual([second?.epoch, second?.isTakenOver], [2, false]);
  await expire(db);
  const [third] = await a.claim(open);
  assert.deepEqual([third?.epoch, third?.isTakenOver], [3, true]);
});

test("a holder whose row was taken over can neither renew, release nor write", async (t) => {
  const { db, ids } = await setup(t, 1);
  const slow = leasesOf(db, "slow");
  const quick = leasesOf(db, "quick");
  const [old] = await slow.claim(open);
  assert.ok(old);
  await expire(db);
  const [current] = await quick.claim(open);
  assert.ok(current);
  assert.equal(await slow.renew(old), false);
  assert.equal(await slow.release(old), false);
  const write = (leases: Leases<"builds">, lease: typeof old) =>
    db
      .updateTable("builds")
      .set({ status: "building" })
      .where(leases.held(lease))
      .executeTakeFirst();
  assert.equal((await write(slow, old)).numUpdatedRows, 0n);
  assert.equal((await write(quick, current)).numUpdatedRows, 1n);
  // The same holder after a restart under its old name has an old epoch.
  await expire(db);
  const [again] = await slow.claim(open);
  assert.ok(again);
  assert.equal(await slow.renew(old), false, "the epoch counts, not the name");
  assert.equal(again.id, ids[0]);
});

test("extending many waits for no row that somebody has locked, and does not take it for lost", async (t) => {
  const { db } = await testDatabase(t);
  await makeBuilds(db, 3);
  const ours = leasesOf(db, "ours");
  const leases = await ours.claim(open);
  await expire(db);
  const locked = leases[1];
  assert.ok(locked);
  await db.transaction().execute(async (tx) => {
    await tx.selectFrom("builds").select("id").where("id", "=", locked.id).forUpdate().execute();
    const held = await ours.renewAll([...leases].toReversed());
    assert.deepEqual([...held].toSorted(), leases.map(({ id }) => id).toSorted());
  });
  const taken = await leasesOf(db, "theirs").claim(open);
  assert.deepEqual(
    taken.map(({ id }) => id),
    [locked.id],
    "all others were extended",
  );
  assert.equal((await ours.renewAll(leases)).size, 2);
});

test("reaping takes back what ran out, and only that", async (t) => {
  const { db, ids } = await setup(t, 2);
  const a = leasesOf(db, "a");
  const [lost] = await a.claim({ ...open, limit: 1 });
  await expire(db);
  const [held] = await leasesOf(db, "b").claim({ ...open, where: sql`number = 2` });
  assert.deepEqual(await a.reap(10), [ids[0]]);
  assert.deepEqual(await a.reap(10), []);
  assert.ok(lost && held);
  assert.equal(await a.renew(lost), false, "a reaped lease is over");
});

test("a kept lease outlives its time; when the row is taken, the work's signal fires", async (t) => {
  const { db } = await setup(t, 1);
  // Long enough that a busy machine does not stand still for half of it, which would end the lease.
  const leaseMs = 2000;
  const a = leasesOf(db, "a", leaseMs);
  const [lease] = await a.claim(open);
  assert.ok(lease);
  const kept = a.keep(lease);
  t.after(() => kept.stop());
  const untilOf = () =>
    db
      .selectFrom("builds")
      .select("lease_until")
      .executeTakeFirstOrThrow()
      .then((row) => Number(row.lease_until));
  const firstMs = await untilOf();
  await until(
    "it was extended beyond its first time",
    async () => (await untilOf()) > firstMs + leaseMs,
  );
  assert.equal(kept.signal.aborted, false);
  await db.updateTable("builds").set({ lease_holder: "somebody else", lease_epoch: 99 }).execute();
  await until("the signal fires", () => kept.signal.aborted);
  assert.equal((kept.signal.reason as Error).name, "LeaseLost");
});

test("a worker that cannot reach the database stops before its lease runs out", async (t) => {
  const { db } = await setup(t, 1);
  const leases = leasesOf(db, "a", 4000);
  const [lease] = await leases.claim(open);
  assert.ok(lease);
  const kept = leases.keep(lease);
  t.after(() => kept.stop());
  // Somebody's transaction holds the row: each renewal waits longer than the lease lasts.
  const holding = db.transaction().execute(async (tx) => {
    await sql`select from builds for update`.execute(tx);
    // What is left of the lease is not to be spent on looking whether the signal has fired.
    if (!kept.signal.aborted)
      await once(kept.signal, "abort", { signal: AbortSignal.timeout(20_000) });
    const { rows } = await sql<{
      left: boolean;
    }>`select lease_until > clock_timestamp() as left from builds`.execute(tx);
    return rows[0]?.left;
  });
  assert.equal(await holding, true, "the lease still had time left when the work was told to end");
});

for (const isTaken of [false, true]) {
  const outcome = isTaken
    ? "ends its work when somebody has taken the row"
    : "keeps a row that nobody has taken";
  test(`a process that stood still for longer than its lease ${outcome}`, async (t) => {
    const { db } = await setup(t, 1);
    let nowMs = 0;
    let wake = (): void => undefined;
    const clock = {
      ...systemClock,
      monotonicMs: () => nowMs,
      sleep: (_ms: number, signal?: AbortSignal) =>
        new Promise<void>((resolve) => {
          wake = resolve;
          if (signal?.aborted === true) resolve();
          signal?.addEventListener("abort", () => resolve());
        }),
    };
    const leases = leasesOf(db, "a", 15_000, clock);
    const [lease] = await leases.claim(open);
    assert.ok(lease);
    const kept = leases.keep(lease);
    await expire(db);
    if (isTaken) await leasesOf(db, "b").claim(open);
    nowMs = 16_000;
    wake();
    const isExtended = async (): Promise<boolean> =>
      (
        await sql`select from builds where lease_holder = 'a' and lease_until > clock_timestamp()`.execute(
          db,
        )
      ).rows.length === 1;
    if (isTaken) await until("the signal fires", () => kept.signal.aborted);
    else await until("the lease is extended", isExtended);
    assert.equal(kept.signal.aborted, isTaken);
    await kept.stop();
  });
}

test("a holder's new process need not wait for the leases of its old one, and others' stay", async (t) => {
  const { db } = await setup(t, 2);
  const [old] = await leasesOf(db, "a", 60_000).claim({ ...open, limit: 1 });
  assert.ok(old);
  await leasesOf(db, "b", 60_000).claim(open);
  const again = leasesOf(db, "a", 60_000);
  assert.deepEqual(await again.claim(open), []);
  assert.equal(await again.endEarlier(), 1);
  const taken = await again.claim(open);
  assert.deepEqual(
    taken.map(({ id, isTakenOver }) => ({ id, isTakenOver })),
    [{ id: old.id, isTakenOver: true }],
  );
  assert.equal(await leasesOf(db, "a", 60_000).release(old), false, "the old process has lost it");
});
