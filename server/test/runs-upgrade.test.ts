// A database of the version before the starts of runs were numbered: replicas that go on know runs
// by the attempt.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { silentLog } from "#lib/log.ts";
import { migrate } from "#store/migrate.ts";
import { emptyDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import { connect } from "./support/connect.ts";
import { migrateBefore } from "./support/earlier-schema.ts";

test("a run in flight is asked for by the number it was sent with, and the next start has one of its own", async (t) => {
  const url = await emptyDatabase(t);
  await migrateBefore(t, "0019", url);
  const db = await connect(url, 4);
  t.after(() => db.destroy());
  for (const [state, attempt] of [
    ["running", 2],
    ["queued", 1],
    ["pending", 0],
    ["success", 1],
  ] as const) {
    const isHeld = state === "running" || state === "queued";
    await sql`
      insert into runs (id, project_id, app_id, state, method, path, client_address, attempt, retries_max, lease_holder, ended_at)
      values (gen_random_uuid(), 'p-00000001', 'p-00000001-app', ${state}, 'POST', '/run', '127.0.0.1', ${attempt}, 3,
              ${isHeld ? "earlier" : null}, case when ${state === "success"} then now() end)`.execute(
      db,
    );
  }
  await migrate({ url, log: silentLog });
  const rows = await db.selectFrom("runs").select(["state", "starts"]).execute();
  // The attempt that a waiting run would have next may have been sent and taken back.
  assert.deepEqual(Object.fromEntries(rows.map(({ state, starts }) => [state, starts])), {
    running: 2,
    queued: 2,
    pending: 1,
    success: 0,
  });
});
