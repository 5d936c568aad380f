// Device login as existing command lines do it: the shapes and statuses of its two routes, what the
// person sees and decides, and that a code is good once, for one device, and no longer than the
// session that approved it.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test, type TestContext } from "node:test";
import { createProject } from "#accounts/projects.ts";
import type { ProjectId } from "#lib/ids.ts";
import { makePerson } from "./support/person.ts";
import {
  startManagementApi,
  testBy,
  type ApiAnswer,
  type ApiUnderTest,
  type Json,
} from "./support/management-api.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const password = "a password for tests";

type Person = {
  readonly id: string;
  readonly email: string;
  readonly token: string;
  readonly projectId: ProjectId;
};

/** Somebody with a project of their own, signed in. */
async function addPerson(api: ApiUnderTest, name: string): Promise<Person> {
  const email = `${name}-${randomUUID()}@example.org`;
  const id = await makePerson(api.db, { email, name, password });
  const projectId = await createProject(api.db, { name: `of ${name}`, ownerId: id, by: testBy });
  return { id, email, projectId, token: await signIn(api, email) };
}

async function signIn(api: ApiUnderTest, email: string): Promise<string> {
  const answer = await api.call("POST", "/v2/auth/sign-in", {
    token: null,
    body: { email, password },
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.accessToken;
}

async function begin(api: ApiUnderTest): Promise<Json> {
  // A base URL with a slash at its end gives two of them.
  const answer = await api.call("POST", "//device-authorization", {
    token: null,
    body: {},
    headers: { "x-source": "cli", "user-agent": "Go-http-client/1.1" },
  });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.deviceAuthResponsePayload;
}

function redeem(api: ApiUnderTest, deviceCode: string): Promise<ApiAnswer> {
  return api.call("POST", "/token", { token: null, body: { device_code: deviceCode } });
}

function decide(
  api: ApiUnderTest,
  given: { code: string; decision: string; token: string },
): Promise<ApiAnswer> {
  const { code, decision, token } = given;
  return api.call("POST", `/v2/auth/device-logins/${code}`, { token, body: { decision } });
}

/** With a clock that the test moves: a device that asks twice at once is told to slow down. */
async function start(t: TestContext): Promise<{ api: ApiUnderTest; clock: VirtualClock }> {
  const clock = new VirtualClock();
  return { api: await startManagementApi(t, { clock }), clock };
}

test("a device gets tokens once a person has approved its code, and they are the person's", async (t) => {
  const { api, clock } = await start(t);
  const ada = await addPerson(api, "Ada");
  const begun = await begin(api);
  assert.deepEqual(Object.keys(begun).toSorted(), [
    "device_code",
    "expires_in",
    "interval",
    "user_code",
    "verification_uri",
    "verification_uri_complete",
  ]);
  assert.equal(begun.verification_uri, `${api.baseUrl}/dashboard/device`);
  assert.equal(
    begun.verification_uri_complete,
    `${api.baseUrl}/dashboard/device?code=${begun.user_code}`,
  );
  assert.deepEqual([begun.expires_in, begun.interval], [600, 1]);

  const early = await redeem(api, begun.device_code);
  assert.deepEqual([early.status, early.body.error], [400, "authorization_pending"]);
  assert.equal(early.headers.get("cache-control"), "no-store");

  const seen = await api.call("GET", `/v2/auth/device-logins/${begun.user_code.toLowerCase()}`, {
    token: ada.token,
  });
  assert.equal(seen.status, 200);
  assert.deepEqual(
    [seen.body.userCode, seen.body.client, seen.body.state],
    [begun.user_code, "Go-http-client/1.1", "waiting"],
  );
  const approved = await decide(api, {
    code: begun.user_code,
    decision: "approve",
    token: ada.token,
  });
  assert.deepEqual([approved.status, approved.body.state], [200, "approved"]);

  await clock.advance(500);
  const done = await redeem(api, begun.device_code);
  assert.equal(done.status, 200);
  assert.deepEqual(Object.keys(done.body).toSorted(), ["accessToken", "refreshToken"]);
  const projects = await api.call("GET", "/v2/projects", { token: done.body.accessToken });
  assert.deepEqual(projects.body, [{ id: ada.projectId, name: "of Ada" }]);

  const form = new URLSearchParams({
    grant_type: "refresh_token",
    client_id: "cli",
    refresh_token: done.body.refreshToken,
  });
  const refreshed = await fetch(`${api.baseUrl}/v2/auth/token`, { method: "POST", body: form });
  assert.equal(refreshed.status, 200);
  const { access_token: token } = (await refreshed.json()) as Json;
  assert.equal((await api.call("GET", "/v2/projects", { token })).status, 200);
});

test("a code is good for one device and once, also when it asks many times at once", async (t) => {
  const { api, clock } = await start(t);
  const ada = await addPerson(api, "Ada");
  const begun = await begin(api);
  await decide(api, { code: begun.user_code, decision: "approve", token: ada.token });
  const again = await decide(api, { code: begun.user_code, decision: "approve", token: ada.token });
  assert.equal(again.status, 409);
  const answers = await Promise.all(
    Array.from({ length: 8 }, async () => {
      await clock.advance(250);
      return await redeem(api, begun.device_code);
    }),
  );
  assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  await clock.advance(1_000);
  const late = await redeem(api, begun.device_code);
  assert.deepEqual([late.status, late.body.error], [400, "invalid_grant"]);
  const sessions = await api.call("GET", "/v2/auth/sessions", { token: ada.token });
  assert.equal(sessions.body.length, 2);
});

test("a refused code, one that has ended and one that never was are told apart, and give nothing", async (t) => {
  const { api, clock } = await start(t);
  const ada = await addPerson(api, "Ada");
  const refused = await begin(api);
  const slow = await begin(api);
  assert.equal(
    (await decide(api, { code: refused.user_code, decision: "deny", token: ada.token })).body.state,
    "denied",
  );
  assert.equal((await redeem(api, refused.device_code)).body.error, "access_denied");
  assert.equal((await redeem(api, "never-was")).body.error, "invalid_grant");
  await redeem(api, slow.device_code);
  assert.equal((await redeem(api, slow.device_code)).body.error, "slow_down");
  await clock.advance(600_000);
  const late = await decide(api, {
    code: slow.user_code,
    decision: "approve",
    token: await signIn(api, ada.email),
  });
  assert.equal(late.status, 404);
  const ended = await redeem(api, slow.device_code);
  assert.deepEqual([ended.status, ended.body.error], [400, "expired_token"]);
  assert.match(ended.body.message, /start again/);
  await clock.advance(3_700_000);
  await begin(api);
  assert.equal((await redeem(api, slow.device_code)).body.error, "invalid_grant");
});

test("an approval ends with the session that it was given in", async (t) => {
  const { api, clock } = await start(t);
  const ada = await addPerson(api, "Ada");
  const begun = await begin(api);
  await decide(api, { code: begun.user_code, decision: "approve", token: ada.token });
  const other = await signIn(api, ada.email);
  assert.equal((await api.call("DELETE", "/v2/auth/sessions", { token: other })).status, 200);
  await clock.advance(1_000);
  assert.equal((await redeem(api, begun.device_code)).body.error, "invalid_grant");
});

test("whose session has ended a moment ago approves nothing, and is told so", async (t) => {
  const { api } = await start(t);
  const ada = await addPerson(api, "Ada");
  const { user_code: code } = await begin(api);
  // Checked and remembered; nobody is notified of the end.
  assert.equal(
    (await api.call("GET", `/v2/auth/device-logins/${code}`, { token: ada.token })).status,
    200,
  );
  await api.db.deleteFrom("person_sessions").where("person_id", "=", ada.id).execute();
  const answer = await decide(api, { code, decision: "approve", token: ada.token });
  assert.deepEqual(
    [answer.status, answer.body],
    [401, { message: "The session has ended; sign in again." }],
  );
});

test("only people approve, and only what they name", async (t) => {
  const { api } = await start(t);
  const ada = await addPerson(api, "Ada");
  const begun = await begin(api);
  const path = `/v2/auth/device-logins/${begun.user_code}`;
  assert.equal((await api.call("GET", path, { token: null })).status, 401);
  assert.equal((await api.call("POST", path, { body: { decision: "approve" } })).status, 403);
  assert.equal(
    (await api.call("GET", "/v2/auth/device-logins/BCDF-GHJK", { token: ada.token })).status,
    404,
  );
  assert.equal(
    (await api.call("GET", "/v2/auth/device-logins/%00", { token: ada.token })).status,
    404,
  );
  const odd = await decide(api, { code: begun.user_code, decision: "yes", token: ada.token });
  assert.deepEqual(
    [odd.status, odd.body.message],
    [400, 'decision is "yes", but must be one of approve, deny.'],
  );
  assert.equal((await redeem(api, "")).status, 400);
  assert.equal((await api.call("POST", "/token", { token: null, body: {} })).status, 400);
  assert.equal((await redeem(api, begun.device_code)).body.error, "authorization_pending");
});

test("codes that are tried out are limited, by person and by address", async (t) => {
  const { api, clock } = await start(t);
  const ada = await addPerson(api, "Ada");
  const bob = await addPerson(api, "Bob");
  const statuses: number[] = [];
  for (let tries = 0; tries < 31; tries++) {
    const answer = await api.call("GET", "/v2/auth/device-logins/BCDF-GHJK", { token: ada.token });
    statuses.push(answer.status);
  }
  assert.deepEqual(
    [statuses.slice(0, 30).every((status) => status === 404), statuses[30]],
    [true, 429],
  );
  assert.equal(
    (await api.call("GET", "/v2/auth/device-logins/BCDF-GHJK", { token: bob.token })).status,
    404,
  );
  await clock.advance(61_000);
  assert.equal(
    (await api.call("GET", "/v2/auth/device-logins/BCDF-GHJK", { token: ada.token })).status,
    404,
  );
  for (let begun = 0; begun < 120; begun++) await begin(api);
  const refused = await api.call("POST", "/device-authorization", { token: null });
  assert.deepEqual([refused.status, refused.headers.has("retry-after")], [429, true]);
});

test("what was decided stands in the audit log of the person's projects, without codes", async (t) => {
  const { api, clock } = await start(t);
  const ada = await addPerson(api, "Ada");
  const approved = await begin(api);
  const denied = await begin(api);
  await decide(api, { code: approved.user_code, decision: "approve", token: ada.token });
  await decide(api, { code: denied.user_code, decision: "deny", token: ada.token });
  await clock.advance(1_000);
  await redeem(api, approved.device_code);
  const ofProject = api.db
    .selectFrom("audit_log")
    .selectAll()
    .where("project_id", "=", ada.projectId);
  const entries = await ofProject.orderBy("id").execute();
  const shown = entries.filter(({ action }) => /^person\.(device_approve|sign_in)$/.test(action));
  assert.deepEqual(
    shown.map(({ action, outcome }) => [action, outcome]),
    [
      ["person.sign_in", "success"],
      ["person.device_approve", "success"],
      ["person.device_approve", "failure"],
      ["person.sign_in", "success"],
    ],
  );
  const text = JSON.stringify(entries);
  for (const secret of [approved.device_code, approved.user_code, denied.device_code]) {
    assert.equal(text.includes(secret), false);
  }
});
