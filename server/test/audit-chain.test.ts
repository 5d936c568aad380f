// The chain of the audit log on a real database: every committed entry has the next number and its
// hash, whoever writes at the same time and whatever breaks; what is changed past the platform is
// found in an export.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { sql } from "kysely";
import { canonicalText, type JsonValue } from "#audit/chain/canonical.ts";
import { record } from "#audit/record.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import {
  add,
  assertIntact,
  checkChain,
  first,
  partsOf,
  projects,
  signer,
  withProjects,
} from "./audit-chain-stage.ts";
import { anyText } from "./support/any-text.ts";
import { asOwner } from "./support/as-owner.ts";
import { chainOn, exportChain } from "./support/audit-chain.ts";
import { cleanLast } from "./support/clean-last.ts";
import { openDatabaseGate } from "./support/database-gate.ts";
import { testDatabase } from "./support/database.ts";
import "./support/leftovers.ts";
import { until } from "./support/until.ts";
import { connect } from "./support/connect.ts";

test("any JSON has here the text that the database hashes", async (t) => {
  const { db } = await testDatabase(t);
  const text = anyText().filter((value) => !value.includes("\0") && value.isWellFormed());
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
  const many = await connect(url, 40);
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
  const through = await connect(new Secret(gate.url), 20);
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
      by: {
        actor: { type: "person", id: "ada", name: "Ada" },
        request: { id: "r", address: "::1", userAgent: "a/1" },
      },
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
    select attname as name from pg_attribute where attrelid = 'audit_log'::regclass and attnum > 0`.execute(
    db,
  );
  const covered = [...Object.keys(changes), "id", "project_id"];
  assert.deepEqual(
    covered.toSorted(),
    columns.map(({ name }) => name).toSorted(),
    "each column is tried here",
  );
  const before = await db
    .selectFrom("audit_log")
    .selectAll()
    .where("id", "=", 3)
    .executeTakeFirstOrThrow();
  const micros = sql`${(await sql<{ at: string }>`select at::text from audit_log where id = 3`.execute(db)).rows[0]?.at}::timestamptz`;
  for (const [column, value] of Object.entries(changes)) {
    await asOwner(db, (tx) =>
      sql`update audit_log set ${sql.ref(column)} = ${value} where id = 3`.execute(tx),
    );
    const verdict = await verifyExport(
      partsOf(await exportChain(db, signer, first)),
      signer.publicKeys,
    );
    assert.ok(verdict.result === "broken", column);
    assert.deepEqual([verdict.trouble, verdict.entry], ["altered", 3], column);
    let old: unknown = before[column as "action"];
    if (column === "at") old = micros;
    else if (column === "changes") old = JSON.stringify(before.changes);
    await asOwner(db, (tx) =>
      sql`update audit_log set ${sql.ref(column)} = ${old} where id = 3`.execute(tx),
    );
    await assertIntact(await exportChain(db, signer, first));
  }
  const troubleAfter = async (statement: ReturnType<typeof sql>) => {
    await asOwner(db, (tx) => statement.execute(tx));
    const verdict = await verifyExport(
      partsOf(await exportChain(db, signer, first)),
      signer.publicKeys,
    );
    return verdict.result === "broken" ? [verdict.trouble, verdict.entry] : verdict;
  };
  assert.deepEqual(
    await troubleAfter(sql`update audit_log set project_id = ${projects[1]} where id = 3`),
    ["missing", 3],
  );
  await asOwner(db, (tx) =>
    sql`update audit_log set project_id = ${first} where id = 3`.execute(tx),
  );
  assert.deepEqual(await troubleAfter(sql`delete from audit_log where id <= 2`), ["missing", 1]);
  assert.deepEqual(
    await troubleAfter(sql`delete from audit_links where number > 3 and chain = ${first}`),
    ["missing", 1],
  );
});
