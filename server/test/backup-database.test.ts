// Copies of a database, as backups have them: one of one's own, whose user is no superuser, is
// filled with the same rows, rules and numbers, or with nothing.
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { Readable } from "node:stream";
import { test, type TestContext } from "node:test";
import { Client } from "pg";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import {
  openFill,
  openSnapshot,
  requireEmptyDatabase,
  type CopiedDatabase,
} from "#store/database-copy.ts";
import { migrate } from "#store/migrate.ts";
import { cleanLast } from "./support/clean-last.ts";
import { emptyDatabase, testDatabase } from "./support/database.ts";

async function connected(t: TestContext, url: Secret): Promise<Client> {
  const client = new Client({ connectionString: url.reveal() });
  await client.connect();
  cleanLast(t, () => client.end());
  return client;
}

/** An empty database of a user who is no superuser. */
async function ownDatabase(t: TestContext): Promise<Secret> {
  const url = await emptyDatabase(t);
  const name = `owner_${process.pid}`;
  const admin = await connected(t, url);
  await admin.query(`create role ${name} login createrole password 'own'`);
  await admin.query(`alter schema public owner to ${name}`);
  cleanLast(t, async () => {
    await admin.query(`drop owned by ${name} cascade`);
    await admin.query(`drop role if exists ${name}_runtime`);
    await admin.query(`drop role ${name}`);
  });
  const own = new URL(url.reveal().replace(/^postgres:\/\/[^@]*@/, `postgres://${name}:own@`));
  return new Secret(own.href);
}

/** The rows of all tables, and what the snapshot says of them. */
async function contentOf(url: Secret) {
  await using snapshot = await openSnapshot(url, silentLog);
  const rows = new Map<string, string>();
  for (const table of snapshot.content.tables)
    rows.set(table.name, await text(snapshot.rows(table)));
  return { content: snapshot.content, rows };
}

async function fill(
  url: Secret,
  { content, rows }: Awaited<ReturnType<typeof contentOf>>,
): Promise<void> {
  await using target = await openFill(url, content, silentLog);
  for (const table of content.tables)
    await target.load(table, Readable.from([Buffer.from(rows.get(table.name) ?? "")]));
  await target.commit();
}

/** A row with what COPY has to escape, and a number that no row has any more. */
async function addRows(client: Client): Promise<void> {
  await client.query(`
    insert into installation (id) values (E'a\\ttab, a \\\\ and a\\nline');
    select setval(pg_get_serial_sequence('app_logs', 'id'), 12345)`);
}

test("a database of a user who is no superuser gets the same rows, numbers and rules", async (t) => {
  const { url: from } = await testDatabase(t, { hasKey: true });
  const source = await connected(t, from);
  await addRows(source);
  const before = await contentOf(from);
  assert.ok([...before.rows.values()].some((rows) => rows !== ""));
  const to = await ownDatabase(t);
  await requireEmptyDatabase(to, silentLog);
  await fill(to, before);
  assert.deepEqual(await contentOf(to), before);
  const target = await connected(t, to);
  for (const catalog of [constraints, triggers, functions])
    assert.deepEqual((await target.query(catalog)).rows, (await source.query(catalog)).rows);
  assert.deepEqual(await migrate({ url: to, log: silentLog }), [], "nothing is left to migrate");
  await assert.rejects(fill(to, before), /is not empty/);
});

const constraints = `select conrelid::regclass::text, conname, pg_get_constraintdef(oid) from pg_constraint
  where connamespace = 'public'::regnamespace order by 1, 2`;
const triggers = `select tgrelid::regclass::text, tgname, tgenabled, pg_get_triggerdef(oid) from pg_trigger
  where not tgisinternal order by 1, 2`;
const functions = `select pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace order by 1`;

test("what cannot be filled to its end stays empty", async (t) => {
  const { url: from } = await testDatabase(t, { hasKey: true });
  await addRows(await connected(t, from));
  const before = await contentOf(from);
  const to = await emptyDatabase(t);
  const broken = new Map(before.rows).set("installation", "no\trow\tof\tthis\ttable\n");
  await assert.rejects(fill(to, { ...before, rows: broken }), /extra data|more columns/);
  await requireEmptyDatabase(to, silentLog);
  const newer: CopiedDatabase = {
    ...before.content,
    migrations: [...before.content.migrations, { name: "9999-later", checksum: "" }],
  };
  await assert.rejects(fill(to, { ...before, content: newer }), /9999-later, which this version/);
  await requireEmptyDatabase(to, silentLog);
  await fill(to, before);
});

test("a snapshot shows one moment, whatever is written meanwhile", async (t) => {
  const { url } = await testDatabase(t);
  const writer = await connected(t, url);
  await using snapshot = await openSnapshot(url, silentLog);
  await writer.query("insert into installation (id) values ('later')");
  const table = snapshot.content.tables.find(({ name }) => name === "installation");
  assert.ok(table !== undefined);
  assert.equal(await text(snapshot.rows(table)), "");
});

test("a database that no platform has used has no snapshot", async (t) => {
  await assert.rejects(openSnapshot(await emptyDatabase(t), silentLog), /no platform has used it/);
});
