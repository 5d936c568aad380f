// Migrations and connections on a real database: races, failures, refusals and what their messages
// give away.
import assert from "node:assert/strict";
import { copyFileSync, readdirSync, writeFileSync } from "node:fs";
import { connect as connectTo, createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { migrate } from "#store/migrate.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { openDatabaseGate } from "#test/support/database-gate.ts";
import { emptyDatabase, testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import "#test/support/leftovers.ts";
import { connect } from "./support/connect.ts";

const log = silentLog;
const realMigrations = join(import.meta.dirname, "../src/store/migrations");

/** A folder with the real migrations, to which a test adds its own. */
function migrationsFolder(t: TestContext): string {
  const folder = temporaryFolder(t, "migrations");
  for (const file of readdirSync(realMigrations))
    copyFileSync(join(realMigrations, file), join(folder, file));
  return folder;
}

async function open(t: TestContext, url: Secret): Promise<Db> {
  const db = await connect(url, 3, { log });
  t.after(() => db.destroy());
  return db;
}

test("two platforms that migrate at once apply each migration once", async (t) => {
  const url = await emptyDatabase(t);
  const names = readdirSync(realMigrations).map((file) => file.replace(".sql", ""));
  const outcomes = await Promise.all(Array.from({ length: 4 }, () => migrate({ url, log })));
  assert.deepEqual(outcomes.flat().toSorted(), names.toSorted());
  assert.deepEqual(await migrate({ url, log }), [], "nothing is left to do");
});

test("a migration that fails leaves nothing, and a corrected one is applied", async (t) => {
  const url = await emptyDatabase(t);
  const folder = migrationsFolder(t);
  const file = join(folder, "9000-later.sql");
  writeFileSync(file, "create table later (n integer); select no_such_function();");
  await assert.rejects(migrate({ url, log, folder }), /the migration 9000-later failed/);
  const db = await open(t, url);
  const tables = await sql<{
    found: string | null;
  }>`select to_regclass('later')::text as found`.execute(db);
  assert.equal(tables.rows[0]?.found, null);
  writeFileSync(file, "create table later (n integer);");
  assert.deepEqual(await migrate({ url, log, folder }), ["9000-later"]);
});

test("a database with a changed, an unknown or a missing migration is refused by its name", async (t) => {
  const url = await emptyDatabase(t);
  const folder = migrationsFolder(t);
  const file = join(folder, "9000-later.sql");
  writeFileSync(file, "create table later (n integer);");
  await migrate({ url, log, folder });
  await assert.rejects(migrate({ url, log }), {
    name: "CannotStart",
    message: /9000-later, which this version does not know/,
  });
  writeFileSync(file, "create table later (n integer); ");
  await assert.rejects(migrate({ url, log, folder }), {
    name: "CannotStart",
    message: /9000-later was changed after/,
  });
});

test("values come back as their kind: times as Date, counts as numbers, numeric as text, what would be rounded not at all", async (t) => {
  const { db } = await testDatabase(t);
  const { rows } = await sql`
    select timestamptz '2026-02-03 04:05:06.789Z' as at, count(*) as count, 1.10::numeric as price, '{"a":[1]}'::jsonb as json,
           9007199254740991 as max`.execute(db);
  assert.deepEqual(rows[0], {
    at: new Date("2026-02-03T04:05:06.789Z"),
    count: 1,
    price: "1.10",
    json: { a: [1] },
    max: 9007199254740991,
  });
  await assert.rejects(sql`select 9007199254740993 as n`.execute(db), { name: "AssertionFailed" });
});

test("connections name themselves and have deadlines", async (t) => {
  const { db } = await testDatabase(t);
  const { rows } = await sql<Record<string, string>>`
    select current_setting('application_name') as name, current_setting('statement_timeout') as statement,
           current_setting('lock_timeout') as lock, current_setting('idle_in_transaction_session_timeout') as idle`.execute(
    db,
  );
  assert.deepEqual(rows[0], { name: "slipway", statement: "30s", lock: "10s", idle: "1min" });
});

test("a connection that breaks while it is being set up takes no place of another one", async (t) => {
  const { url } = await testDatabase(t);
  let cuts = 0;
  const isSettingUp = (sent: Buffer): boolean =>
    sent.includes("default_transaction_isolation") && ++cuts <= 3;
  const gate = await openDatabaseGate(t, url, isSettingUp);
  const db = await connect(new Secret(gate.url), 2);
  cleanLast(t, () => db.destroy());
  for (let count = 0; count < 3; count++)
    await assert.rejects(sql`select 1`.execute(db), /terminated/);
  await Promise.all([sql`select 1`.execute(db), sql`select 1`.execute(db)]);
  assert.equal(cuts, 5, "three were cut, and two are there");
});

test("a database that cannot be used is refused with the place and the reason, never with the password", async (t) => {
  const { url } = await testDatabase(t);
  const changed = (change: (url: URL) => void): Secret => {
    const other = new URL(url.reveal());
    change(other);
    return new Secret(other.toString());
  };
  const refusal = async (bad: Secret): Promise<string> => {
    const error: unknown = await connect(bad, 2, { log, reachWaitMs: 0 }).catch((e: unknown) => e);
    assert.ok(error instanceof Error);
    assert.equal(error.name, "CannotStart");
    return error.message;
  };
  const wrong = await refusal(changed((other) => (other.password = "pass-4711")));
  assert.match(wrong, /database test_\w+ cannot be used: password authentication failed/);
  const unknown = await refusal(changed((other) => (other.pathname = "/no_such_database")));
  assert.match(unknown, /database "no_such_database" does not exist/);
  const nobody = await refusal(new Secret("postgres://u:pass-4711@127.0.0.1:1/x"));
  assert.match(nobody, /127\.0\.0\.1:1\/x cannot be used: .*ECONNREFUSED/);
  const unreadable = await refusal(new Secret("postgres://u:pass-4711@host:notaport/x"));
  assert.match(unreadable, /SLIPWAY_DATABASE_URL cannot be read/);
  for (const message of [wrong, unknown, nobody, unreadable])
    assert.doesNotMatch(message, /pass-4711/);
});

test("a database that comes up late is waited for", async (t) => {
  const { url } = await testDatabase(t);
  const socket = new URL(url.reveal()).searchParams.get("host") ?? assert.fail();
  // A port nobody listens on yet; the real server is put behind it once the platform has knocked in
  // vain.
  const gate = createServer((client) => {
    const server = connectTo(`${socket}/.s.PGSQL.5432`);
    client.pipe(server).pipe(client);
    for (const end of [client, server]) end.on("error", () => undefined);
  });
  gate.listen(0, "127.0.0.1");
  await once(gate, "listening");
  const { port } = gate.address() as { port: number };
  gate.close();
  await once(gate, "close");
  const late = new URL(url.reveal());
  late.search = "";
  late.host = `127.0.0.1:${port}`;
  let knocks = 0;
  const watched = Object.create(log, {
    info: { value: () => knocks++ === 0 && gate.listen(port, "127.0.0.1") },
  }) as typeof log;
  t.after(() => void gate.close());
  const db = await connect(new Secret(late.toString()), 2, { log: watched });
  await db.destroy();
  assert.ok(knocks >= 1);
});
