// How the audit log is kept: any page of a large one is read by an index, old entries go, and who
// acted with an inference token is told from service accounts in rows of before too.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { copyFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { auditLogPage } from "@slipway/contract/audit-routes.ts";
import { auditRetention } from "#audit/chain/audit-retention.ts";
import { listEntries, type AuditQuery } from "#audit/audit-store.ts";
import { chainBegin, linkHash, linkText } from "#audit/export/export-format.ts";
import { chainOf, readLinks, type LinkedRow } from "#audit/export/export-store.ts";
import { record } from "#audit/record.ts";
import { showEntry } from "#audit/shown-entry.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { removeOld } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { migrate } from "#store/migrate.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { byPlatform } from "./support/accounts.ts";
import { asOwner } from "./support/as-owner.ts";
import { testSigner } from "./support/audit-chain.ts";
import { cleanLast } from "./support/clean-last.ts";
import { emptyDatabase, testDatabase } from "./support/database.ts";
import { makeFolder, removeFolder } from "./support/folder.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { connect } from "./support/connect.ts";
import { planOf } from "./support/statement-plan.ts";

const projectId = "p-00000001" as ProjectId;
const count = 150_000;
/** Each statement has a deadline. */
const batch = 50_000;
const begin = "2026-01-01";
const beginMicros = Date.parse(begin) * 1_000;

async function addProject(db: Db, id: ProjectId): Promise<void> {
  await db.insertInto("projects").values({ id, name: id }).execute();
}

/**
 * A row each second. Every combination of what there is to filter by, some of them rare, one of
 * them not there.
 */
async function fill(db: Db, rows: number): Promise<void> {
  for (let done = 0; done < rows; done += batch)
    await fillSome(db, done, Math.min(done + batch, rows));
}

async function fillSome(db: Db, after: number, last: number): Promise<void> {
  await sql`
    insert into audit_log (project_id, at, action, outcome, actor_type, actor_id)
    select ${projectId}, ${begin}::timestamptz + i * interval '1 second',
           case when i % 1000 = 0 then 'app.delete' when i % 3 = 0 then 'secrets.read' else 'app.update' end,
           case when i % 2 = 0 then 'success' else 'failure' end,
           'service_account',
           case when i % 500 = 1 then 'rare' when i % 3 = 0 then 'reader' else 'writer' end
      from generate_series(${after}::int + 1, ${last}::int) as i`.execute(db);
}

test("a page reads a page of rows by an index, whatever is asked for and however deep", async (t) => {
  const { db } = await testDatabase(t);
  await addProject(db, projectId);
  await fill(db, count);
  await asOwner(db, (tx) => sql`analyze audit_log`.execute(tx));
  const deep = { atMicros: beginMicros + 1_000 * 1_000_000 + 7, id: 1_000 };
  const middle = {
    fromMicros: beginMicros + 60_000 * 1_000_000,
    toMicros: beginMicros + 75_000 * 1_000_000,
  };
  const places: Partial<AuditQuery>[] = [
    {},
    { before: deep },
    middle,
    { fromMicros: beginMicros, before: deep },
  ];
  const queries: AuditQuery[] = [];
  for (const place of places) {
    for (const action of [null, "app.update", "secrets.read", "app.delete", "run.cancel"]) {
      // No "reader" ever did "app.update", and no "app.delete" has failed: both are frequent,
      // together there are none.
      for (const actorId of [null, "reader", "writer", "rare", "nobody"]) {
        for (const outcome of [null, "success", "failure"] as const) {
          queries.push({ projectId, ...place, action, actorId, outcome, limit: 51 });
        }
      }
    }
  }
  assert.equal(queries.length, 300);
  for (const query of drawCases(queries, { what: "queries", max: 60 })) {
    await assertReadsLittle(db, query);
  }
});

/** No scan touches more rows than the page holds, those that it throws away included. */
async function assertReadsLittle(db: Db, query: AuditQuery): Promise<void> {
  const what = JSON.stringify(query);
  const steps = await planOf(db, (through) => listEntries(through, query));
  const scans = steps.filter((node) => "Relation Name" in node || "Index Name" in node);
  assert.ok(scans.length > 0, what);
  for (const scan of scans) {
    assert.match(String(scan["Node Type"]), /Index/, what);
    const dropped =
      Number(scan["Rows Removed by Filter"] ?? 0) +
      Number(scan["Rows Removed by Index Recheck"] ?? 0);
    const touched = Number(scan["Actual Rows"]) + dropped;
    assert.ok(touched <= 51, `${what}: ${String(scan["Index Name"])} touched ${touched} rows`);
  }
}

test("entries older than the retention are removed in steps, of every project and of none, and not once it is to stop", async (t) => {
  const { db } = await testDatabase(t);
  await addProject(db, projectId);
  const entry = {
    project_id: projectId,
    action: "app.create",
    outcome: "success",
    actor_type: "person",
  } as const;
  const days = (ago: number): Date => new Date(Date.now() - ago * 86_400_000);
  await fillOld(db, 12_000);
  await db
    .insertInto("audit_log")
    .values([
      { ...entry, at: days(11), project_id: null, resource_id: "old" },
      { ...entry, at: days(9), project_id: null, resource_id: "kept" },
      { ...entry, at: days(9), resource_id: "kept" },
      { ...entry, resource_id: "kept" },
    ])
    .execute();
  const options = { db, clock: systemClock, signer: testSigner(), retentionOf: () => 10 };
  await removeOld(auditRetention(options), AbortSignal.abort(new Error("stop")));
  const left = async () => await db.selectFrom("audit_log").select("resource_id").execute();
  assert.equal((await left()).length, 12_004);
  await removeOld(auditRetention(options), new AbortController().signal);
  assert.deepEqual(
    (await left()).map((row) => row.resource_id),
    ["kept", "kept", "kept"],
  );
});

async function fillOld(db: Db, rows: number): Promise<void> {
  await sql`
    insert into audit_log (project_id, at, action, outcome, actor_type)
    select ${projectId}, timestamptz '2020-01-01' + i * interval '1 second', 'app.create', 'success', 'person'
      from generate_series(1, ${rows}::int) as i`.execute(db);
}

test("entries of a database of before are told from what service accounts did, and chained in the order of time", async (t) => {
  const url = await emptyDatabase(t);
  const before = makeFolder("migrations");
  const all = join(import.meta.dirname, "../src/store/migrations");
  t.after(() => removeFolder(before));
  for (const file of readdirSync(all).filter((name) => name < "0005"))
    copyFileSync(join(all, file), join(before, file));
  await migrate({ url, log: silentLog, folder: before });
  const db = await connect(url, 2);
  cleanLast(t, () => db.destroy());
  const inference = randomUUID();
  const service = randomUUID();
  await addProject(db, projectId);
  await sql`insert into tokens (id, project_id, kind, name) values (${inference}, ${projectId}, 'inference', 'calls')`.execute(
    db,
  );
  const entry = {
    action: "secrets.read",
    outcome: "failure",
    actor_type: "service_account",
  } as const;
  const at = (second: number): Date => new Date(Date.parse(begin) + second * 1_000);
  await db
    .insertInto("audit_log")
    .values([
      {
        ...entry,
        project_id: projectId,
        actor_id: service,
        at: at(2),
        changes: toJson({ name: { new: "\u0001ä" } }),
      },
      {
        ...entry,
        project_id: projectId,
        actor_id: inference,
        at: at(1),
        resource_type: "app",
        resource_id: "",
      },
      { ...entry, project_id: null, actor_id: null, at: at(3) },
    ])
    .execute();
  await db.destroy();
  await migrate({ url, log: silentLog });
  const now = await connect(url, 2);
  cleanLast(t, () => now.destroy());
  await record(now, { projectId, action: "app.create", by: byPlatform });
  const actors = async (project: ProjectId | null) =>
    (await chainOfProject(now, project)).map((row) => row.actor_type);
  assert.deepEqual(await actors(projectId), ["inference_token", "service_account", "platform"]);
  assert.deepEqual(await actors(null), ["service_account"]);
});

/** All links of a chain, each of which is the hash of the one before and its entry. */
async function chainOfProject(db: Db, project: ProjectId | null): Promise<LinkedRow[]> {
  const rows = await readLinks(db, { chain: chainOf(project), after: 0, through: 100, limit: 100 });
  let { hash } = chainBegin;
  for (const [index, row] of rows.entries()) {
    hash = linkHash(hash, linkText({ number: index + 1, project, entry: showEntry(row) }));
    assert.deepEqual([row.number, row.hash], [index + 1, hash]);
  }
  return rows;
}

test("a platform keeps and shows entries as long as it is set to", async (t: TestContext) => {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_AUDIT_RETENTION_DAYS: "7" });
  const { projectId: own } = platform.bootstrap;
  const answer = await platform.api(
    "GET",
    `/v2/projects/${own}/audit-log?from=1970-01-01T00:00:00Z&limit=200`,
  );
  assert.equal(answer.status, 200);
  const page = auditLogPage.parse(answer.body);
  assert.deepEqual([page.retentionDays, page.hasMore], [7, false]);
  assert.ok(page.logs.some(({ action }) => action === "project.create"));
  const times = page.logs.map(({ timestamp }) => timestamp);
  assert.deepEqual(times, times.toSorted().toReversed(), "newest first");
});
