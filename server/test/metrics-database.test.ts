// What metrics read of the database: how much waits there, and how the
// connections to it fare.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { readBacklog } from "#metrics/backlog-store.ts";
import { DatabaseCounts } from "#store/database-counts.ts";
import { insertRun } from "./support/run-rows.ts";
import { insertDelivery } from "./support/webhook-rows.ts";
import { startManagementApi } from "./support/management-api.ts";
import { testDatabase } from "./support/database.ts";
import { until } from "./support/until.ts";
import { connect } from "./support/connect.ts";

test("what waits is counted, and what has ended is not", async (t) => {
  const { db, projectId, call } = await startManagementApi(t);
  const body = { name: "my-app", gitRepo: "acme/shop" };
  const { appId } = (await call("POST", `/v2/projects/${projectId}/apps/git`, { body })).body;
  const place = { db, projectId, appId };
  for (const state of [
    "pending",
    "pending",
    "queued",
    "running",
    "running",
    "success",
    "failure",
  ] as const) {
    await insertRun(place, { state });
  }
  for (const state of ["pending", "delivered", "failed"] as const)
    await insertDelivery(place, { state });
  assert.deepEqual(await readBacklog(db), {
    runs: { pending: 2, queued: 1, running: 2 },
    builds: 1,
    deliveries: 1,
  });
});

test("waits for connections and failed statements are counted", async (t) => {
  const { url } = await testDatabase(t);
  const counts = new DatabaseCounts();
  const db = await connect(url, 1, { counts });
  t.after(() => db.destroy());
  await assert.rejects(sql`select 1 / 0`.execute(db), /division by zero/);
  await assert.rejects(sql`selec`.execute(db), /syntax/);
  assert.deepEqual(
    [...counts.errors],
    [
      ["connection", 0],
      ["22", 1],
      ["42", 1],
    ],
  );
  await db.connection().execute(async (held) => {
    const waiting = sql`select 1`.execute(db);
    await until("somebody waits", () => counts.sizes.waiting === 1);
    assert.equal(counts.sizes.used, 1);
    await sql`select 1`.execute(held);
    void waiting.catch(() => undefined);
  });
  await until("nobody waits", () => counts.sizes.waiting === 0 && counts.sizes.idle === 1);
  assert.equal(
    counts.waits.buckets.reduce((sum, count) => sum + count),
    4,
  );
});
