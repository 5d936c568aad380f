// The deletion of apps and projects on a whole platform: the name is free at once, what runs may
// end, everything that is the app's goes, over a kill in the midst, and the audit log and usage
// stay.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { sql } from "kysely";
import type { Db } from "#store/database.ts";
import { drawTests } from "./support/drawn-cases.ts";
import { gatedApp, startCallGate, type CallGate } from "./support/call-gate.ts";
import { testDatabase } from "./support/database.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer, type GitServer } from "./support/git-server.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

const test = drawTests({ what: "kinds of deletions", count: 4, max: 2 });

const fields = { gitRepo: "acme/story", pythonVersion: "3.11", cooldownPeriodSeconds: 600 };
const deadlineMs = 90_000;

type Fixture = {
  readonly platform: PlatformProcess;
  readonly db: Db;
  readonly gate: CallGate;
  readonly git: GitServer;
  readonly project: string;
};

async function fixture(t: TestContext): Promise<Fixture> {
  const { db, url } = await testDatabase(t);
  const gate = await startCallGate(t);
  const git = await startGitServer(t);
  await git.createRepo("acme", "story", { "main.py": `${gatedApp}\nprint("loaded")\n` });
  await git.createRepo("acme", "slow", {
    "main.py": "import time\ntime.sleep(3600)\ndef run(): pass\n",
  });
  const settings = {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_METERING_SECONDS: "1",
    ...gate.settings,
  };
  const platform = await startPlatform(t, { ...settings, SLIPWAY_DATABASE_URL: url.reveal() });
  return { platform, db, gate, git, project: `/v2/projects/${platform.bootstrap.projectId}` };
}

/** Tables that know apps, each with its rows of the app; those that are kept are left out. */
async function leftOf(db: Db, appId: string): Promise<Record<string, number>> {
  const kept = ["usage_days", "usage_months", "usage_slices"];
  const { rows: tables } = await sql<{ name: string }>`
    select table_name as name from information_schema.columns
     where table_schema = 'public' and column_name = 'app_id' and table_name <> all(${kept}::text[])`.execute(
    db,
  );
  assert.ok(tables.length > 10, "the tables are found");
  const left: Record<string, number> = {};
  for (const { name } of tables) {
    const { rows } = await sql<{ count: string }>`
      select count(*) as count from ${sql.table(name)} where app_id = ${appId}`.execute(db);
    const count = Number(rows[0]?.count);
    if (count > 0) left[name] = count;
  }
  return left;
}

async function isRemoved(db: Db, appId: string): Promise<boolean> {
  const app = await db
    .selectFrom("apps")
    .select("removed_at")
    .where("id", "=", appId as never)
    .executeTakeFirst();
  return app !== undefined && app.removed_at !== null;
}

async function actionsOf({ platform, project }: Fixture): Promise<string[]> {
  const { body } = await platform.api("GET", `${project}/audit-log?limit=200`);
  return (body.logs as { action: string; outcome: string; resource: { id: string } }[])
    .filter(({ action }) => action === "app.delete" || action === "project.delete")
    .map(({ action, outcome, resource }) => `${action} ${resource.id} ${outcome}`);
}

test("a deleted app frees its name at once, ends no running call, and leaves audit log and usage only", async (t) => {
  const at = await fixture(t);
  const { platform, db, gate, project } = at;
  const { appId } = await deploy(platform, {
    name: "story",
    ...fields,
    maxReplicaCount: 1,
    replicaConcurrency: 2,
  });
  const app = `${project}/apps/${appId}`;
  assert.equal((await platform.api("PATCH", `${app}/secrets`, { KEY: "value" })).status, 200);
  const budget = await platform.api("PUT", `${app}/budget`, { amount_cents: 100_000 });
  assert.equal(budget.status, 200, JSON.stringify(budget.body));
  const long = platform.call("story", "run", { gate: gate.urls });
  const attempt = await platform.call("story", "run?async=true", { gate: gate.urls });
  assert.equal(attempt.status, 202);
  await until("a call and an attempt run", () => gate.waiting() === 2);
  const line = platform.call("story", "run", {});
  const waiting = (await (await platform.call("story", "run?async=true", {})).json()) as {
    run_id: string;
  };

  const deletions = await Promise.all([platform.api("DELETE", app), platform.api("DELETE", app)]);
  assert.ok(
    deletions.some(({ status }) => status === 200) &&
      deletions.some(({ status }) => status === 409 || status === 404),
    JSON.stringify(deletions),
  );
  assert.equal((await line).status, 404, "whoever waited is told");
  assert.equal((await platform.call("story", "run", {})).status, 404);
  for (const path of [
    "",
    "/builds",
    "/runs",
    "/logs",
    "/containers",
    "/secrets",
    "/budget",
    `/runs/${waiting.run_id}`,
  ])
    assert.equal((await platform.api("GET", `${app}${path}`)).status, 404, path);
  assert.equal((await platform.api("POST", `${app}/stop`)).status, 404);
  assert.deepEqual((await platform.api("GET", `${project}/apps`)).body, []);

  const again = await deploy(platform, { name: "story", ...fields });
  assert.deepEqual([again.appId, again.status], [appId, "success"], again.log);
  assert.equal(
    (await platform.call("story", "run", {})).status,
    200,
    "the new app answers while the old one ends",
  );
  assert.deepEqual((await platform.api("GET", `${app}/secrets`)).body, {});
  const { items } = (await platform.api("GET", `${app}/runs`)).body as { items: { id: string }[] };
  assert.ok(
    !items.some(({ id }) => id === waiting.run_id),
    "it has none of the runs of the old one",
  );
  const [build] = (await platform.api("GET", `${app}/builds`)).body as {
    number: number;
    appId: string;
  }[];
  assert.deepEqual([build?.number, build?.appId], [1, appId]);
  assert.equal(
    (
      await db
        .selectFrom("replicas")
        .selectAll()
        .where("app_id", "=", appId as never)
        .execute()
    ).length,
    1,
  );

  gate.open();
  assert.equal((await long).status, 200, "the running call has ended as ever");
  await until("nothing is left of the old one", () => isRemoved(db, appId), { deadlineMs });
  assert.deepEqual(await leftOf(db, appId), {});
  assert.equal((await platform.call("story", "run", {})).status, 200, "the new one goes on");
  const { rows: usage } = await sql<{
    app_id: string;
    source_id: string;
  }>`select * from usage_slices`.execute(db);
  assert.ok(
    usage.length > 0 && usage.every(({ app_id: of }) => of === appId),
    "usage is of the name",
  );
  const deleted = await actionsOf(at);
  assert.ok(deleted.includes(`app.delete ${appId} success`), JSON.stringify(deleted));

  await platform.api("DELETE", app);
  await until("the second one goes too", () => isRemoved(db, `${appId}~2`), { deadlineMs });
  assert.deepEqual(await leftOf(db, `${appId}~2`), {});
  const folder = join(platform.dataDir, "builds");
  const artifacts = async (): Promise<string[]> =>
    (await readdir(folder)).filter((name) => name !== "cache");
  await until("no artifact is left", async () => (await artifacts()).length === 0, { deadlineMs });
});

test("an app that is deleted during a roll-out ends the calls of both releases as ever, and leaves nothing", async (t) => {
  const { platform, db, gate, project, git } = await fixture(t);
  const settings = { maxReplicaCount: 4, replicaConcurrency: 20, rollOutDurationSeconds: 600 };
  const { appId } = await deploy(platform, { name: "story", ...fields, ...settings });
  const app = `${project}/apps/${appId}`;
  await git.push("acme", "story", { "main.py": `${gatedApp}\nprint("loaded again")\n` });
  assert.equal((await platform.api("POST", `${app}/builds`, {})).status, 201);
  const isRollingOut = async (): Promise<boolean> =>
    (await platform.api("GET", `${app}/rollout`)).status === 200;
  await until("the roll-out is under way", isRollingOut, { deadlineMs });
  const running = Array.from({ length: 10 }, () =>
    platform.call("story", "run", { gate: gate.urls }),
  );
  await until("calls run", () => gate.waiting() === running.length, { deadlineMs });
  const { body: containers } = await platform.api("GET", `${app}/containers`);
  assert.equal(
    new Set((containers as { buildId: string }[]).map(({ buildId }) => buildId)).size,
    2,
    "of both releases",
  );
  const headers = {
    authorization: `Bearer ${platform.bootstrap.serviceAccountToken}`,
    accept: "text/event-stream",
  };
  const followed = await fetch(`${platform.bootstrap.baseUrl}${app}/rollout`, { headers });
  assert.equal((await platform.api("DELETE", app)).status, 200);
  assert.match(await followed.text(), /\nevent: end\ndata: \{.*\n\n$/);
  assert.equal((await platform.api("POST", `${app}/rollout/finish`)).status, 404);
  gate.open();
  for (const call of running) assert.equal((await call).status, 200);
  await until("nothing is left of it", () => isRemoved(db, appId), { deadlineMs });
  assert.deepEqual(await leftOf(db, appId), {});
});

test("100,000 runs and lines go in bounded steps, also when the platform is killed in the midst of it", async (t) => {
  const { platform, db, project } = await fixture(t);
  const { appId } = await deploy(platform, { name: "story", ...fields });
  const projectId = platform.bootstrap.projectId;
  await sql`
    insert into runs (id, project_id, app_id, state, method, path, client_address, retries_max, ended_at, reason)
    select gen_random_uuid(), ${projectId}, ${appId}, case when n % 10 = 0 then 'pending' else 'failure' end, 'POST', '/run',
      '203.0.113.9', 0, case when n % 10 = 0 then null else now() end, null from generate_series(1, 100000) n`.execute(
    db,
  );
  await sql`
    insert into run_requests (run_id, target, lines, body) select id, '/run', '', 'x' from runs`.execute(
    db,
  );
  await sql`
    insert into app_logs (project_id, app_id, replica_id, at, stream, line)
    select ${projectId}, ${appId}, 'none', now(), 'stdout', 'line' from generate_series(1, 100000)`.execute(
    db,
  );
  const count = async (table: string): Promise<number> => {
    const { rows } = await sql<{ count: string }>`
      select count(*) as count from ${sql.table(table)} where app_id = ${appId}`.execute(db);
    return Number(rows[0]?.count);
  };
  assert.equal((await platform.api("DELETE", `${project}/apps/${appId}`)).status, 200);
  await until("it is in the midst of it", async () => (await count("runs")) < 90_000, {
    deadlineMs,
  });
  await platform.end("SIGKILL");
  assert.ok((await count("runs")) > 0 && (await count("app_logs")) > 0, "something was left");
  const created = platform.restart().then(() => deploy(platform, { name: "story", ...fields }));
  await until("all of it is gone", () => isRemoved(db, appId), { deadlineMs: 180_000 });
  assert.deepEqual(await leftOf(db, appId), {});
  const { rows } = await sql`select from run_requests`.execute(db);
  assert.equal(rows.length, 0);
  assert.equal((await created).status, "success");
});

test("an app goes in the midst of its build or trial, and a project goes with its apps", async (t) => {
  const at = await fixture(t);
  const { platform, db, project } = at;
  const created = await platform.api("POST", `${project}/apps/git`, {
    name: "slow",
    ...fields,
    gitRepo: "acme/slow",
  });
  assert.equal(created.status, 201, JSON.stringify(created.body));
  const { appId, buildId } = created.body as { appId: string; buildId: string };
  const build = `${project}/apps/${appId}/builds/${buildId}`;
  await until(
    "it is on trial",
    async () => (await platform.api("GET", build)).body.status === "initializing",
    {
      deadlineMs,
    },
  );
  assert.equal((await platform.api("DELETE", `${project}/apps/${appId}`)).status, 200);
  await until("nothing is left of it", () => isRemoved(db, appId), { deadlineMs });
  assert.deepEqual(await leftOf(db, appId), {});

  const asOperator = async (method: string, path: string, body?: unknown) => {
    const { baseUrl, operatorToken } = platform.bootstrap;
    const headers = {
      authorization: `Bearer ${operatorToken}`,
      "content-type": "application/json",
    };
    const answer = await fetch(`${baseUrl}${path}`, {
      method,
      headers,
      body: JSON.stringify(body ?? {}),
    });
    return {
      status: answer.status,
      body: (await answer.json()) as { id: string; message?: string },
    };
  };
  const made = await asOperator("POST", "/v2/projects", { name: "Short" });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const other = `/v2/projects/${made.body.id}`;
  for (const name of ["one", "two"]) {
    const app = await asOperator("POST", `${other}/apps/git`, { name, ...fields });
    assert.equal(app.status, 201, JSON.stringify(app.body));
  }
  const deletions = await Promise.all([
    asOperator("DELETE", other),
    asOperator("DELETE", `${other}/apps/one`),
  ]);
  assert.equal(deletions[0]?.status, 200, JSON.stringify(deletions));
  for (const name of ["one", "two"])
    await until(`${name} is gone`, () => isRemoved(db, `${made.body.id}-${name}`), { deadlineMs });
  const { rows } = await sql<{ resource_id: string }>`
    select resource_id from audit_log where action = 'app.delete' and outcome = 'success' and project_id = ${made.body.id}`.execute(
    db,
  );
  assert.deepEqual(rows.map((row) => row.resource_id).toSorted(), [
    `${made.body.id}-one`,
    `${made.body.id}-two`,
  ]);
});
