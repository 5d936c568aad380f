// Secrets and git credentials: who sees them, what is refused, what is at rest, what is recorded.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import { secretContext } from "#apps/secrets.ts";
import type { AppId } from "#lib/ids.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";

async function withApp(
  api: ApiUnderTest,
): Promise<{ appId: AppId; ofProject: string; ofApp: string }> {
  const project = `/v2/projects/${api.projectId}`;
  const created = await api.call("POST", `${project}/apps/git`, {
    body: { name: "my-app", gitRepo: "a/b" },
  });
  assert.equal(created.status, 201);
  return {
    appId: created.body.appId,
    ofProject: `${project}/secrets`,
    ofApp: `${project}/apps/${created.body.appId}/secrets`,
  };
}

test("secrets are replaced as a whole, and shown as a flat map", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject, ofApp } = await withApp(api);
  assert.deepEqual((await api.call("GET", ofProject)).body, {});
  const first = { KEY: "one", "a.b-c_d": 'ünï\n"quoted"', EMPTY: "" };
  const set = await api.call("PATCH", ofProject, { body: first });
  assert.equal(set.status, 200);
  answers.messageAnswer.parse(set.body);
  const read = await api.call("GET", ofProject);
  answers.secretMap.parse(read.body);
  assert.deepEqual(read.body, first);
  await api.call("PATCH", ofApp, { body: { KEY: "own" } });
  assert.deepEqual((await api.call("GET", ofApp)).body, { KEY: "own" });
  await api.call("PATCH", ofProject, { body: { KEY: "two", EMPTY: null, NEW: "three" } });
  assert.deepEqual((await api.call("GET", ofProject)).body, { KEY: "two", NEW: "three" });
  assert.equal((await api.call("PATCH", ofProject, { text: "{}" })).status, 200);
  assert.deepEqual((await api.call("GET", ofProject)).body, {});
});

test("a replica gets the project's secrets, and over them the app's", async (t) => {
  const api = await startManagementApi(t);
  const { appId, ofProject, ofApp } = await withApp(api);
  await api.call("PATCH", ofProject, { body: { A: "project", B: "project" } });
  await api.call("PATCH", ofApp, { body: { B: "app", C: "app" } });
  const environment = await api.useCases.secrets.environmentOf(appId);
  const revealed = Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [name, value.reveal()]),
  );
  assert.deepEqual(revealed, { A: "project", B: "app", C: "app" });
  assert.doesNotMatch(JSON.stringify(environment), /project|app/);
});

test("names and values of secrets are checked, and refusals hold no value", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject } = await withApp(api);
  const bad: readonly object[] = [
    { "a b": "sesame" },
    { "": "sesame" },
    { ä: "sesame" },
    { ["x".repeat(254)]: "sesame" },
    { A: 1 },
    { A: ["sesame"] },
    { A: "sesame\0" },
    { A: "sesame".repeat(20_000) },
    { A: "\ud800sesame" },
    Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [`K${index}`, "sesame"])),
    ["sesame"],
  ];
  for (const body of bad) {
    const answer = await api.call("PATCH", ofProject, { body });
    assert.equal(answer.status, 400, JSON.stringify(body).slice(0, 80));
    answers.faultAnswer.parse(answer.body);
    assert.doesNotMatch(answer.body.message, /sesame/);
  }
  assert.deepEqual((await api.call("GET", ofProject)).body, {});
});

test("a name that breaks every app is refused, unless it was there before", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject, ofApp } = await withApp(api);
  for (const [path, name] of [
    [ofProject, "PATH"],
    [ofApp, "PYTHONHOME"],
  ] as const) {
    const refused = await api.call("PATCH", path, { body: { A: "one", [name]: "/sesame" } });
    assert.equal(refused.status, 400);
    assert.match(refused.body.message, new RegExp(`^A secret cannot be called ${name}: `));
    assert.doesNotMatch(refused.body.message, /sesame/);
    assert.deepEqual((await api.call("GET", path)).body, {});
  }
  await api.call("PATCH", ofProject, { body: { OLD: "/opt/bin" } });
  // As a platform of before has stored it; the seal knows the name.
  const context = secretContext({ projectId: api.projectId, appId: null }, "PATH");
  const sealed = api.sealer.seal("/opt/bin", context);
  await api.db.updateTable("secrets").set({ name: "PATH", value_sealed: sealed }).execute();
  const kept = await api.call("PATCH", ofProject, { body: { PATH: "/opt/bin", A: "one" } });
  assert.equal(kept.status, 200);
  assert.equal((await api.call("PATCH", ofProject, { body: { PATH: "/other" } })).status, 400);
  assert.equal((await api.call("PATCH", ofProject, { body: { A: "one" } })).status, 200);
});

test("who sets a name with a trap is told what it does", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject } = await withApp(api);
  const body = { "1BAD": "sesame", LD_PRELOAD: "/sesame.so", FINE: "sesame" };
  const set = await api.call("PATCH", ofProject, { body });
  assert.equal(set.status, 200);
  assert.match(
    set.body.message,
    /^3 secrets were changed; .*1BAD is not the name .*LD_PRELOAD changes which/,
  );
  assert.doesNotMatch(set.body.message, /sesame|FINE/);
  const again = await api.call("PATCH", ofProject, { body: { ...body, FINE: "other" } });
  assert.equal(
    again.body.message,
    "1 secret was changed; replicas see the change when they start.",
  );
});

test("two replacements at once end as one of the two", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject } = await withApp(api);
  const left = { A: "1", B: "1", C: "1" };
  const right = { B: "2", C: "2", D: "2" };
  await Promise.all(
    [left, right, left, right].map((body) => api.call("PATCH", ofProject, { body })),
  );
  const { body } = await api.call("GET", ofProject);
  assert.ok(
    [left, right].some((map) => JSON.stringify(map) === JSON.stringify(body)),
    JSON.stringify(body),
  );
});

test("secrets and credentials are sealed at rest, and the audit log knows who read and changed them", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject } = await withApp(api);
  await api.call("PATCH", ofProject, { body: { GREETING: "sesame-one" } });
  await api.call("PATCH", ofProject, { body: { GREETING: "sesame-two" } });
  await api.call("GET", ofProject);
  const credentials = `/v2/projects/${api.projectId}/git-credentials`;
  await api.call("PUT", `${credentials}/github.com`, {
    body: { kind: "token", secret: "sesame-three" },
  });
  const everything = await Promise.all([
    api.db.selectFrom("secrets").selectAll().execute(),
    api.db.selectFrom("git_credentials").selectAll().execute(),
    api.db.selectFrom("audit_log").selectAll().execute(),
  ]);
  assert.doesNotMatch(JSON.stringify(everything), /sesame/);
  const rows = await api.db
    .selectFrom("audit_log")
    .select(["action", "outcome", "changes"])
    .where("action", "like", "secrets.%")
    .orderBy("id")
    .execute();
  assert.deepEqual(rows, [
    { action: "secrets.update", outcome: "success", changes: { GREETING: { new: "[secret]" } } },
    {
      action: "secrets.update",
      outcome: "success",
      changes: { GREETING: { old: "[secret]", new: "[secret]" } },
    },
    { action: "secrets.read", outcome: "success", changes: null },
  ]);
});

test("a change of any secret stands in the audit log, whatever it is named", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject } = await withApp(api);
  const names = ["__proto__", "constructor", "7", "toString"];
  const body = `{${names.map((name) => `"${name}": "x"`).join(",")}}`;
  assert.equal((await api.call("PATCH", ofProject, { body: JSON.parse(body) })).status, 200);
  assert.equal((await api.call("PATCH", ofProject, { body: {} })).status, 200);
  const rows = await api.db
    .selectFrom("audit_log")
    .select("changes")
    .where("action", "=", "secrets.update")
    .execute();
  assert.deepEqual(
    rows.map(({ changes }) => Object.keys(changes as object).toSorted()),
    [names.toSorted(), names.toSorted()],
  );
});

test("who may not read secrets is refused, and that is recorded", async (t) => {
  const api = await startManagementApi(t);
  const { ofProject, ofApp } = await withApp(api);
  for (const token of [
    await api.issue({ kind: "inference" }),
    await api.issue({ kind: "service_account", role: "billing" }),
  ]) {
    for (const path of [ofProject, ofApp]) {
      assert.equal((await api.call("GET", path, { token })).status, 403);
      assert.equal((await api.call("PATCH", path, { token, body: {} })).status, 403);
    }
  }
  assert.equal(
    (await api.call("GET", `/v2/projects/${api.projectId}/apps/no-app/secrets`)).status,
    404,
  );
  const failures = await api.db
    .selectFrom("audit_log")
    .select((select) => select.fn.countAll().as("count"))
    .where("outcome", "=", "failure")
    .where("action", "in", ["secrets.read", "secrets.update"])
    .executeTakeFirstOrThrow();
  assert.equal(Number(failures.count), 9);
});

test("git credentials are set, listed without their secret, used for fetching, and removed", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}/git-credentials`;
  const key = "-----BEGIN OPENSSH PRIVATE KEY-----\nsesame\n-----END OPENSSH PRIVATE KEY-----\n";
  const set = await api.call("PUT", `${path}/GitHub.com`, {
    body: { kind: "token", username: "bot", secret: "sesame" },
  });
  assert.equal(set.status, 200, JSON.stringify(set.body));
  assert.equal(
    (
      await api.call("PUT", `${path}/git.example.org:2222`, {
        body: { kind: "ssh_key", secret: key },
      })
    ).status,
    200,
  );
  const list = await api.call("GET", path);
  answers.credentialList.parse(list.body);
  assert.deepEqual(
    list.body.map(({ host, kind, username }: Record<string, unknown>) => [host, kind, username]),
    [
      ["git.example.org:2222", "ssh_key", null],
      ["github.com", "token", "bot"],
    ],
  );
  const one = await api.call("GET", `${path}/github.com`);
  answers.credential.parse(one.body);
  assert.doesNotMatch(JSON.stringify([list.body, one.body]), /sesame/);
  const fetched = await api.useCases.credentials.forFetch(api.projectId, "GITHUB.com");
  assert.equal(fetched?.secret.reveal(), "sesame");
  assert.equal(await api.useCases.credentials.forFetch(api.projectId, "gitlab.com"), null);
  assert.equal((await api.call("DELETE", `${path}/github.com`)).status, 200);
  for (const method of ["GET", "DELETE"])
    assert.equal((await api.call(method, `${path}/github.com`)).status, 404);
});

test("git credentials that cannot be used are refused without being shown", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}/git-credentials/github.com`;
  const bad: readonly object[] = [
    {},
    { kind: "token" },
    { secret: "sesame" },
    { kind: "password", secret: "sesame" },
    { kind: "ssh_key", secret: "sesame" },
    { kind: "token", secret: "sesame\nsesame" },
    { kind: "token", secret: "sesame", user: "x" },
    { kind: "token", secret: "sesame", username: "a:b" },
    { kind: "token", secret: "" },
    [],
  ];
  for (const body of bad) {
    const answer = await api.call("PUT", path, { body });
    assert.equal(answer.status, 400, JSON.stringify(body));
    assert.doesNotMatch(answer.body.message, /sesame/);
  }
  for (const host of ["https%3A%2F%2Fgithub.com", "a%20b", "-x", "%00", "a%2Fb"]) {
    const answer = await api.call("PUT", `/v2/projects/${api.projectId}/git-credentials/${host}`, {
      body: { kind: "token", secret: "sesame" },
    });
    assert.equal(answer.status, 400, host);
  }
});
