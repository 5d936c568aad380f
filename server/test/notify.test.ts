// Notifications over real connections, which are broken on purpose.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { createLog, silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { notify, Notifications } from "#store/notify.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { testDatabase } from "#test/support/database.ts";
import { openDatabaseGate } from "#test/support/database-gate.ts";
import "#test/support/leftovers.ts";
import { administer } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

async function listening(t: TestContext, url: Secret): Promise<Notifications> {
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  return notifications;
}

test("a notification arrives when its transaction is committed, and not when it is rolled back", async (t) => {
  const { db, url } = await testDatabase(t);
  const notifications = await listening(t, url);
  const got: (string | null)[] = [];
  notifications.listen("apps", (payload) => got.push(payload));
  const rolledBack = db.transaction().execute(async (tx) => {
    await notify(tx, "apps", "rolled back");
    throw new Error("changed my mind");
  });
  await assert.rejects(rolledBack, /changed my mind/);
  await db.transaction().execute(async (tx) => {
    await notify(tx, "apps", "committed");
    await notify(tx, "builds", "another channel");
    assert.deepEqual(got, [], "not before the commit");
  });
  await until("the notification is there", () => got.length > 0);
  assert.deepEqual(got, ["committed"]);
});

test("a listener that ended hears nothing; one that throws does not keep others from hearing", async (t) => {
  const { db, url } = await testDatabase(t);
  const notifications = await listening(t, url);
  const got: string[] = [];
  const end = notifications.listen("builds", () => got.push("ended"));
  notifications.listen("builds", () => {
    throw new Error("a listener's bug");
  });
  notifications.listen("builds", (payload) => got.push(payload ?? "null"));
  end();
  await notify(db, "builds", "b");
  await until("the notification is there", () => got.length > 0);
  assert.deepEqual(got, ["b"]);
});

test("after its connection broke it listens again, and every listener is told to look again", async (t) => {
  const { db, url } = await testDatabase(t);
  const notifications = await listening(t, url);
  const got: (string | null)[] = [];
  notifications.listen("tokens", (payload) => got.push(payload));
  const { rows } = await asOwner(db, (tx) =>
    sql`select pg_terminate_backend(pid) from pg_stat_activity
         where (query like 'listen%' or query = 'select 1')
           and datname = current_database() and pid <> pg_backend_pid()`.execute(tx),
  );
  assert.equal(rows.length, 1);
  await until("the listener is told to look again", () => got.length > 0);
  assert.deepEqual(got, [null]);
  await notify(db, "tokens", "after");
  await until("it hears again", () => got.length > 1);
  assert.deepEqual(got, [null, "after"]);
});

test("stopping while it cannot connect ends at once", async (t) => {
  const { url } = await testDatabase(t);
  const log = createLog({ level: "silent", pretty: false });
  const notifications = new Notifications({ clock: systemClock, url, log });
  await notifications.start();
  t.after(() => notifications.stop());
  const name = new URL(url.reveal()).pathname.slice(1);
  await administer(url.reveal(), `alter database ${name} allow_connections false`);
  t.after(() => administer(url.reveal(), `alter database ${name} allow_connections true`));
  let warnings = 0;
  log.warn = () => void (warnings += 1);
  await administer(
    url.reveal(),
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`,
  );
  await until("it tried again and could not", () => warnings >= 2);
  await notifications.stop();
});

test(
  "stopping ends where the database breaks off the connection that is being made",
  { timeout: 60_000 },
  async (t) => {
    const { url } = await testDatabase(t);
    const gate = await openDatabaseGate(t, url);
    const notifications = new Notifications({
      clock: systemClock,
      url: new Secret(gate.url),
      log: silentLog,
    });
    await notifications.start();
    await gate.silence();
    const stopped = notifications.stop();
    gate.shut();
    await stopped;
  },
);
