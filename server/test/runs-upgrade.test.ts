// A database of the version before the starts of runs were numbered: replicas that go on know runs
// by the attempt.
import assert from "node:assert/strict";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { openDatabase } from "#store/database.ts";
import { migrate, readMigrations } from "#store/migrate.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import "#test/support/leftovers.ts";

const migrations = join(import.meta.dirname, "../src/store/migrations");

test("a run in flight is asked for by the number it was sent with, and the next start has one of its own", async (t) => {
  const url = await emptyDatabase(t);
  const folder = temporaryFolder(t);
  const before = readMigrations(migrations).filter(({ name }) => name < "0019");
  for (const { name } of before)
    await copyFile(join(migrations, `${name}.sql`), join(folder, `${name}.sql`));
  await migrate({ url, log: silentLog, folder });
  const db = await openDatabase({ clock: systemClock, url, connections: 4, log: silentLog });
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
