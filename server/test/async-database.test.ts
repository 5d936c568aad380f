// Async runs and their database: one app's backlog does not hold up another, and while the database
// is away nothing is accepted and nothing is lost.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import type { AppId, RunId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { testDatabase } from "#test/support/database.ts";
import { openDatabaseGate, type DatabaseGate } from "#test/support/database-gate.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { startPlatform, type PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";

const app = `import threading, time

go = threading.Event()

def run():
    return 1

def wait():
    go.wait(60)
    return 2

def release():
    go.set()

def slow():
    time.sleep(0.2)
`;

type Fixture = { readonly platform: PlatformProcess; readonly db: Db; readonly gate: DatabaseGate };

async function stage(t: TestContext): Promise<Fixture> {
  const { db, url } = await testDatabase(t);
  const gate = await openDatabaseGate(t, url);
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": app });
  const platform = await startPlatform(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_DATABASE_URL: gate.url,
  });
  for (const name of ["quick", "busy"]) {
    const common = {
      gitRepo: "acme/app",
      pythonVersion: "3.11",
      cooldownPeriodSeconds: 600,
      maxReplicaCount: 1,
    };
    const { status, log } = await deploy(platform, { name, ...common, replicaConcurrency: 2 });
    assert.equal(status, "success", log);
  }
  return { platform, db, gate };
}

async function stateOf(db: Db, runId: RunId): Promise<string> {
  const row = await db
    .selectFrom("runs")
    .select("state")
    .where("id", "=", runId)
    .executeTakeFirst();
  return row?.state ?? "not there";
}

async function accepted(response: Response): Promise<RunId> {
  const text = await response.text();
  assert.equal(response.status, 202, text);
  return (JSON.parse(text) as { run_id: RunId }).run_id;
}

/** Runs as they would be after a night in which nobody worked them off. */
const lines = "Host: app\r\nContent-Type: application/json\r\n";

async function addBacklog(db: Db, appId: AppId, count: number): Promise<void> {
  await sql`
    with made as (
      insert into runs (id, project_id, app_id, state, method, path, client_address, retries_max)
      select gen_random_uuid(), split_part(${appId}, '-busy', 1), ${appId}, 'pending', 'POST', '/slow', '127.0.0.1', 0
        from generate_series(1, ${count}) returning id
    )
    insert into run_requests (run_id, target, lines, body) select id, '/slow', ${lines}, '{}' from made`.execute(
    db,
  );
}

async function aBacklogHoldsUpNobodyElse({ platform, db }: Fixture): Promise<void> {
  const { projectId } = platform.bootstrap;
  const busy = `${projectId}-busy` as AppId;
  await addBacklog(db, busy, 30_000);
  await until("the backlog is being worked off", async () => {
    const done = sql<{
      n: number;
    }>`select count(*)::int as n from runs where app_id = ${busy} and state = 'success'`;
    return ((await done.execute(db)).rows[0]?.n ?? 0) > 0;
  });
  for (let count = 0; count < 20; count++) {
    const runId = await accepted(await platform.call("quick", "run?async=true"));
    await until(
      `run ${count} of the other app ends`,
      async () => (await stateOf(db, runId)) === "success",
    );
  }
  const held = await sql<{ n: number }>`
    select count(*)::int as n from runs where app_id = ${busy} and state in ('queued', 'running')`.execute(
    db,
  );
  assert.ok((held.rows[0]?.n ?? 0) <= 8, "only some of the backlog are in hand at a time");
  await sql`delete from runs where app_id = ${busy} and state = 'pending'`.execute(db);
}

const probe = (platform: PlatformProcess, path: "/healthz" | "/readyz"): Promise<Response> =>
  fetch(platform.bootstrap.baseUrl + path);

async function nothingIsAcceptedOrLost({ platform, db, gate }: Fixture): Promise<void> {
  const running = await accepted(await platform.call("quick", "wait?async=true"));
  await until("it runs", async () => (await stateOf(db, running)) === "running");
  assert.equal((await probe(platform, "/readyz")).status, 200);
  gate.shut();
  await until(
    "the platform says that it accepts no runs",
    async () => (await probe(platform, "/readyz")).status === 503,
  );
  const told = (await (await probe(platform, "/readyz")).json()) as { message: string };
  assert.match(told.message, /database does not accept writes/);
  assert.equal(
    (await probe(platform, "/healthz")).status,
    200,
    "nobody has a reason to restart it",
  );
  const refused = await platform.call("quick", "run?async=true");
  const { message } = (await refused.json()) as { message: string };
  assert.deepEqual([refused.status, /could not be stored/.test(message)], [503, true], message);
  assert.notEqual(refused.headers.get("retry-after"), null);
  assert.equal((await platform.call("quick", "run")).status, 200, "plain calls go on");
  // It ends while nobody can write that down.
  assert.equal((await platform.call("quick", "release")).status, 200);
  gate.open();
  await until("its end is written", async () => (await stateOf(db, running)) === "success", {
    deadlineMs: 30_000,
  });
  const row = await db
    .selectFrom("runs")
    .select(["attempt", "lease_epoch"])
    .where("id", "=", running)
    .executeTakeFirst();
  assert.equal(row?.attempt, 1, "it ran once");
  await until(
    "the platform says that it is well",
    async () => (await probe(platform, "/readyz")).status === 200,
  );
  await until(
    "runs are accepted again",
    async () => (await platform.call("quick", "run?async=true")).status === 202,
  );
}

test("async runs get along with their database", async (t) => {
  const fixture = await stage(t);
  await t.test("a backlog of 30,000 runs of one app does not hold up those of another", () =>
    aBacklogHoldsUpNobodyElse(fixture),
  );
  await t.test("while the database is away nothing is accepted, and nothing is lost", () =>
    nothingIsAcceptedOrLost(fixture),
  );
});
