// What is kept of runs and calls, on a real database: records of plain calls, the removal of what
// is old, and lists that read a page and no more, whatever their length.
import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import {
  newRunId,
  type AppId,
  type ProjectId,
  type ReleaseId,
  type ReplicaId,
  type RunId,
} from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { removeOld } from "#lib/retention.ts";
import { callRecordWriter, countLeftOut } from "#runs/call-record-store.ts";
import { CallRecords } from "#runs/call-records.ts";
import { listDead, listRuns } from "#runs/run-list-store.ts";
import { runRetention } from "#runs/run-retention.ts";
import type { Db } from "#store/database.ts";
import { insertApp } from "./logs-rows.ts";
import { asOwner } from "./support/as-owner.ts";
import { testDatabase } from "./support/database.ts";
import { insertCall, insertRun } from "./support/run-rows.ts";
import { until } from "./support/until.ts";
import { planOf } from "./support/statement-plan.ts";

const projectId = "p-00000001" as ProjectId;
const appId = "p-00000001-my-app" as AppId;
const dayMs = 86_400_000;
const daysAgo = (days: number): Date => new Date(Date.now() - days * dayMs);

test("records of calls are written by themselves, whatever their texts hold, and never twice", async (t) => {
  const { db } = await testDatabase(t);
  const records = new CallRecords({
    ...callRecordWriter(db),
    whyBrokenOff: () => Promise.resolve(null),
    successesOf: () => Infinity,
    clock: systemClock,
    log: silentLog,
  });
  t.after(() => records.stop());
  const texts = [
    "/plain",
    '/quote"and\\back{slash},',
    "/ümläut-\u{1f600}",
    "/nul\0l",
    "/half\ud800",
    "",
  ];
  const calls = texts.map((path, index) => ({
    runId: newRunId(),
    projectId,
    appId,
    releaseId: newRunId() as string as ReleaseId,
    method: "GET",
    path,
    replicaId: index === 0 ? null : ("my-app-1" as ReplicaId),
    isWebSocket: index === 1,
    clientAddress: "::1",
    outcome: "answered" as const,
    status: index === 0 ? null : 200,
    receivedAt: Date.UTC(2026, 0, 1) + index,
    lineMs: 0.25,
    totalMs: 5.5,
    begunAt: Date.UTC(2026, 0, 1) + index,
    reason: null,
    isReasonOfApp: false,
    requestBytes: 1,
    answerBytes: 2,
    webhookEndpoint: index === 2 ? "https://a.b" : null,
  }));
  for (const call of calls) records.onFinished(call);
  const rows = await until("they are written without being asked for", async () => {
    const found = await db.selectFrom("calls").selectAll().orderBy("received_at").execute();
    return found.length === calls.length ? found : undefined;
  });
  assert.deepEqual(
    rows.map((row) => row.path),
    ["/plain", '/quote"and\\back{slash},', "/ümläut-\u{1f600}", "/null", "/half\ufffd", ""],
  );
  assert.deepEqual(
    rows.map((row) => [
      row.id,
      row.app_id,
      row.received_at.getTime(),
      row.ended_at.getTime() - row.received_at.getTime(),
    ]),
    calls.map((call) => [call.runId, appId, call.receivedAt, 5]),
  );
  assert.deepEqual(
    [rows[0]?.state, rows[0]?.replica_id, rows[0]?.status_code],
    ["failure", null, null],
  );
  assert.deepEqual(
    [rows[1]?.is_websocket, rows[2]?.webhook_endpoint, rows[1]?.line_ms],
    [true, "https://a.b", 0.25],
  );
  const [first] = calls;
  assert.ok(first);
  records.onFinished(first);
  records.onFinished({ ...first, runId: newRunId() });
  await records.stop();
  const { count } = await db
    .selectFrom("calls")
    .select((row) => row.fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  assert.equal(count, calls.length + 1, "what is there already does not keep the others out");
});

describe("what is old is removed", () => {
  type Days = { readonly resultRetentionDays: number; readonly runRetentionDays: number };
  const steps = (db: Db, days: Days) =>
    runRetention({
      db,
      clock: systemClock,
      ...days,
      callRetentionDays: days.runRetentionDays,
      callDaysOf: () => null,
    });
  const remove = (db: Db, days: Days) => removeOld(steps(db, days), new AbortController().signal);
  const idsOf = async (db: Db, table: "runs" | "calls"): Promise<Set<RunId>> =>
    new Set((await db.selectFrom(table).select("id").execute()).map((row) => row.id));
  const requestsOf = async (db: Db): Promise<Set<RunId>> =>
    new Set(
      (await db.selectFrom("run_requests").select("run_id").execute()).map((row) => row.run_id),
    );
  const resultsOf = async (db: Db): Promise<Set<RunId>> =>
    new Set(
      (await db.selectFrom("run_results").select("run_id").execute()).map((row) => row.run_id),
    );

  test("results and requests by their days, runs and calls by theirs, keys after a day; never what has not ended", async (t) => {
    const { db } = await testDatabase(t);
    const place = { db, projectId, appId };
    const unfinished = [];
    for (const state of ["pending", "queued", "running"] as const) {
      unfinished.push(await insertRun(place, { state, acceptedAt: daysAgo(400) }));
    }
    const ended = (days: number) => ({ acceptedAt: daysAgo(days + 1), endedAt: daysAgo(days) });
    const result = (days: number) => ({ body: Buffer.from("x"), createdAt: daysAgo(days) });
    const young = await insertRun(place, { state: "success", ...ended(2), result: result(2) });
    const older = await insertRun(place, { state: "success", ...ended(4), result: result(4) });
    const oldest = await insertRun(place, { state: "success", ...ended(12), result: result(12) });
    const youngDead = await insertRun(place, { state: "failure", ...ended(2), result: result(2) });
    const oldDead = await insertRun(place, { state: "timeout", ...ended(4) });
    const youngCall = await insertCall(place, { receivedAt: daysAgo(9), endedAt: daysAgo(9) });
    await insertCall(place, { receivedAt: daysAgo(11), endedAt: daysAgo(11) });
    const counted = { projectId, appId, calls: 3 };
    await callRecordWriter(db).writeLeftOut([
      { ...counted, id: randomUUID(), latestAt: daysAgo(9).getTime() },
      { ...counted, id: randomUUID(), latestAt: daysAgo(11).getTime() },
    ]);
    for (const [key, days] of [
      ["new", 0.9],
      ["old", 1.1],
    ] as const) {
      const value = {
        app_id: appId,
        key,
        request_hash: Buffer.from("x"),
        run_id: young,
        created_at: daysAgo(days),
      };
      await db.insertInto("run_keys").values(value).execute();
      const key_hash = randomBytes(32);
      const request_hash = randomBytes(32);
      const request = { caller: key, key_hash, request_hash, created_at: daysAgo(days) };
      await db.insertInto("request_keys").values(request).execute();
    }
    await remove(db, { resultRetentionDays: 3, runRetentionDays: 10 });
    assert.deepEqual(
      await idsOf(db, "runs"),
      new Set([...unfinished, young, older, youngDead, oldDead]),
    );
    assert.deepEqual(await idsOf(db, "calls"), new Set([youngCall]));
    assert.deepEqual(await requestsOf(db), new Set([...unfinished, youngDead]));
    assert.deepEqual(await resultsOf(db), new Set([young, youngDead]));
    assert.equal(await countLeftOut(db, appId, { afterMicros: null, untilMicros: null }), 3);
    const keys = await db.selectFrom("run_keys").select("key").execute();
    assert.deepEqual(keys, [{ key: "new" }]);
    assert.deepEqual(await db.selectFrom("request_keys").select("caller").execute(), [
      { caller: "new" },
    ]);
    const dead = await listDead(db, appId, { status: null, from: null, limit: 10 });
    assert.deepEqual(
      dead.map((row) => row.id),
      [youngDead],
      "a run without its request is not dead any more",
    );
    assert.equal((await idsOf(db, "runs")).has(oldest), false);
  });

  test("records of calls each for the days of its project's plan, where these differ", async (t) => {
    const { db } = await testDatabase(t);
    const one = await insertApp(db);
    const other = await insertApp(db);
    const kept = new Set<RunId>();
    for (const app of [one, other]) {
      for (const days of [3, 8]) {
        const at = { receivedAt: daysAgo(days), endedAt: daysAgo(days) };
        const id = await insertCall({ db, projectId: app.projectId, appId: app.appId }, at);
        if (app === other || days === 3) kept.add(id);
        const calls = { projectId: app.projectId, appId: app.appId, calls: days };
        await callRecordWriter(db).writeLeftOut([
          { ...calls, id: randomUUID(), latestAt: daysAgo(days).getTime() },
        ]);
      }
    }
    const steps = runRetention({
      db,
      clock: systemClock,
      resultRetentionDays: 1,
      runRetentionDays: 1,
      callRetentionDays: 1,
      callDaysOf: () => (project) => (project === one.projectId ? 7 : 30),
    });
    await removeOld(steps, new AbortController().signal);
    assert.deepEqual(await idsOf(db, "calls"), kept);
    const counted = { afterMicros: null, untilMicros: null };
    assert.equal(await countLeftOut(db, one.appId, counted), 3);
    assert.equal(await countLeftOut(db, other.appId, counted), 11);
  });

  test("in many small steps when there is much, and not at all once it is to stop", async (t) => {
    const { db } = await testDatabase(t);
    await fill(db, { state: "failure", count: 700, begin: "2020-01-01" });
    const stopped = AbortSignal.abort(new Error("stop"));
    const days = { resultRetentionDays: 1, runRetentionDays: 100_000 };
    await removeOld(steps(db, days), stopped);
    const left = async () =>
      (await listDead(db, appId, { status: null, from: null, limit: 1_000 })).length;
    assert.equal(await left(), 700);
    await remove(db, days);
    assert.equal(await left(), 0);
    assert.equal((await idsOf(db, "runs")).size, 700);
    await remove(db, { resultRetentionDays: 1, runRetentionDays: 1 });
    assert.equal((await idsOf(db, "runs")).size, 0);
  });
});

test("a page of runs reads a page of rows by an index, whatever is asked for and however many there are", async (t) => {
  const { db } = await testDatabase(t);
  await fill(db, { state: "mixed", count: 150_000, begin: "2026-01-01" });
  await fill(db, {
    state: "pending",
    count: 40_000,
    begin: "2026-01-01",
    of: "p-00000001-busy" as AppId,
  });
  await sql`
    insert into calls (id, project_id, app_id, state, method, path, client_address, is_websocket, received_at, ended_at,
                       line_ms, total_ms)
    select gen_random_uuid(), ${projectId}, ${appId}, case when i % 500 = 0 then 'failure' else 'success' end, 'GET', '/',
           '::1', false, at, at, 1, 1
      from (select i, timestamptz '2026-01-01' + i * interval '1 second' as at from generate_series(1, 150000) as i) as made
  `.execute(db);
  await asOwner(db, (tx) => sql`analyze runs, calls`.execute(tx));
  const from = { atMicros: Date.UTC(2026, 0, 2, 3) * 1_000 + 7, id: newRunId() };
  const states = [
    null,
    "pending",
    "queued",
    "running",
    "success",
    "failure",
    "cancelled",
    "timeout",
  ] as const;
  for (const place of [null, from]) {
    for (const status of states) {
      for (const asyncOnly of [true, false]) {
        const wanted = { asyncOnly, status, from: place, limit: 51 };
        await assertReadsLittle(
          db,
          (through) => listRuns(through, appId, wanted),
          JSON.stringify(wanted),
        );
      }
    }
    for (const status of [null, "failure", "timeout"] as const) {
      const wanted = { status, from: place, limit: 51 };
      await assertReadsLittle(
        db,
        (through) => listDead(through, appId, wanted),
        `dead ${JSON.stringify(wanted)}`,
      );
    }
  }
});

/**
 * Rows that scans of the statement touch, those that they throw away included, are few next to the
 * 150,000 that there are.
 */
async function assertReadsLittle(
  db: Db,
  read: (db: Db) => Promise<unknown>,
  what: string,
): Promise<void> {
  const scans = (await planOf(db, read)).filter(
    (node) => node["Relation Name"] === "runs" || node["Relation Name"] === "calls",
  );
  assert.ok(scans.length > 0, what);
  for (const scan of scans) {
    assert.notEqual(scan["Node Type"], "Seq Scan", what);
    const touched = Number(scan["Actual Rows"]) + Number(scan["Rows Removed by Filter"] ?? 0);
    assert.ok(touched <= 3_000, `${what}: ${String(scan["Index Name"])} touched ${touched} rows`);
  }
}

async function fill(
  db: Db,
  { state, count, begin, of = appId }: { state: string; count: number; begin: string; of?: AppId },
): Promise<void> {
  await sql`
    insert into runs (id, project_id, app_id, state, method, path, client_address, retries_max, accepted_at, ended_at)
    select gen_random_uuid(), ${projectId}, ${of}, state, 'POST', '/', '::1', 0, at,
           case when state <> 'pending' then at + interval '1 second' end
      from (select ${begin}::timestamptz + i * interval '1 second' as at,
                   case when ${state} <> 'mixed' then ${state} when i % 50 = 0 then 'failure'
                        when i % 50 = 1 then 'timeout' when i % 50 = 2 then 'cancelled' else 'success' end as state
              from generate_series(1, ${count}::int) as i) as made`.execute(db);
}
