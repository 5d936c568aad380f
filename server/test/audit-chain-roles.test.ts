// The platform's own connections can add to the audit log and the ledger, but neither change nor
// remove what is there: by the database's rights, and, where the platform may not make a role, by
// triggers, of which it warns.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { sql } from "kysely";
import { record } from "#audit/record.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog, type Log } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { migrate } from "#store/migrate.ts";
import { byPlatform } from "./support/accounts.ts";
import { chainOn, exportChain, testSigner } from "./support/audit-chain.ts";
import { cleanLast, type WithAfter } from "./support/clean-last.ts";
import { emptyDatabase, testDatabase } from "./support/database.ts";
import "./support/leftovers.ts";
import { administer } from "./support/test-server.ts";
import { connect } from "./support/connect.ts";

const projectId = "p-00000001" as ProjectId;
const signer = testSigner();
const tables = [
  "audit_log",
  "audit_links",
  "audit_chains",
  "audit_checkpoints",
  "audit_stubs",
  "ledger_transactions",
  "ledger_entries",
];

/** An entry, its link and its checkpoint; as a running platform makes them. */
async function useAsPlatform(db: Db): Promise<void> {
  await db.insertInto("projects").values({ id: projectId, name: "one" }).execute();
  await record(db, { projectId, action: "app.create", by: byPlatform });
  await chainOn(db, signer).checkpoint(projectId);
  await db.updateTable("projects").set({ name: "two" }).execute();
  assert.match(await exportChain(db, signer, projectId), /"kind":"checkpoint"/);
}

async function columnOf(db: Db, table: string): Promise<string> {
  const { rows } = await sql<{ name: string }>`
    select attname as name from pg_attribute where attrelid = ${table}::regclass and attnum > 0 order by attnum desc limit 1`.execute(
    db,
  );
  return rows[0]?.name ?? assert.fail();
}

async function refusals(db: Db, form: RegExp, among: readonly string[] = tables): Promise<void> {
  for (const table of among) {
    const name = sql.table(table);
    const column = sql.ref(await columnOf(db, table));
    for (const statement of [
      sql`update ${name} set ${column} = ${column}`,
      sql`delete from ${name}`,
      sql`truncate ${name} cascade`,
    ]) {
      await assert.rejects(statement.execute(db), form, table);
    }
  }
}

test("as the platform's own connection nothing that is only added to can be changed or removed", async (t) => {
  const { db } = await testDatabase(t);
  await useAsPlatform(db);
  await refusals(db, /permission denied for table/);
  for (const statement of [
    "insert into audit_links (chain, number, entry_id, hash) values ('x', 1, 1, sha256('x'))",
    "insert into audit_stubs select 'x', 1, hash, at, at, key_id, jws from audit_checkpoints",
    "alter table audit_log disable trigger all",
    "drop table audit_links",
    "drop trigger audit_log_link on audit_log",
    "create or replace function audit_link_hash(previous bytea, entry audit_log, number bigint) returns bytea language sql as 'select previous'",
    "set session_replication_role = replica",
    "create table audit_log_of_mine (n integer)",
  ]) {
    await assert.rejects(
      sql.raw(statement).execute(db),
      /permission denied|must be owner/,
      statement,
    );
  }
});

test("what a session sets cannot lead the chain to other tables", async (t) => {
  const { db } = await testDatabase(t);
  await db.insertInto("projects").values({ id: projectId, name: "one" }).execute();
  await db.transaction().execute(async (tx) => {
    await sql`create temporary table audit_links (like audit_links including all) on commit drop`.execute(
      tx,
    );
    await sql`set local search_path = pg_temp, public`.execute(tx);
    await sql`insert into public.audit_log (project_id, action, outcome, actor_type) values (${projectId}, 'app.create', 'success', 'person')`.execute(
      tx,
    );
  });
  const { rows } = await sql`select from audit_links where chain = ${projectId}`.execute(db);
  assert.equal(rows.length, 1);
});

test("as the tables' owner the triggers still refuse", async (t) => {
  const { db } = await testDatabase(t);
  await useAsPlatform(db);
  for (const [table, form] of [
    ["audit_log", /removed by retention only/],
    ["audit_links", /removed by retention only/],
    ["audit_checkpoints", /removed by retention only/],
    ["audit_chains", /never changed or removed/],
    ["audit_stubs", /never changed or removed/],
  ] as const) {
    const name = sql.table(table);
    const column = sql.ref(await columnOf(db, table));
    const as = async (statement: ReturnType<typeof sql>) =>
      await db.transaction().execute(async (tx) => {
        await sql`set local role none`.execute(tx);
        await statement.execute(tx);
      });
    await assert.rejects(as(sql`delete from ${name}`), form, table);
    await assert.rejects(as(sql`truncate ${name}`), /never changed or removed/, table);
    if (table !== "audit_stubs") {
      await assert.rejects(
        as(sql`update ${name} set ${column} = ${column}`),
        /never changed or removed/,
        table,
      );
    }
  }
});

test("a checkpoint of a place where the chain is not, or behind another one, does not come in", async (t) => {
  const { db } = await testDatabase(t);
  await useAsPlatform(db);
  const add = (row: { number: number; previous: number; hash?: Buffer }) =>
    db
      .insertInto("audit_checkpoints")
      .columns(["chain", "number", "previous", "hash", "at", "key_id", "jws"])
      .expression((from) =>
        from
          .selectFrom("audit_links")
          .select(({ val }) => [
            "chain",
            sql<number>`${row.number}::bigint`.as("number"),
            sql<number>`${row.previous}::bigint`.as("previous"),
            row.hash === undefined ? "hash" : sql<Buffer>`${row.hash}::bytea`.as("hash"),
            sql<Date>`now()`.as("at"),
            val("key").as("key_id"),
            val("jws").as("jws"),
          ])
          .where("number", "=", 2),
      )
      .execute();
  const count = async () =>
    (await db.selectFrom("audit_checkpoints").select("number").execute()).length;
  await record(db, { projectId, action: "app.create", by: byPlatform });
  const before = await count();
  await assert.rejects(add({ number: 1_000_000, previous: 2 }), /has no such entry/);
  await assert.rejects(
    add({ number: 3, previous: 2 }),
    /has no such entry/,
    "the hash is another entry's",
  );
  await add({ number: 3, previous: 1 });
  assert.equal(await count(), before, "one that was overtaken is left out");
  assert.match(await exportChain(db, signer, projectId), /"kind":"checkpoint","number":4/);
});

test("where the schema is everybody's, what runs as its maker does not find functions of a session", async (t) => {
  const { db, url } = await testDatabase(t);
  await db.transaction().execute(async (tx) => {
    await sql`set local role none`.execute(tx);
    await sql`grant create on schema public to public`.execute(tx);
  });
  const make = sql`
    create or replace function public.hashtextextended(text, integer) returns bigint language sql as 'select 1::bigint'`;
  await make.execute(db);
  await migrate({ url, log: silentLog });
  await assert.rejects(make.execute(db), /permission denied for schema/);
});

test("where a server is set to another isolation, numbers are given one after the other all the same", async (t) => {
  const { db: first, url } = await testDatabase(t);
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(first);
  await administer(
    url.reveal(),
    `alter database ${rows[0]?.name} set default_transaction_isolation = 'serializable'`,
  );
  const db = await connect(url, 10);
  cleanLast(t, () => db.destroy());
  await db.insertInto("projects").values({ id: projectId, name: "one" }).execute();
  await Promise.all(
    Array.from({ length: 100 }, () =>
      db.transaction().execute(async (tx) => {
        await tx.selectFrom("audit_log").selectAll().limit(1).execute();
        await record(tx, { projectId, action: "app.create", by: byPlatform });
      }),
    ),
  );
  const { length } = await db.selectFrom("audit_links").select("number").execute();
  assert.equal(length, 100);
});

type Given = { readonly url: Secret; readonly user: string; readonly server: string };

/** An empty database of a user who is no superuser, as an operator gives one. */
async function givenDatabase(t: WithAfter, rights: string): Promise<Given> {
  const server = (await emptyDatabase(t)).reveal();
  const user = `test_${randomBytes(6).toString("hex")}`;
  const name = `${user}_db`;
  // The last that is registered is the first that runs.
  cleanLast(t, () => administer(server, `drop role if exists ${user}, ${user}_runtime`));
  await administer(server, `create role ${user} login password 'secret' ${rights}`);
  cleanLast(t, () => administer(server, `drop database if exists ${name} with (force)`));
  await administer(server, `create database ${name} owner ${user}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  url.username = user;
  url.password = "secret";
  return { url: new Secret(url.href), user, server };
}

async function openGiven(t: WithAfter, { url }: Given): Promise<Db> {
  const db = await connect(url, 3);
  cleanLast(t, () => db.destroy());
  return db;
}

/** A log that keeps the warnings. */
function warnings(): { readonly log: Log; readonly texts: string[] } {
  const texts: string[] = [];
  const warn = (...parts: unknown[]): void => void texts.push(String(parts.at(-1)));
  return { log: Object.assign(Object.create(silentLog) as Log, { warn }), texts };
}

test("in a given database whose user may make roles it is the same, and nothing is warned of", async (t) => {
  const given = await givenDatabase(t, "createrole");
  const { log, texts } = warnings();
  await migrate({ url: given.url, log });
  const db = await openGiven(t, given);
  await useAsPlatform(db);
  await refusals(db, /permission denied for table/);
  assert.deepEqual(texts, []);
  assert.deepEqual(
    await migrate({ url: given.url, log }),
    [],
    "a second start finds all of it done",
  );
});

test("where the user may not make roles triggers refuse, the log says what to do, and that helps", async (t) => {
  const given = await givenDatabase(t, "nocreaterole");
  const { log, texts } = warnings();
  await migrate({ url: given.url, log });
  const before = await connect(given.url, 2, { log });
  cleanLast(t, () => before.destroy());
  await useAsPlatform(before);
  // A table without rows has nothing to refuse.
  await refusals(before, /never changed or removed|removed by retention only/, [
    "audit_log",
    "audit_links",
    "audit_chains",
    "audit_checkpoints",
  ]);
  await assert.rejects(sql`delete from audit_log`.execute(before), /by retention only/);
  const covered = before.transaction().execute(async (tx) => {
    await sql`create temporary table audit_stubs on commit drop as select 'p-00000001' as chain, 1000 as number`.execute(
      tx,
    );
    await sql`set local search_path = pg_temp, public`.execute(tx);
    await sql`delete from public.audit_log`.execute(tx);
  });
  await assert.rejects(covered, /by retention only/, "what a session makes stands for nothing");
  const advice =
    texts.find((text) => text.includes("CREATE ROLE")) ?? assert.fail("it is warned of");
  const statements = /run (CREATE ROLE .*?;) (GRANT .*?;)/.exec(advice) ?? assert.fail(advice);
  for (const statement of statements.slice(1)) await administer(given.server, statement);
  texts.length = 0;
  await migrate({ url: given.url, log });
  assert.deepEqual(texts, []);
  await refusals(await openGiven(t, given), /permission denied for table/);
});

test("platforms of one user that start at once on one server share the role", async (t) => {
  const given = await givenDatabase(t, "createrole createdb");
  const names = Array.from({ length: 6 }, (_, index) => `${given.user}_${index}`);
  const urls: Secret[] = [];
  for (const name of names) {
    cleanLast(t, () => administer(given.server, `drop database if exists ${name} with (force)`));
    await administer(given.server, `create database ${name} owner ${given.user}`);
    const url = new URL(given.url.reveal());
    url.pathname = `/${name}`;
    urls.push(new Secret(url.href));
  }
  await Promise.all(urls.map((url) => migrate({ url, log: silentLog })));
  for (const url of urls)
    await assert.rejects(
      sql`delete from audit_log`.execute(await openGiven(t, { ...given, url })),
      /permission denied/,
    );
});
