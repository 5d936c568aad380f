// A change of secrets that restarts what uses them: recorded and counted by app, and seen by the
// app itself on a whole platform, without a call that fails.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import "./support/leftovers.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

async function addApp(api: ApiUnderTest, name: string): Promise<string> {
  const body = { name, gitRepo: "a/b" };
  const created = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  assert.equal(created.status, 201);
  return created.body.appId;
}

/** Lets the app's first build have made a release. */
async function release({ db }: ApiUnderTest, appId: string): Promise<void> {
  await sql`
    with made as (
      insert into releases (id, project_id, app_id, build_id, settings, artifact, number, cause, state)
      select gen_random_uuid(), project_id, app_id, id, '{}', '{}', 1, 'create', 'live' from builds where app_id = ${appId}
      returning id
    ) update apps set live_release_id = made.id from made where apps.id = ${appId}`.execute(db);
}

test("only apps that use the secrets and have a release are restarted, and the log tells how many", async (t) => {
  const api = await startManagementApi(t);
  const one = await addApp(api, "app-one");
  const two = await addApp(api, "app-two");
  await addApp(api, "app-three");
  await release(api, one);
  await release(api, two);
  const project = `/v2/projects/${api.projectId}`;
  const restarts = async (): Promise<Json> => {
    const rows = await api.db
      .selectFrom("apps")
      .select(["name", "restarts"])
      .orderBy("name")
      .execute();
    return Object.fromEntries(rows.map((row) => [row.name, row.restarts]));
  };
  await api.call("PATCH", `${project}/secrets`, { body: { A: "1" } });
  assert.deepEqual(await restarts(), { "app-one": 0, "app-three": 0, "app-two": 0 });
  const all = await api.call("PATCH", `${project}/secrets?restart=true`, { body: { A: "2" } });
  assert.equal(
    all.body.message,
    "1 secret was changed; 2 apps are restarted, one replica after the other.",
  );
  const own = await api.call("PATCH", `${project}/apps/${one}/secrets?restart=true`, {
    body: { A: "3", B: "4" },
  });
  assert.equal(
    own.body.message,
    "2 secrets were changed; 1 app is restarted, one replica after the other.",
  );
  assert.deepEqual(await restarts(), { "app-one": 2, "app-three": 0, "app-two": 1 });
  const log = await api.call("GET", `${project}/audit-log?action=secrets.update&limit=1`);
  assert.deepEqual(log.body.logs[0].changes["(restarted apps)"], { new: 1 });
  assert.ok(!JSON.stringify(log.body).includes('"4"'));
  const bad = await api.call("PATCH", `${project}/secrets?restart=yes`, { body: {} });
  assert.equal(bad.status, 400);
});

const source = `import os

def run():
    return {"word": os.environ.get("WORD"), "other": os.environ.get("OTHER")}
`;

test("an app has its new secrets after a restart, its own over the project's, and no call fails meanwhile", async (t) => {
  const git = await startGitServer(t);
  const toml = '[cerebrium.deployment]\nname = "teller"\n[cerebrium.scaling]\ncooldown = 600\n';
  await git.createRepo("acme", "teller", { "main.py": source, "slipway.toml": toml });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const project = `/v2/projects/${platform.bootstrap.projectId}`;
  await platform.api("PATCH", `${project}/secrets`, { WORD: "first", OTHER: "project" });
  const app = await deploy(platform, {
    name: "teller",
    gitRepo: "acme/teller",
    pythonVersion: "3.11",
  });
  assert.equal(app.status, "success", app.log);
  const tell = async (): Promise<{ word: string; other: string }> => {
    const answer = await platform.call("teller", "run");
    assert.equal(answer.status, 200, "no call fails");
    return ((await answer.json()) as Json).result;
  };
  const before = await tell();
  assert.deepEqual([before.word, before.other], ["first", "project"]);
  await platform.api("PATCH", `${project}/secrets`, { WORD: "second", OTHER: "project" });
  assert.deepEqual(await tell(), before, "without a restart replicas keep what they began with");
  const appId = `${platform.bootstrap.projectId}-teller`;
  const answer = await platform.api("PATCH", `${project}/apps/${appId}/secrets?restart=true`, {
    OTHER: "app",
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  await until("the app has them", async () => (await tell()).word === "second", {
    deadlineMs: 60_000,
  });
  assert.equal((await tell()).other, "app");
});
