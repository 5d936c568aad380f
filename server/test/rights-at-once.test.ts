// Rights that end while they are used: what was allowed when a request came, or a moment before, is
// not allowed any more.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { test } from "node:test";
import { sql } from "kysely";
import { hashPassword } from "#accounts/passwords.ts";
import "#test/support/leftovers.ts";
import { startManagementApi } from "#test/support/management-api.ts";
import { until } from "#test/support/until.ts";
import {
  adasEmail,
  adasPassword,
  appCode,
  startPeopleStage,
  type PeopleStage,
} from "./people-stage.ts";

/** A request whose head is sent; `finish` sends the body and gives the answer's status. */
async function begin(
  url: string,
  token: string,
  body: object,
): Promise<{ finish(): Promise<number> }> {
  const text = JSON.stringify(body);
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "content-length": String(text.length),
  };
  const sent = request(url, { method: "POST", headers });
  const answered = once(sent, "response");
  sent.flushHeaders();
  await once(sent, "socket");
  return {
    async finish() {
      sent.end(text);
      const [response] = await answered;
      response.resume();
      await once(response, "end");
      return response.statusCode;
    },
  };
}

test("who loses their right while the body of their request is on its way does nothing by it", async (t) => {
  const api = await startManagementApi(t);
  const path = `/v2/projects/${api.projectId}/service-accounts`;
  const made = await api.call("POST", path, { body: { name: "leaked", role: "admin" } });
  const { token, id } = made.body;
  const names = async (): Promise<string[]> =>
    (await api.call("GET", path)).body.map((account: { name: string }) => account.name);
  assert.equal((await api.call("GET", path, { token })).status, 200);
  const held = await begin(api.baseUrl + path, token, { name: "kept for later", role: "admin" });
  const meanwhile = await begin(api.baseUrl + path, token, { name: "in time", role: "admin" });
  assert.equal(await meanwhile.finish(), 201, "whose right lasts is not kept from anything");
  await api.call("DELETE", `${path}/${id}`);
  await until(
    "the token is known to have ended",
    async () => (await api.call("GET", path, { token })).status === 401,
  );
  assert.equal(await held.finish(), 401);
  assert.ok(!(await names()).includes("kept for later"));
});

test("who was demoted or whose token ended a moment ago gives nothing to anybody, although that is not known everywhere", async (t) => {
  const { api, adaId, signIn } = await startPeopleStage(t);
  const accounts = `/v2/projects/${api.projectId}/service-accounts`;
  const keys = `/v2/projects/${api.projectId}/api-keys`;
  const invitations = `/v2/projects/${api.projectId}/invitations`;
  const { accessToken: person } = await signIn();
  const { token: program, id } = (
    await api.call("POST", accounts, { body: { name: "program", role: "admin" } })
  ).body;
  const operator = await api.issue({ kind: "operator" });
  const other = (await api.call("POST", accounts, { body: { name: "other", role: "admin" } })).body;
  for (const token of [person, program, operator]) {
    assert.equal(
      (await api.call("GET", accounts, { token })).status,
      200,
      "all are remembered as they are now",
    );
  }
  // As another platform does it whose notification has not come yet: nothing is told here.
  await api.db
    .updateTable("members")
    .set({ role: "member" })
    .where("person_id", "=", adaId)
    .execute();
  await api.db
    .updateTable("tokens")
    .set({ revoked_at: new Date() })
    .where("account_id", "=", id)
    .execute();
  await api.db
    .updateTable("tokens")
    .set({ revoked_at: new Date() })
    .where("kind", "=", "operator")
    .execute();
  for (const token of [person, program]) {
    const tries = [
      await api.call("POST", accounts, { token, body: { name: "more", role: "admin" } }),
      await api.call("POST", `${accounts}/${other.id}/rotate`, { token }),
      await api.call("PATCH", `${accounts}/${other.id}`, { token, body: { role: "member" } }),
      await api.call("POST", keys, { token, body: { name: "more" } }),
      await api.call("POST", invitations, {
        token,
        body: { email: "more@example.test", role: "member" },
      }),
    ];
    assert.deepEqual(
      tries.map(({ status }) => status),
      [403, 403, 403, 403, 403],
    );
  }
  const more = await api.call("POST", "/v2/operator/tokens", {
    token: operator,
    body: { name: "more" },
  });
  assert.equal(more.status, 403);
  assert.equal(
    (await api.call("GET", accounts)).body.length,
    3,
    "two, and the one that the test itself uses",
  );
});

/**
 * Holds Ada's row as a change of her password does, has `act` come to wait for it, changes the
 * password and lets go.
 */
async function whilePasswordChanges<T>(stage: PeopleStage, act: () => Promise<T>): Promise<T> {
  const { api, adaId } = stage;
  const hash = await hashPassword("another horse battery");
  const acting = await api.db.transaction().execute(async (tx) => {
    await tx.selectFrom("people").select("id").where("id", "=", adaId).forNoKeyUpdate().execute();
    const begun = await waitingBehind(stage, act);
    await tx
      .updateTable("person_accounts")
      .set({ password_hash: hash })
      .where("person_id", "=", adaId)
      .execute();
    await tx.deleteFrom("person_verifications").where("value", "=", adaId).execute();
    await tx.deleteFrom("person_sessions").where("person_id", "=", adaId).execute();
    return begun;
  });
  return await acting.answer;
}

/** Has `act` come to wait for a lock, or be answered without. */
async function waitingBehind<T>(
  { api }: PeopleStage,
  act: () => Promise<T>,
): Promise<{ answer: Promise<T> }> {
  const answer = act();
  let isAnswered = false;
  void answer.then(() => (isAnswered = true));
  await until("somebody waits for the change, or is answered", async () => {
    const { rows } = await sql`
      select 1 from pg_locks where not granted
         and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(
      api.db,
    );
    return rows.length > 0 || isAnswered;
  });
  return { answer };
}

test("a sign-in with the old password that is under way while the password is changed opens no session", async (t) => {
  const stage = await startPeopleStage(t);
  const credentials = { email: adasEmail, password: adasPassword };
  const { status } = await whilePasswordChanges(stage, () =>
    stage.post("/v2/auth/sign-in", credentials),
  );
  assert.equal(status, 401);
  assert.deepEqual(await stage.api.db.selectFrom("person_sessions").select("id").execute(), []);
  assert.deepEqual(await stage.entries(), ["person.sign_in failure anonymous"]);
});

test("the second step of a sign-in with the old password ends with the password", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, post, signIn } = stage;
  const { accessToken } = await signIn();
  const enrol = await api.call("POST", "/v2/auth/two-factor", {
    token: accessToken,
    body: { password: adasPassword },
  });
  const { uri } = enrol.body;
  const confirm = { token: accessToken, body: { code: appCode(uri) } };
  assert.equal((await api.call("POST", "/v2/auth/two-factor/confirm", confirm)).status, 200);
  const { challenge } = (
    await post("/v2/auth/sign-in", { email: adasEmail, password: adasPassword })
  ).body;
  const code = appCode(uri, 1);
  const { status } = await whilePasswordChanges(stage, () =>
    post("/v2/auth/sign-in/two-factor", { challenge, code }),
  );
  assert.equal(status, 401);
  assert.deepEqual(await api.db.selectFrom("person_sessions").select("id").execute(), []);
});

test("a session that is ended while it turns two-factor sign-in on does not go on as a new one", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, signIn } = stage;
  const { accessToken: token } = await signIn();
  const { uri } = (
    await api.call("POST", "/v2/auth/two-factor", { token, body: { password: adasPassword } })
  ).body;
  const confirm = { token, body: { code: appCode(uri) } };
  const confirming = await api.db.transaction().execute(async (tx) => {
    await tx.deleteFrom("person_sessions").execute();
    return waitingBehind(stage, () => api.call("POST", "/v2/auth/two-factor/confirm", confirm));
  });
  assert.equal((await confirming.answer).status, 401);
  assert.deepEqual(await api.db.selectFrom("person_sessions").select("id").execute(), []);
  const { twoFactorRequired } = await signIn();
  assert.equal(twoFactorRequired, undefined, "nothing was turned on");
});

test("a second factor that is begun while the password is changed is not there afterwards", async (t) => {
  const stage = await startPeopleStage(t);
  const { accessToken: token } = await stage.signIn();
  const begin = { token, body: { password: adasPassword } };
  const { status } = await whilePasswordChanges(stage, () =>
    stage.api.call("POST", "/v2/auth/two-factor", begin),
  );
  assert.equal(status, 401);
  assert.deepEqual(await stage.api.db.selectFrom("person_two_factors").select("id").execute(), []);
});
