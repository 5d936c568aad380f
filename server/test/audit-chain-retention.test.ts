// How chains of the audit log are signed and cut: checkpoints, retention with its stubs while
// entries are added and exports made, keys that were withdrawn.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { auditRetention } from "#audit/chain/audit-retention.ts";
import { keyIdOf, signText } from "#audit/chain/chain-signature.ts";
import { checkpointLine, signedText } from "#audit/export/export-format.ts";
import { readLinks } from "#audit/export/export-store.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { removeOld } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import {
  add,
  assertIntact,
  checkChain,
  dayMs,
  first,
  partsOf,
  projects,
  signer,
  withProjects,
} from "./audit-chain-stage.ts";
import { chainOn, exportChain, testSigner } from "./support/audit-chain.ts";
import { cleanLast } from "./support/clean-last.ts";
import "./support/leftovers.ts";
import { until } from "./support/until.ts";
import { connect } from "./support/connect.ts";

test("retention leaves a chain that is intact, while entries are added and exports are made, by two platforms at once", async (t) => {
  const { db, url } = await withProjects(t);
  const other = await connect(url, 5);
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
  const writing = write();
  const reading = read();
  await until("entries are added", () => added > 10);
  const removal = (of: Db) => {
    const options = { db: of, clock: systemClock, signer, retentionOf: () => 10 };
    return removeOld(auditRetention(options), new AbortController().signal);
  };
  await Promise.all([removal(db), removal(other)]);
  stopping.abort();
  await Promise.all([writing, reading]);
  await removal(db);
  const stub = await db
    .selectFrom("audit_stubs")
    .selectAll()
    .where("chain", "=", first)
    .executeTakeFirstOrThrow();
  assert.equal(stub.number, oldCount);
  const young = new Date(Date.now() - 10 * dayMs);
  assert.equal(
    (await db.selectFrom("audit_log").select("id").where("at", "<", young).execute()).length,
    0,
  );
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
  const retentionOf = (project: ProjectId | null): number =>
    project === first || project === null ? 4 : 6;
  const options = { db, clock: systemClock, signer, retentionOf };
  await removeOld(auditRetention(options), new AbortController().signal);
  const { rows } = await sql<{
    project_id: string;
  }>`select project_id from audit_log order by project_id`.execute(db);
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
  const entry = {
    project_id: first,
    action: "app.create",
    outcome: "success",
    actor_type: "person",
  } as const;
  await db
    .insertInto("audit_log")
    .values({ ...entry, at: new Date(Date.now() - 3 * dayMs) })
    .execute();
  for (const days of [-1, 0, 0.5, 1, 2]) {
    const before = new Date(Date.now() - days * dayMs);
    const removal =
      sql`select remove_audit_entries(${first}, 2, ${before}, now(), 'k', 'j')`.execute(db);
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
    return rows
      .filter((row) => row.chain === first)
      .map(({ number, previous }) => [number, previous]);
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
  // A clock that was far ahead when the last one was made.
  now -= 30 * dayMs;
  await add(db, first);
  assert.deepEqual((await signed()).at(-1), [1004, 1003]);
  await add(db, first);
  now += 3_000_000;
  assert.deepEqual((await signed()).at(-1), [1004, 1003]);
  const all = await db
    .selectFrom("audit_checkpoints")
    .select("chain")
    .where("chain", "=", "platform")
    .execute();
  assert.equal(all.length, 1);
  await assertIntact(await exportChain(db, signer, first));
});

test("what a key has signed that was withdrawn is signed anew in an export; a key that is only retired still counts", async (t) => {
  const { db } = await withProjects(t);
  const old = {
    project_id: first,
    action: "app.create",
    outcome: "success",
    actor_type: "person",
  } as const;
  await db
    .insertInto("audit_log")
    .values({ ...old, at: new Date(Date.now() - 5 * dayMs) })
    .execute();
  const options = { db, clock: systemClock, signer, retentionOf: () => 4 };
  await removeOld(auditRetention(options), new AbortController().signal);
  await add(db, first);
  await chainOn(db, signer).checkpoint(first);
  const next = testSigner("next-key");
  const withOld = {
    ...next,
    verifier: (keyId: string) => next.verifier(keyId) ?? signer.verifier(keyId),
  };
  const keysOf = (text: string) =>
    text
      .trimEnd()
      .split("\n")
      .flatMap((line) => keyIdOf((JSON.parse(line) as { jws?: string }).jws ?? "") ?? []);
  const retired = await exportChain(db, withOld, first);
  assert.deepEqual(keysOf(retired), ["next-key", "test-key", "test-key", "next-key"]);
  const both = new Map([...signer.publicKeys, ...next.publicKeys]);
  assert.equal((await verifyExport(partsOf(retired), both)).result, "intact");
  const withdrawn = await exportChain(db, { ...next, withdrawn: signer.verifier }, first);
  assert.deepEqual([...new Set(keysOf(withdrawn))], ["next-key"]);
  assert.equal((await verifyExport(partsOf(withdrawn), next.publicKeys)).result, "intact");
});

test("what none of the platform's keys has signed is not signed for it: a chain and signatures written anew are found out", async (t) => {
  const { db } = await withProjects(t);
  await add(db, first);
  await chainOn(db, signer).checkpoint(first);
  const stranger = testSigner("strangers-key");
  await db.transaction().execute(async (tx) => {
    // As whoever owns the database may.
    await sql`set local role none`.execute(tx);
    await sql`alter table audit_checkpoints disable trigger all`.execute(tx);
    const [kept] = await tx.selectFrom("audit_checkpoints").selectAll().execute();
    assert.ok(kept);
    const line = checkpointLine({
      ...kept,
      hash: kept.hash.toString("hex"),
      at: kept.at.toISOString(),
      jws: "",
    });
    const { jws: _, ...unsigned } = line;
    const { jws, keyId } = await signText(stranger, signedText(unsigned, first));
    await tx.updateTable("audit_checkpoints").set({ jws, key_id: keyId }).execute();
    await sql`alter table audit_checkpoints enable trigger all`.execute(tx);
  });
  for (const withdrawn of [() => undefined, () => testSigner().verifier("test-key")]) {
    const text = await exportChain(db, { ...signer, withdrawn }, first);
    const verdict = await verifyExport(partsOf(text), signer.publicKeys);
    assert.equal(verdict.result, "broken");
    assert.match(
      JSON.stringify(verdict),
      /signed with the key .*strangers-key.* which is not among the given keys/,
    );
  }
});
