// Signing in with a password: what it gives, what it takes, what it tells nobody.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createPerson } from "#accounts/projects.ts";
import { Secret } from "#lib/secret.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "#test/support/management-api.ts";
import "#test/support/leftovers.ts";

const password = "correct horse battery";
const ada = { email: "ada@example.test", name: "Ada", password: new Secret(password) };

async function setup(t: TestContext): Promise<{ api: ApiUnderTest; personId: string }> {
  const api = await startManagementApi(t);
  const personId = await createPerson(api.db, ada);
  await api.db
    .insertInto("members")
    .values({ project_id: api.projectId, person_id: personId, role: "admin" })
    .execute();
  return { api, personId };
}

function signIn(api: ApiUnderTest, body: Json): ReturnType<ApiUnderTest["call"]> {
  return api.call("POST", "/v2/auth/sign-in", { body, token: null });
}

test("a person signs in with a password and uses the management API with the access token", async (t) => {
  const { api, personId } = await setup(t);
  const { status, body, headers } = await signIn(api, { email: "Ada@Example.test", password });
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(body.person, { id: personId, email: ada.email, name: "Ada", twoFactorEnabled: false });
  assert.match(
    headers.get("set-cookie") ?? "",
    /^slipway_session=[\w.-]+; Path=\/v2\/auth; Max-Age=\d+; HttpOnly; SameSite=Strict$/,
  );
  const apps = await api.call("GET", `/v2/projects/${api.projectId}/apps`, { token: body.accessToken });
  assert.deepEqual([apps.status, apps.body], [200, []]);
  const me = await api.call("GET", "/v2/auth/session", { token: body.accessToken });
  assert.deepEqual(me.body.projects, [{ id: api.projectId, role: "admin" }]);
  assert.equal(me.body.session.isCurrent, true);
});
