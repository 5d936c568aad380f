// Signing in with a password: what it gives, what it takes, what it tells nobody.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { hashPassword } from "#accounts/passwords.ts";
import { noteAddress } from "#people/people-store.ts";
import { asOwner } from "#test/support/as-owner.ts";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";
import {
  adasEmail,
  adasPassword,
  postFrom,
  startPeopleStage,
  type PeopleStage,
} from "./people-stage.ts";

const wrong = { email: adasEmail, password: "not the password" };
const unknown = { email: "nobody@example.test", password: adasPassword };

async function cookieOf({ post }: PeopleStage): Promise<string> {
  const { headers } = await post("/v2/auth/sign-in", { email: adasEmail, password: adasPassword });
  return (headers.get("set-cookie") ?? "").split(";")[0] ?? "";
}

test("a person signs in with a password and uses the management API with the access token", async (t) => {
  const { api, adaId, secondProject, post } = await startPeopleStage(t);
  const credentials = { email: "Ada@Example.test", password: adasPassword };
  const { status, body, headers } = await post("/v2/auth/sign-in", credentials);
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(body.person, {
    id: adaId,
    email: adasEmail,
    name: "Ada",
    twoFactorEnabled: false,
  });
  assert.match(
    headers.getSetCookie()[0] ?? "",
    /^slipway_session=[\w.-]+; Path=\/v2\/auth; Max-Age=\d+; HttpOnly; SameSite=Strict; Priority=High$/,
  );
  const { accessToken: token } = body;
  const apps = await api.call("GET", `/v2/projects/${api.projectId}/apps`, { token });
  assert.deepEqual([apps.status, apps.body], [200, []]);
  const foreign = await api.addProject("foreign");
  assert.equal((await api.call("GET", `/v2/projects/${foreign}/apps`, { token })).status, 404);
  const { body: me } = await api.call("GET", "/v2/auth/session", { token });
  assert.deepEqual(me.projects, [
    { id: api.projectId, role: "admin" },
    { id: secondProject, role: "member" },
  ]);
  assert.equal(me.session.isCurrent, true);
});

test("an address that nobody has is answered like a wrong password, and takes as long", async (t) => {
  const { api, adaId, post } = await startPeopleStage(t);
  const password_hash = await hashPassword(adasPassword);
  await api.db
    .updateTable("person_accounts")
    .set({ password_hash })
    .where("person_id", "=", adaId)
    .execute();
  // As work of the processor, which is the time that it takes, and which other programs on this
  // machine do not change.
  const known: number[] = [];
  const stranger: number[] = [];
  for (let round = 0; round < 5; round++) {
    for (const [body, times] of [[wrong, known] as const, [unknown, stranger] as const]) {
      const begun = process.cpuUsage();
      const answer = await post("/v2/auth/sign-in", body);
      const { user, system } = process.cpuUsage(begun);
      times.push(user + system);
      assert.deepEqual(
        [answer.status, answer.body, answer.headers.get("set-cookie")],
        [401, { message: "The email address or the password is wrong." }, null],
      );
    }
  }
  const middle = (times: number[]): number => times.toSorted((a, b) => a - b)[2] ?? 0;
  const ratio = middle(stranger) / middle(known);
  assert.ok(
    ratio > 0.5 && ratio < 2,
    `a stranger's sign-in took ${ratio.toFixed(2)} times as long`,
  );
});

test("tries of an account are limited, whatever the password, but not where the person has signed in before", async (t) => {
  const { api, post, signIn } = await startPeopleStage(t);
  const url = `${api.baseUrl}/v2/auth/sign-in`;
  await signIn();
  for (let round = 0; round < 10; round++)
    assert.equal((await postFrom("127.0.0.2", url, wrong)).status, 401);
  const right = { email: adasEmail.toUpperCase(), password: adasPassword };
  const refused = await postFrom("127.0.0.2", url, right);
  assert.equal(refused.status, 429, JSON.stringify(refused.body));
  assert.match(refused.body.message, /^There were too many attempts; try again in \d+ s\.$/);
  assert.equal(
    (await postFrom("127.0.0.3", url, right)).status,
    429,
    "from any other address, too",
  );
  assert.equal((await post("/v2/auth/sign-in", right)).status, 200, "where she has been before");
  for (let round = 0; round < 10; round++)
    assert.equal((await postFrom("127.0.0.2", url, unknown)).status, 401);
  assert.equal(
    (await postFrom("127.0.0.2", url, unknown)).status,
    429,
    "an unknown address tells nothing by its limit",
  );
});

test("tries from an address are limited, whoever they are for", async (t) => {
  const { api, post, signIn } = await startPeopleStage(t);
  for (let round = 0; round < 3; round++) await signIn();
  assert.equal((await post("/v2/auth/sign-in", unknown)).status, 401);
  // 48 more of these would take long: each is a password that is hashed.
  const counted = await api.db
    .updateTable("person_attempts")
    .set({ used: 49 })
    .where("used", "=", 1)
    .execute();
  assert.equal(counted[0]?.numUpdatedRows, 2n, "by address and by account");
  await api.db.deleteFrom("person_attempts").where("used", "=", 0).execute();
  const stranger = { ...unknown, email: "somebody-else@example.test" };
  assert.equal((await post("/v2/auth/sign-in", stranger)).status, 401, "the fiftieth");
  const { status, headers } = await post("/v2/auth/sign-in", {
    email: adasEmail,
    password: adasPassword,
  });
  assert.equal(status, 429);
  assert.match(headers.get("retry-after") ?? "", /^\d+$/);
});

test("a refresh token gives access tokens: as JSON, as a form, and as a cookie of the platform's own pages", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, post, signIn } = stage;
  const { refreshToken } = await signIn();
  const asJson = await post("/v2/auth/token", {
    grant_type: "refresh_token",
    refresh_token: refreshToken,
  });
  const form = new URLSearchParams({
    grant_type: "refresh_token",
    client_id: "cli",
    refresh_token: refreshToken,
  });
  const formHeaders = { "content-type": "application/x-www-form-urlencoded" };
  const sent = { text: form.toString(), token: null, headers: formHeaders };
  const asForm = await api.call("POST", "/v2/auth/token", sent);
  const cookie = await cookieOf(stage);
  const asCookie = await post("/v2/auth/token", {}, { cookie, "sec-fetch-site": "same-origin" });
  const renewed = asCookie.headers.get("set-cookie") ?? "";
  assert.ok(
    renewed.startsWith(`${cookie}; `) && renewed.includes("Max-Age=2592000"),
    "the cookie goes on: " + renewed,
  );
  assert.equal(asJson.headers.get("set-cookie"), null);
  for (const { status, body } of [asJson, asForm, asCookie]) {
    assert.equal(status, 200, JSON.stringify(body));
    assert.deepEqual([body.token_type, body.expires_in], ["Bearer", 14_400]);
    assert.equal(
      (await api.call("GET", "/v2/auth/session", { token: body.access_token })).status,
      200,
    );
  }
  assert.equal(
    (await api.call("POST", "/v2/auth/sign-in", sent)).status,
    415,
    "no other route takes forms",
  );
});

test("no other site can use the cookie, sign anybody in, or sign them out", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, post } = stage;
  const cookie = await cookieOf(stage);
  const credentials = { email: adasEmail, password: adasPassword };
  const foreign = [
    { origin: "https://evil.example" },
    { origin: "null" },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site", origin: api.baseUrl },
  ];
  for (const headers of foreign) {
    const told = JSON.stringify(headers);
    assert.equal((await post("/v2/auth/token", {}, { ...headers, cookie })).status, 403, told);
    assert.equal((await post("/v2/auth/sign-out", {}, { ...headers, cookie })).status, 403, told);
    const blind = await post("/v2/auth/sign-out", {}, headers as Record<string, string>);
    assert.deepEqual([blind.status, blind.headers.get("set-cookie")], [403, null], told);
    const signIn = await post("/v2/auth/sign-in", credentials, headers as Record<string, string>);
    assert.deepEqual([signIn.status, signIn.headers.get("set-cookie")], [403, null], told);
  }
  assert.equal((await post("/v2/auth/token", {}, { cookie, origin: api.baseUrl })).status, 200);
  const asBearer = { token: cookie.split("=")[1] ?? "" };
  assert.equal((await api.call("GET", "/v2/auth/session", asBearer)).status, 401);
  const noBearer = { token: null, headers: { cookie } };
  assert.equal(
    (await api.call("GET", "/v2/auth/session", noBearer)).status,
    401,
    "the API takes no cookie",
  );
});

test("signing in gives a new session, whatever cookie the browser was given before", async (t) => {
  const stage = await startPeopleStage(t);
  const planted = await cookieOf(stage);
  const credentials = { email: adasEmail, password: adasPassword };
  const { body, headers } = await stage.post("/v2/auth/sign-in", credentials, { cookie: planted });
  assert.notEqual(`slipway_session=${body.refreshToken}`, planted);
  assert.equal((headers.get("set-cookie") ?? "").startsWith(planted), false);
});

test("what the database has of a session signs nobody in, and neither does an altered refresh token", async (t) => {
  const { api, post, signIn } = await startPeopleStage(t);
  const { refreshToken } = await signIn();
  const { token } = await api.db
    .selectFrom("person_sessions")
    .select("token")
    .executeTakeFirstOrThrow();
  const altered = [
    token,
    `${token}.`,
    `${token}.${"A".repeat(43)}`,
    refreshToken.replace(/.$/, (last: string) => (last === "A" ? "E" : "A")),
    `x${refreshToken}`,
    `${refreshToken}x`,
  ];
  for (const refresh_token of altered) {
    assert.equal((await post("/v2/auth/token", { refresh_token })).status, 401, refresh_token);
  }
});

test("an ended session's access token is refused", async (t) => {
  const { api, adaId, post, signIn, isTaken } = await startPeopleStage(t);
  const first = await signIn();
  const second = await signIn();
  assert.ok(await isTaken(first.accessToken));
  const { body: list } = await api.call("GET", "/v2/auth/sessions", { token: second.accessToken });
  assert.deepEqual(
    list.map((one: { isCurrent: boolean }) => one.isCurrent).toSorted(),
    [false, true],
    "she sees both sessions",
  );
  const other = list.find((one: { isCurrent: boolean }) => !one.isCurrent);
  const ended = await api.call("DELETE", `/v2/auth/sessions/${other.id}`, {
    token: second.accessToken,
  });
  assert.equal(ended.status, 200);
  await until("the first is refused", async () => !(await isTaken(first.accessToken)));
  assert.equal((await post("/v2/auth/token", { refresh_token: first.refreshToken })).status, 401);
  assert.ok(await isTaken(second.accessToken));
  const out = await post("/v2/auth/sign-out", { refresh_token: second.refreshToken });
  assert.deepEqual(
    [out.status, /Max-Age=0/.test(out.headers.get("set-cookie") ?? "")],
    [200, true],
  );
  await until("the second is refused", async () => !(await isTaken(second.accessToken)));
  const left = await api.db
    .selectFrom("person_sessions")
    .select("id")
    .where("person_id", "=", adaId)
    .execute();
  assert.deepEqual(left, []);
});

test("nobody ends another person's session", async (t) => {
  const { api, signIn } = await startPeopleStage(t);
  const { accessToken: token } = await signIn();
  const { id: ownerId } = await api.db
    .selectFrom("people")
    .select("id")
    .where("email", "<>", adasEmail)
    .executeTakeFirstOrThrow();
  const theirs = {
    id: "11111111-1111-4111-8111-111111111111",
    token: "theirs",
    expires_at: new Date("2100-01-01"),
  };
  await api.db
    .insertInto("person_sessions")
    .values({ ...theirs, person_id: ownerId })
    .execute();
  for (const id of [theirs.id, "22222222-2222-4222-8222-222222222222", "x"]) {
    assert.equal((await api.call("DELETE", `/v2/auth/sessions/${id}`, { token })).status, 404, id);
  }
  assert.equal((await api.call("DELETE", "/v2/auth/sessions", { token })).status, 200);
  const left = await api.db
    .selectFrom("person_sessions")
    .select("id")
    .where("id", "=", theirs.id)
    .execute();
  assert.equal(left.length, 1);
});

test("sign-ins, refused ones too, are in the audit log of every project that the person belongs to", async (t) => {
  const { api, secondProject, post, signIn, entries } = await startPeopleStage(t);
  await post("/v2/auth/sign-in", wrong);
  const { refreshToken, accessToken: token } = await signIn();
  assert.equal((await api.call("DELETE", "/v2/auth/sessions/x", { token })).status, 404);
  const url = `${api.baseUrl}/v2/auth/sign-in`;
  await postFrom("127.0.0.2", url, { email: adasEmail, password: adasPassword });
  await post("/v2/auth/sign-out", { refresh_token: refreshToken });
  const expected = [
    "person.sign_in failure anonymous",
    "person.sign_in success person",
    "person.session_end failure person",
    "person.new_address success person",
    "person.sign_in success person",
    "person.sign_out success person",
  ];
  assert.deepEqual(await entries(), expected);
  assert.deepEqual(await entries(secondProject), expected);
  const everything = JSON.stringify(await api.db.selectFrom("audit_log").selectAll().execute());
  for (const secret of [adasPassword, wrong.password, refreshToken, token]) {
    assert.equal(everything.includes(secret), false);
  }
});

test("a person's last addresses are remembered, and the oldest one is forgotten only for another new one", async (t) => {
  const { api, adaId: personId } = await startPeopleStage(t);
  const from = (address: string, second: number): ReturnType<typeof noteAddress> =>
    noteAddress(api.db, { personId, address, at: new Date(second * 1000), addressesMax: 3 });
  assert.deepEqual(await from("192.0.2.1", 1), { isNew: true, isFirst: true });
  for (const number of [2, 3]) await from(`192.0.2.${number}`, number);
  assert.deepEqual(await from("192.0.2.3", 4), { isNew: false, isFirst: false }, "the last again");
  assert.deepEqual(await from("192.0.2.1", 5), { isNew: false, isFirst: false }, "the oldest");
  assert.deepEqual(await from("192.0.2.4", 6), { isNew: true, isFirst: false });
  assert.deepEqual(await from("192.0.2.2", 7), { isNew: true, isFirst: false }, "forgotten");
});

test("a proxy before the platform is believed where people come from, nobody else is", async (t) => {
  const body = { email: adasEmail, password: adasPassword };
  const forged = { "x-forwarded-for": "198.51.100.7" };
  const behind = await startPeopleStage(t, { trustedProxies: ["127.0.0.0/8"] });
  const { body: proxied } = await behind.post("/v2/auth/sign-in", body, {
    "x-forwarded-for": "1.2.3.4, 203.0.113.9:4711",
  });
  const seen = await behind.api.call("GET", "/v2/auth/session", { token: proxied.accessToken });
  assert.equal(seen.body.session.address, "203.0.113.9");
  const bare = await startPeopleStage(t, { trustedProxies: ["192.0.2.1"] });
  const { body: direct } = await bare.post("/v2/auth/sign-in", body, forged);
  const own = await bare.api.call("GET", "/v2/auth/session", { token: direct.accessToken });
  assert.equal(own.body.session.address, "127.0.0.1");
});

test("a sign-in that the audit log cannot take is none", async (t) => {
  const { api, post } = await startPeopleStage(t);
  await asOwner(api.db, async (tx) => {
    await sql`
      create function refuse_sign_in() returns trigger language plpgsql as $$
        begin raise exception 'no'; end $$`.execute(tx);
    await sql`
      create trigger refuse_sign_in before insert on audit_log for each row
        when (new.action = 'person.sign_in') execute function refuse_sign_in()`.execute(tx);
  });
  const { status, body } = await post("/v2/auth/sign-in", {
    email: adasEmail,
    password: adasPassword,
  });
  assert.equal(status, 500);
  assert.match(body.message, /^Internal error; see the platform's log for the id [\w-]+\.$/);
  assert.deepEqual(await api.db.selectFrom("person_sessions").selectAll().execute(), []);
});

test("signing in asks nobody outside", async (t) => {
  const { post, signIn } = await startPeopleStage(t);
  const before = globalThis.fetch;
  t.after(() => void (globalThis.fetch = before));
  const asked: string[] = [];
  globalThis.fetch = async (...given) => {
    const [input] = given;
    asked.push(new URL(input instanceof Request ? input.url : input).host);
    return before(...given);
  };
  await signIn();
  await post("/v2/auth/password/forgot", { email: adasEmail });
  assert.equal(new Set(asked).size, 1, "only the test itself has called, and that the API");
});
