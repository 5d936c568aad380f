// The chain of the audit log on a real database: every committed entry has the next number and its hash, whoever writes at
// the same time and whatever breaks; what is changed past the platform is found; retention and exports go on beside it.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { sql } from "kysely";
import { removeOldEntries } from "#audit/audit-retention.ts";
import { canonicalText, type JsonValue } from "#audit/canonical.ts";
import { keyIdOf } from "#audit/chain-signature.ts";
import { chainBegin, linkHash, linkText } from "#audit/export-format.ts";
import { chainOf, readLinks } from "#audit/export-store.ts";
import { record } from "#audit/record.ts";
import { showEntry } from "#audit/shown-entry.ts";
import { verifyExport } from "#audit/verify-export.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { openDatabase, type Db } from "#store/database.ts";
import { byPlatform } from "./support/accounts.ts";
import { asOwner } from "./support/as-owner.ts";
import { chainOn, exportChain, testSigner } from "./support/audit-chain.ts";
import { cleanLast, type WithAfter } from "./support/clean-last.ts";
import { openDatabaseGate } from "./support/database-gate.ts";
import { testDatabase } from "./support/database.ts";
import "./support/leftovers.ts";
import { until } from "./support/until.ts";

const dayMs = 86_400_000;
const signer = testSigner();
const projects = ["p-00000001", "p-00000002", "p-00000003", "p-00000004"] as ProjectId[];
const [first = "p-00000001" as ProjectId] = projects;

async function withProjects(t: WithAfter): Promise<{ db: Db; url: Secret }> {
  const { db, url } = await testDatabase(t);
  await db
    .insertInto("projects")
    .values(projects.map((id) => ({ id, name: id })))
    .execute();
  return { db, url };
}

async function add(db: Db, projectId: ProjectId | null, resource: string = "x"): Promise<void> {
  await record(db, { projectId, action: "app.update", by: byPlatform, resource: { type: "app", id: resource } });
}

/** The number of links of a chain, each of which must be the next and the hash of the one before and its entry. */
async function checkChain(db: Db, project: ProjectId | null): Promise<number> {
  const rows = await readLinks(db, { chain: chainOf(project), after: 0, through: 1e9, limit: 1e6 });
  let { hash } = chainBegin;
  for (const [index, row] of rows.entries()) {
    hash = linkHash(hash, linkText({ number: index + 1, project, entry: showEntry(row) }));
    assert.deepEqual([row.number, row.hash], [index + 1, hash]);
  }
  const count = sql<{ count: number }>`
    select count(*) as count from audit_log where project_id is not distinct from ${project}`;
  assert.equal(rows.length, (await count.execute(db)).rows[0]?.count, "every entry has a link");
  return rows.length;
}

async function assertIntact(text: string): Promise<void> {
  const verdict = await verifyExport(partsOf(text), signer.publicKeys);
  assert.equal(verdict.result, "intact", JSON.stringify(verdict));
}

async function* partsOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

test("any JSON has here the text that the database hashes", async (t) => {
  const { db } = await testDatabase(t);
  const text = fc.string({ unit: "binary" }).filter((value) => !value.includes("\0") && value.isWellFormed());
  const scalar = fc.oneof(
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.integer(),
  );
  const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      scalar,
      fc.array(tie("value"), { maxLength: 4 }),
      fc.dictionary(text, tie("value"), { maxKeys: 5 }),
    ),
  }));
  await fc.assert(
    fc.asyncProperty(fc.array(value, { minLength: 50, maxLength: 50 }), async (values) => {
      const texts = values.map((one) => JSON.stringify(one));
      const { rows } = await sql<{ text: string }>`
        select value::jsonb::text as text from unnest(${texts}::text[]) with ordinality as given(value, place) order by place`.execute(
        db,
      );
      for (const [index, json] of texts.entries()) {
        assert.equal(canonicalText(JSON.parse(json) as JsonValue), rows[index]?.text);
      }
    }),
    { numRuns: 100 },
  );
});

test("a hundred transactions at once, over several projects in any order, leave no gap and wait for none in a circle", async (t) => {
  const { db, url } = await withProjects(t);
  const many = await openDatabase({ url, connections: 40, log: silentLog });
  cleanLast(t, () => many.destroy());
  const expected = new Map<ProjectId | null, number>();
  const chains = [...projects, null];
  const one = async (index: number): Promise<void> => {
    // Another order for each, some projects twice, some left out.
    const order = Array.from(
      { length: 6 },
      (_, step) => chains[(index * (step + 1) + step * step) % chains.length] ?? null,
    );
    const isUndone = index % 7 === 0;
    const change = many.transaction().execute(async (tx) => {
      for (const project of order) await add(tx, project);
      if (isUndone) throw new Error("undone");
    });
    if (isUndone) return await assert.rejects(change, /undone/);
    await change;
    for (const project of order) expected.set(project, (expected.get(project) ?? 0) + 1);
  };
  for (let round = 0; round < 3; round++)
    await Promise.all(Array.from({ length: 100 }, (_, index) => one(index + round)));
  for (const project of chains) assert.equal(await checkChain(db, project), expected.get(project));
});

test("a connection that is cut before, in or after a commit leaves an entry with its link, or neither", async (t) => {
  const { db, url } = await withProjects(t);
  const gate = await openDatabaseGate(t, url);
  const through = await openDatabase({ url: new Secret(gate.url), connections: 20, log: silentLog });
  cleanLast(t, () => through.destroy());
  const held = through.transaction().execute(async (tx) => {
    await add(tx, first, "held");
    gate.shut();
    await add(tx, first, "never");
  });
  await assert.rejects(held);
  gate.open();
  let written = 0;
  let failed = 0;
  const stopping = new AbortController();
  const write = async (worker: number): Promise<void> => {
    while (!stopping.signal.aborted) {
      const change = through.transaction().execute(async (tx) => {
        await add(tx, projects[worker % 4] ?? null);
        await add(tx, projects[(worker + 1) % 4] ?? null);
      });
      await change.then(
        () => written++,
        () => failed++,
      );
    }
  };
  const workers = Array.from({ length: 12 }, (_, worker) => write(worker));
  for (let round = 1; round <= 8; round++) {
    await until("more was written", () => written >= round * 40);
    gate.shut();
    gate.open();
  }
  stopping.abort();
  await Promise.all(workers);
  assert.ok(failed > 0, "commits were cut");
  // Sessions whose client is gone end when they notice.
  await until("no session is left in the midst", async () => {
    const { rows } = await asOwner(db, (tx) =>
      sql`select from pg_stat_activity where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`.execute(
        tx,
      ),
    );
    return rows.length === 0;
  });
  let links = 0;
  for (const project of projects) links += await checkChain(db, project);
  assert.ok(
    links >= 2 * written && links <= 2 * (written + failed),
    `${links} links, ${written} written, ${failed} failed`,
  );
  await add(db, first);
  await checkChain(db, first);
});

test("what is changed in the database past all that keeps it is found in an export, to the microsecond", async (t) => {
  const { db } = await withProjects(t);
  const chain = chainOn(db, signer);
  for (let index = 0; index < 5; index++) {
    await record(db, {
      projectId: first,
      action: "app.update",
      by: { actor: { type: "person", id: "ada", name: "Ada" }, request: { id: "r", address: "::1", userAgent: "a/1" } },
      resource: { type: "app", id: "a", name: "A" },
      changes: { cpu: { old: 1, new: 2 } },
      reason: "none",
    });
  }
  await chain.checkpoint(first);
  const changes = {
    at: sql`at + interval '1 microsecond'`,
    action: sql`'app.delete'`,
    outcome: sql`'failure'`,
    actor_type: sql`'operator'`,
    actor_id: sql`null`,
    actor_name: sql`'ada'`,
    resource_type: sql`null`,
    resource_id: sql`''`,
    resource_name: sql`'B'`,
    request_id: sql`'s'`,
    address: sql`null`,
    user_agent: sql`'a/2'`,
    changes: sql`'{"cpu": {"new": 2, "old": 0}}'`,
    reason: sql`null`,
  };
  const { rows: columns } = await sql<{ name: string }>`
    select attname as name from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0`.execute(db);
  const covered = [...Object.keys(changes), "id", "project_id"];
  assert.deepEqual(covered.toSorted(), columns.map(({ name }) => name).toSorted(), "each column is tried here");
  const before = await db.selectFrom("audit_log").selectAll().where("id", "=", 3).executeTakeFirstOrThrow();
  const micros = sql`${(await sql<{ at: string }>`select at::text from audit_log where id = 3`.execute(db)).rows[0]?.at}::timestamptz`;
  for (const [column, value] of Object.entries(changes)) {
    await asOwner(db, (tx) => sql`update audit_log set ${sql.ref(column)} = ${value} where id = 3`.execute(tx));
    const verdict = await verifyExport(partsOf(await exportChain(db, signer, first)), signer.publicKeys);
    assert.ok(verdict.result === "broken", column);
    assert.deepEqual([verdict.trouble, verdict.entry], ["altered", 3], column);
    const old =
      column === "at" ? micros : column === "changes" ? JSON.stringify(before.changes) : before[column as "action"];
    await asOwner(db, (tx) => sql`update audit_log set ${sql.ref(column)} = ${old} where id = 3`.execute(tx));
    await assertIntact(await exportChain(db, signer, first));
  }
  const troubleAfter = async (statement: ReturnType<typeof sql>) => {
    await asOwner(db, (tx) => statement.execute(tx));
    const verdict = await verifyExport(partsOf(await exportChain(db, signer, first)), signer.publicKeys);
    return verdict.result === "broken" ? [verdict.trouble, verdict.entry] : verdict;
  };
  assert.deepEqual(await troubleAfter(sql`update audit_log set project_id = ${projects[1]} where id = 3`), [
    "missing",
    3,
  ]);
  await asOwner(db, (tx) => sql`update audit_log set project_id = ${first} where id = 3`.execute(tx));
  assert.deepEqual(await troubleAfter(sql`delete from audit_log where id <= 2`), ["missing", 1]);
  assert.deepEqual(await troubleAfter(sql`delete from audit_links where number > 3 and chain = ${first}`), [
    "missing",
    1,
  ]);
});

test("retention leaves a chain that is intact, while entries are added and exports are made, by two platforms at once", async (t) => {
  const { db, url } = await withProjects(t);
  const other = await openDatabase({ url, connections: 5, log: silentLog });
  cleanLast(t, () => other.destroy());
  const oldCount = 23_000;
  await sql`
    insert into audit_log (project_id, at, action, outcome, actor_type)
    select ${first}, now() - interval '20 days' + i * interval '1 millisecond', 'app.create', 'success', 'person'
      from generate_series(1, ${oldCount}::int) as i`.execute(db);
  await chainOn(db, signer).checkpoint(first);
  const stopping = new AbortController();
  let added = 0;
  const write = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await add(db, first);
      added++;
    }
  };
  const read = async (): Promise<number> => {
    let exports = 0;
    for (; !stopping.signal.aborted; exports++) {
      // Retention may be faster than an export, which then breaks off; a whole one is intact.
      const text = await exportChain(other, signer, first).catch((error: unknown) => {
        assert.match(String(error), /was removed while it was exported/);
        return null;
      });
      if (text !== null) await assertIntact(text);
    }
    return exports;
  };
  const [writing, reading] = [write(), read()];
  await until("entries are added", () => added > 10);
  const removal = (of: Db) => {
    const options = { db: of, clock: systemClock, log: silentLog, signer, retentionOf: () => 10 };
    return removeOldEntries(options, new AbortController().signal);
  };
  await Promise.all([removal(db), removal(other)]);
  stopping.abort();
  await Promise.all([writing, reading]);
  await removal(db);
  const stub = await db.selectFrom("audit_stubs").selectAll().where("chain", "=", first).executeTakeFirstOrThrow();
  assert.equal(stub.number, oldCount);
  const young = new Date(Date.now() - 10 * dayMs);
  assert.equal((await db.selectFrom("audit_log").select("id").where("at", "<", young).execute()).length, 0);
  const text = await exportChain(db, signer, first);
  await assertIntact(text);
  assert.match(text.split("\n")[1] ?? "", /^\{"kind":"stub","number":23000,/);
});

test("retention keeps to each project's days, and a chain goes on after all of it was removed", async (t) => {
  const { db } = await withProjects(t);
  const at = new Date(Date.now() - 5 * dayMs);
  const old = { action: "app.create", outcome: "success", actor_type: "person", at } as const;
  for (const project_id of [...projects, null])
    await db
      .insertInto("audit_log")
      .values({ ...old, project_id })
      .execute();
  const retentionOf = (project: ProjectId | null): number => (project === first || project === null ? 4 : 6);
  const options = { db, clock: systemClock, log: silentLog, signer, retentionOf };
  await removeOldEntries(options, new AbortController().signal);
  const { rows } = await sql<{ project_id: string }>`select project_id from audit_log order by project_id`.execute(db);
  assert.deepEqual(
    rows.map((row) => row.project_id),
    projects.slice(1),
  );
  await assertIntact(await exportChain(db, signer, first));
  const links = await readLinks(db, { chain: first, after: 0, through: 10, limit: 10 });
  assert.deepEqual(
    links.map(({ number }) => number),
    [2],
    "the number of the removed entry is not used again",
  );
});

test("retention's own door removes nothing that is younger than a day, or than it says", async (t) => {
  const { db } = await withProjects(t);
  await add(db, first);
  const entry = { project_id: first, action: "app.create", outcome: "success", actor_type: "person" } as const;
  await db
    .insertInto("audit_log")
    .values({ ...entry, at: new Date(Date.now() - 3 * dayMs) })
    .execute();
  for (const days of [-1, 0, 0.5, 1, 2]) {
    const before = new Date(Date.now() - days * dayMs);
    const removal = sql`select remove_audit_entries(${first}, 2, ${before}, now(), 'k', 'j')`.execute(db);
    await assert.rejects(removal, /too young to be removed/, String(days));
  }
  assert.equal(await checkChain(db, first), 2);
});

test("ends are signed when their last checkpoint is an hour old or a thousand entries back, and when the platform stops", async (t) => {
  const { db } = await withProjects(t);
  let now = Date.now();
  const chain = chainOn(db, signer, { ...systemClock, now: () => now });
  const signed = async () => {
    await chain.signDue(new AbortController().signal);
    const rows = await db
      .selectFrom("audit_checkpoints")
      .select(["chain", "number", "previous"])
      .orderBy("number")
      .execute();
    return rows.filter((row) => row.chain === first).map(({ number, previous }) => [number, previous]);
  };
  assert.deepEqual(await signed(), [], "there is nothing to sign");
  await add(db, first);
  await add(db, null);
  assert.deepEqual(await signed(), [[1, 0]]);
  await add(db, first);
  now += 3_599_000;
  assert.deepEqual(await signed(), [[1, 0]]);
  now += 2_000;
  assert.deepEqual(await signed(), [
    [1, 0],
    [2, 1],
  ]);
  assert.deepEqual(
    await signed(),
    [
      [1, 0],
      [2, 1],
    ],
    "nothing was added",
  );
  await sql`
    insert into audit_log (project_id, action, outcome, actor_type)
    select ${first}, 'app.create', 'success', 'person' from generate_series(1, 1000)`.execute(db);
  assert.deepEqual(await signed(), [
    [1, 0],
    [2, 1],
    [1002, 2],
  ]);
  await add(db, first);
  await Promise.all([chain.stop(), chainOn(db, signer).stop()]);
  assert.deepEqual(await signed(), [
    [1, 0],
    [2, 1],
    [1002, 2],
    [1003, 1002],
  ]);
  const all = await db.selectFrom("audit_checkpoints").select("chain").where("chain", "=", "platform").execute();
  assert.equal(all.length, 1);
  await assertIntact(await exportChain(db, signer, first));
});

test("what a key has signed that was withdrawn is signed anew in an export; a key that is only retired still counts", async (t) => {
  const { db } = await withProjects(t);
  const old = { project_id: first, action: "app.create", outcome: "success", actor_type: "person" } as const;
  await db
    .insertInto("audit_log")
    .values({ ...old, at: new Date(Date.now() - 5 * dayMs) })
    .execute();
  const options = { db, clock: systemClock, log: silentLog, signer, retentionOf: () => 4 };
  await removeOldEntries(options, new AbortController().signal);
  await add(db, first);
  await chainOn(db, signer).checkpoint(first);
  const next = testSigner("next-key");
  const withOld = { ...next, verifier: (keyId: string) => next.verifier(keyId) ?? signer.verifier(keyId) };
  const keysOf = (text: string) =>
    text
      .trimEnd()
      .split("\n")
      .flatMap((line) => keyIdOf((JSON.parse(line) as { jws?: string }).jws ?? "") ?? []);
  const retired = await exportChain(db, withOld, first);
  assert.deepEqual(keysOf(retired), ["next-key", "test-key", "test-key", "next-key"]);
  const both = new Map([...signer.publicKeys, ...next.publicKeys]);
  assert.equal((await verifyExport(partsOf(retired), both)).result, "intact");
  const withdrawn = await exportChain(db, next, first);
  assert.deepEqual([...new Set(keysOf(withdrawn))], ["next-key"]);
  assert.equal((await verifyExport(partsOf(withdrawn), next.publicKeys)).result, "intact");
});
