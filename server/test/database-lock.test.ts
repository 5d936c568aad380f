// Who may work on a database: one platform at a time, as long as its connection lives or it can
// take the lock again.
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { platformLock } from "#store/advisory-locks.ts";
import type { Db } from "#store/database.ts";
import { DatabaseLock } from "#store/database-lock.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { asOwner } from "#test/support/as-owner.ts";
import { emptyDatabase, testDatabase } from "#test/support/database.ts";
import { openDatabaseGate } from "#test/support/database-gate.ts";
import "#test/support/leftovers.ts";
import { administer } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

function lockOf(t: TestContext, url: Secret, instanceId: string): DatabaseLock {
  const lock = new DatabaseLock({
    clock: systemClock,
    url,
    instanceId,
    dataDir: `/data/${instanceId}`,
    log: silentLog,
  });
  t.after(() => lock.stop());
  return lock;
}

async function held(t: TestContext, url: Secret, instanceId: string): Promise<DatabaseLock> {
  const lock = lockOf(t, url, instanceId);
  await lock.start();
  await lock.announce("installation");
  return lock;
}

/** Process ids of the database's sides of connections that have the lock, or wait for it. */
async function sessions(db: Db, isGranted: boolean): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    select pid from pg_locks where locktype = 'advisory' and objid = ${platformLock} and granted = ${isGranted}
       and database = (select oid from pg_database where datname = current_database())`.execute(db);
  return rows.map(({ pid }) => pid);
}

const end = (db: Db, pid: number): Promise<unknown> =>
  asOwner(db, (tx) => sql`select pg_terminate_backend(${pid}::int)`.execute(tx));

test("a second platform is refused with the first one's host, process and data folder, until that one lets go", async (t) => {
  const { url } = await testDatabase(t);
  const first = await held(t, url, "one");
  await assert.rejects(lockOf(t, url, "two").start(), (error) => {
    assert.ok(error instanceof CannotStart);
    assert.ok(
      error.message.includes(
        `(process ${process.pid} on host ${hostname()}, data folder /data/one)`,
      ),
    );
    assert.match(error.message, /SLIPWAY_DATABASE_URL/);
    return true;
  });
  await first.stop();
  await held(t, url, "three");
});

test("on a database without tables the lock is taken before any is made", async (t) => {
  const url = await emptyDatabase(t);
  await lockOf(t, url, "one").start();
  await assert.rejects(
    lockOf(t, url, "two").start(),
    /\(one that is just starting\) is using this database/,
  );
});

test("platforms on two databases of one server do not get in each other's way", async (t) => {
  const one = await emptyDatabase(t);
  const two = await emptyDatabase(t);
  await lockOf(t, one, "one").start();
  await lockOf(t, two, "two").start();
});

test("a lock whose connection broke is taken again, and the row names the new connection", async (t) => {
  const { db, url } = await testDatabase(t);
  await held(t, url, "one");
  const [before = 0] = await sessions(db, true);
  await end(db, before);
  const [after = 0] = await until("it is held again", async () => {
    const now = await sessions(db, true);
    return now.length === 1 && now[0] !== before ? now : undefined;
  });
  await until("the row names it", async () => {
    const row = await db.selectFrom("instances").selectAll().executeTakeFirstOrThrow();
    return row.connection_pid === after && row.id === "one";
  });
});

test("a session of its own that the server still has for a lost connection does not keep it from the lock", async (t) => {
  const { db, url } = await testDatabase(t);
  const gate = await openDatabaseGate(t, url);
  const lock = await held(t, new Secret(gate.url), "one");
  const [before] = await sessions(db, true);
  gate.loseClients();
  await until("another session holds it", async () => {
    const now = await sessions(db, true);
    return now.length === 1 && now[0] !== before;
  });
  const isLost = await Promise.race([lock.lost.then(() => true), Promise.resolve(false)]);
  assert.equal(isLost, false);
});

test("a platform whose lock somebody else has by the time it is back is told so, with the name of that one", async (t) => {
  const { db, url } = await testDatabase(t);
  const first = await held(t, url, "one");
  const [before = 0] = await sessions(db, true);
  const second = held(t, url, "two");
  await until("the second one waits", async () => (await sessions(db, false)).length === 1);
  await end(db, before);
  await second;
  assert.match(await first.lost, /another platform \(.*data folder \/data\/two\) has the lock now/);
});

test("a server that ended all connections gives the lock back to who had it", async (t) => {
  const { db, url } = await testDatabase(t);
  await held(t, url, "one");
  const name = new URL(url.reveal()).pathname.slice(1);
  await administer(
    url.reveal(),
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and pid <> pg_backend_pid()`,
  );
  await until(
    "it is held again",
    async () => (await sessions(db, true).catch(() => [])).length === 1,
  );
});
