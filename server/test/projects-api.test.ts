// Projects through the management API: making, renaming and deleting them, and what is left of a
// deleted one.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as shapes from "@slipway/contract/project-answers.ts";
import { insertMember } from "#accounts/project-store.ts";
import type { ProjectId } from "#lib/ids.ts";
import { addPerson } from "./support/access-callers.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

/** What was ended is refused everywhere within this. */
const revokedMs = 1_000;

async function person(
  api: ApiUnderTest,
  projectId?: ProjectId,
): Promise<{ id: string; token: string }> {
  const member = projectId === undefined ? null : ({ projectId, role: "owner" } as const);
  const { person: made, accessToken } = await addPerson(api, member);
  return { id: made.id, token: accessToken.reveal() };
}

function entriesOf({ db }: ApiUnderTest, projectId: ProjectId) {
  return db
    .selectFrom("audit_log")
    .selectAll()
    .where("project_id", "=", projectId)
    .orderBy("id")
    .execute();
}

test("a person who makes a project owns it, sees it at once, and nobody else does", async (t) => {
  const api = await startManagementApi(t);
  const { token, id } = await person(api);
  const stranger = await person(api);
  for (const name of ["One", "Two", "Three"]) {
    assert.equal((await api.call("GET", "/v2/projects", { token })).status, 200);
    const made = await api.call("POST", "/v2/projects", { token, body: { name } });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    const project = shapes.projectDetail.parse(made.body);
    assert.deepEqual([project.name, project.role], [name, "owner"]);
    const shown = await api.call("GET", `/v2/projects/${project.id}`, { token });
    assert.deepEqual(shown.body, made.body, "without waiting for a notification");
    assert.equal(
      (await api.call("GET", `/v2/projects/${project.id}`, { token: stranger.token })).status,
      404,
    );
    const [entry] = await entriesOf(api, project.id as ProjectId);
    assert.deepEqual(
      [entry?.action, entry?.outcome, entry?.actor_id, entry?.resource_name, entry?.changes],
      ["project.create", "success", id, name, { name: { new: name } }],
    );
  }
  const list = await api.call("GET", "/v2/projects", { token });
  assert.deepEqual(
    list.body.map((one: { name: string }) => one.name),
    ["One", "Two", "Three"],
  );
  assert.deepEqual((await api.call("GET", "/v2/projects", { token: stranger.token })).body, []);
});

test("a service account sees its own project alone, an operator all", async (t) => {
  const api = await startManagementApi(t);
  const second = await api.addProject("second");
  assert.deepEqual((await api.call("GET", "/v2/projects")).body, [
    { id: api.projectId, name: "first" },
  ]);
  const all = await api.call("GET", "/v2/projects", {
    token: await api.issue({ kind: "operator" }),
  });
  assert.deepEqual(
    all.body.map(({ id }: { id: string }) => id),
    [api.projectId, second],
  );
  assert.equal((await api.call("GET", `/v2/projects/${second}`)).status, 404);
});

test("an operator's project has no members until some are invited; a service account makes none", async (t) => {
  const api = await startManagementApi(t);
  const operator = await api.issue({ kind: "operator" });
  const made = await api.call("POST", "/v2/projects", { token: operator, body: { name: "Empty" } });
  assert.equal(made.status, 201);
  assert.equal(made.body.role, null);
  assert.deepEqual(
    (await api.call("GET", `/v2/projects/${made.body.id}/members`, { token: operator })).body,
    [],
  );
  const refused = await api.call("POST", "/v2/projects", { body: { name: "Another" } });
  assert.equal(refused.status, 403);
  assert.match(refused.body.message, /belongs to one project/);
  const [entry] = (await entriesOf(api, api.projectId)).slice(-1);
  assert.deepEqual([entry?.action, entry?.outcome], ["project.create", "failure"]);
});

test("a project is renamed, and the audit log has both names", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}`;
  const renamed = await api.call("PATCH", path, { body: { name: "  Second  " } });
  assert.equal(renamed.status, 200, JSON.stringify(renamed.body));
  assert.equal(renamed.body.name, "Second", "without the spaces around it");
  assert.equal((await api.call("GET", path)).body.name, "Second");
  const [entry] = (await entriesOf(api, api.projectId)).slice(-1);
  assert.deepEqual(entry?.changes, { name: { old: "first", new: "Second" } });
});

test("names that are none are refused with what is allowed", async (t) => {
  const api = await startManagementApi(t);
  const { token } = await person(api);
  for (const [body, message] of [
    [{}, /^name is missing/],
    [{ name: null }, /^name is missing/],
    [{ name: "" }, /^name is "".* 1 to 100/],
    [{ name: "   " }, /^name is .* not only spaces/],
    [{ name: "x".repeat(101) }, /^name is .* 1 to 100/],
    [{ name: "a\nb" }, /^name is .* without control characters/],
    [{ name: "invoice\u202efdp" }, /^name is .* without control characters/],
    [{ name: 7 }, /^name is 7/],
    [{ name: "a", colour: "red" }, /colour.* is not a field/],
    [["a"], /must be a JSON object/],
  ] as const) {
    for (const [method, path] of [
      ["POST", "/v2/projects"],
      ["PATCH", `/v2/projects/${api.projectId}`],
    ] as const) {
      const refused = await api.call(method, path, {
        body,
        token: method === "POST" ? token : api.token,
      });
      assert.equal(refused.status, 400, JSON.stringify(body));
      assert.match(refused.body.message, message);
    }
  }
});

test("a project is deleted with its apps, each with an entry of its own", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}`;
  await api.call("POST", `${path}/apps/git`, { body: { name: "my-app", gitRepo: "a/b" } });
  const deleted = await api.call("DELETE", path);
  assert.equal(deleted.status, 200, JSON.stringify(deleted.body));
  const apps = await api.db
    .selectFrom("apps")
    .selectAll()
    .where("deleting_at", "is", null)
    .execute();
  assert.deepEqual(apps, []);
  const builds = await api.db.selectFrom("builds").select(["status", "reason"]).execute();
  assert.deepEqual(builds, [{ status: "cancelled", reason: "The app was deleted." }]);
  const entries = await api.db
    .selectFrom("audit_log")
    .select(["action", "resource_id"])
    .orderBy("id")
    .execute();
  const last = entries.slice(-2).map(({ action, resource_id: id }) => [action, id]);
  assert.deepEqual(last, [
    ["app.delete", `${api.projectId}-my-app`],
    ["project.delete", api.projectId],
  ]);
});

test("with a project end its members, tokens, invitations and secrets, at once; its audit log and its id stay", async (t) => {
  const api = await startManagementApi(t);
  const { db, projectId } = api;
  const path = `/v2/projects/${projectId}`;
  const member = await person(api, projectId);
  const elsewhere = await api.addProject("elsewhere");
  await insertMember(db, { project_id: elsewhere, person_id: member.id, role: "billing" });
  const inference = await api.issue({ kind: "inference" });
  const operator = await api.issue({ kind: "operator" });
  const invited = await api.call("POST", `${path}/invitations`, {
    body: { email: "a@example.org", role: "member" },
  });
  await api.call("PATCH", `${path}/secrets`, { body: { KEY: "value" } });
  await api.call("PUT", `${path}/git-credentials/github.com`, {
    body: { kind: "token", secret: "x" },
  });
  await api.call("POST", `${path}/webhook-secrets`);
  for (const token of [api.token, inference, member.token]) {
    assert.notEqual(
      (await api.call("GET", path, { token })).status,
      401,
      "the token is remembered",
    );
  }

  const deleted = await api.call("DELETE", path, { token: member.token });
  assert.equal(deleted.status, 200, JSON.stringify(deleted.body));
  for (const [token, status] of [
    [api.token, 401],
    [inference, 401],
    [member.token, 404],
    [operator, 404],
  ] as const) {
    const isOver = async () => (await api.call("GET", path, { token })).status === status;
    await until(`it is answered ${status}`, isOver, { deadlineMs: revokedMs });
  }
  const left = await api.call("GET", "/v2/projects", { token: member.token });
  assert.deepEqual(left.body, [{ id: elsewhere, name: "elsewhere" }], "other projects stay");
  const all = await api.call("GET", "/v2/projects", { token: operator });
  assert.ok(!all.body.some((one: { id: string }) => one.id === projectId));
  const link = String(invited.body.link).split("/").at(-1);
  assert.equal(
    (await api.call("GET", `/v2/auth/invitations/${link}`, { token: null })).status,
    404,
  );
  for (const table of [
    "members",
    "invitations",
    "secrets",
    "git_credentials",
    "webhook_secrets",
  ] as const) {
    assert.deepEqual(
      await db.selectFrom(table).selectAll().where("project_id", "=", projectId).execute(),
      [],
      table,
    );
  }
  const log = await api.call("GET", `${path}/audit-log`, { token: operator });
  assert.deepEqual(
    [log.status, log.body.logs[0].action],
    [200, "project.delete"],
    "the operator can read it still",
  );
  const entries = await entriesOf(api, projectId);
  assert.deepEqual(
    [entries[0]?.action, entries.at(-2)?.action],
    ["project.create", "project.delete"],
  );
  assert.deepEqual(entries.at(-2)?.changes, {
    memberCount: { old: 2, new: 0 },
    tokenCount: { old: 2, new: 0 },
  });
  await assert.rejects(
    db.insertInto("projects").values({ id: projectId, name: "again" }).execute(),
    /duplicate key/,
  );
});
