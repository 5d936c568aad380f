// Passwords: changed by those who know theirs, set anew by a link that was mailed or handed over;
// and sign-up by mail.
import assert from "node:assert/strict";
import { test } from "node:test";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";
import { adasEmail, adasPassword, startPeopleStage, type PeopleStage } from "./people-stage.ts";

const nextPassword = "another fine password";

async function linkFromMail({ mail }: PeopleStage, to: string, after = 0): Promise<string> {
  const { text } = await mail.next(to, after);
  const [, secret] = /\/dashboard\/reset-password\/([\w-]+)/.exec(text) ?? [];
  assert.ok(secret !== undefined, text);
  return secret;
}

test("changing the password ends the other sessions, and the old password is good no more", async (t) => {
  const { api, post, signIn, mail, isTaken } = await startPeopleStage(t);
  const other = await signIn();
  assert.ok(await isTaken(other.accessToken));
  const { accessToken: token } = await signIn();
  const change = (body: object): ReturnType<typeof post> =>
    api.call("POST", "/v2/auth/password", { token, body }) as ReturnType<typeof post>;
  const bad = await change({ currentPassword: "not the password", newPassword: nextPassword });
  assert.deepEqual([bad.status, bad.body], [422, { message: "The current password is wrong." }]);
  const short = await change({ currentPassword: adasPassword, newPassword: "short" });
  assert.deepEqual(
    [short.status, short.body],
    [400, { message: "newPassword must have 10 to 1000 characters." }],
  );
  const done = await change({ currentPassword: adasPassword, newPassword: nextPassword });
  assert.equal(done.status, 200, JSON.stringify(done.body));
  assert.equal((await post("/v2/auth/token", { refresh_token: other.refreshToken })).status, 401);
  await until("the other session ends", async () => !(await isTaken(other.accessToken)));
  assert.ok(await isTaken(token));
  assert.equal(
    (await post("/v2/auth/sign-in", { email: adasEmail, password: adasPassword })).status,
    401,
  );
  await signIn({ email: adasEmail, password: nextPassword });
  assert.match((await mail.next(adasEmail)).text, /password for Slipway at \S+ was changed/);
});

test("of two sessions that change the password at the same moment, one does, and the other is ended", async (t) => {
  const { api, post, signIn } = await startPeopleStage(t);
  const sessions = [await signIn(), await signIn()];
  const passwords = ["the password of one", "the password of another"];
  const changes = sessions.map(({ accessToken: token }, index) => {
    const body = { currentPassword: adasPassword, newPassword: passwords[index] };
    return api.call("POST", "/v2/auth/password", { token, body });
  });
  const statuses = (await Promise.all(changes)).map(({ status }) => status);
  assert.equal(statuses.filter((status) => status === 200).length, 1, String(statuses));
  const signIns = passwords.map((password) =>
    post("/v2/auth/sign-in", { email: adasEmail, password }),
  );
  const taken = (await Promise.all(signIns)).map(({ status }) => status);
  assert.deepEqual(
    taken.map((status) => status === 200),
    statuses.map((status) => status === 200),
  );
});

test("a forgotten password is set anew by a mailed link, which works once and ends all sessions", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, post, signIn, mail, entries, isTaken } = stage;
  const before = await signIn();
  assert.ok(await isTaken(before.accessToken));
  const asked = await post("/v2/auth/password/forgot", { email: "ADA@example.test" });
  const unknown = await post("/v2/auth/password/forgot", { email: "nobody@example.test" });
  assert.deepEqual([asked.status, asked.body], [unknown.status, unknown.body]);
  await post("/v2/auth/password/forgot", { email: adasEmail });
  const first = await linkFromMail(stage, adasEmail);
  const second = await linkFromMail(stage, adasEmail, 1);
  const weak = await post("/v2/auth/password/reset", { token: first, password: "short" });
  assert.equal(weak.status, 400, "a password that is refused does not use the link up");
  const done = await post("/v2/auth/password/reset", { token: first, password: nextPassword });
  assert.equal(done.status, 200, JSON.stringify(done.body));
  for (const token of [first, second, `m${"A".repeat(43)}`, "x"]) {
    const again = await post("/v2/auth/password/reset", {
      token,
      password: "yet another password",
    });
    assert.equal(again.status, 422, token);
    assert.match(again.body.message, /expired or was already used/);
  }
  assert.equal((await post("/v2/auth/token", { refresh_token: before.refreshToken })).status, 401);
  await until("the old session ends", async () => !(await isTaken(before.accessToken)));
  assert.equal(
    (await post("/v2/auth/sign-in", { email: adasEmail, password: adasPassword })).status,
    401,
  );
  await signIn({ email: adasEmail, password: nextPassword });
  assert.equal(mail.mails.filter(({ to }) => to.includes("nobody@example.test")).length, 0);
  const resets = (await entries()).filter((entry) => entry.startsWith("person.password_reset"));
  assert.deepEqual(resets, [
    "person.password_reset success anonymous",
    "person.password_reset success anonymous",
    "person.password_reset success person",
  ]);
  const rows = JSON.stringify(
    await api.db.selectFrom("person_verifications").selectAll().execute(),
  );
  assert.equal(rows.includes(first), false);
});

test("two who use one link at the same moment: one sets the password, the other is refused", async (t) => {
  const stage = await startPeopleStage(t);
  await stage.post("/v2/auth/password/forgot", { email: adasEmail });
  const token = await linkFromMail(stage, adasEmail);
  const answers = await Promise.all(
    ["first of the passwords", "second of the passwords"].map((password) =>
      stage.post("/v2/auth/password/reset", { token, password }),
    ),
  );
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 422]);
});

test("an expired link sets nothing", async (t) => {
  const stage = await startPeopleStage(t);
  await stage.post("/v2/auth/password/forgot", { email: adasEmail });
  const token = await linkFromMail(stage, adasEmail);
  await stage.api.db
    .updateTable("person_verifications")
    .set({ expires_at: new Date(0) })
    .execute();
  const { status } = await stage.post("/v2/auth/password/reset", { token, password: nextPassword });
  assert.equal(status, 422);
  await stage.signIn();
});

test("the operator hands a link over where no mail is sent, and nobody else makes one", async (t) => {
  const { api, post, signIn, adaId } = await startPeopleStage(t);
  const operator = await api.issue({ kind: "operator" });
  const path = "/v2/operator/password-resets";
  const made = await api.call("POST", path, { token: operator, body: { email: adasEmail } });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const token = made.body.url.split("/").at(-1);
  assert.equal(
    (await post("/v2/auth/password/reset", { token, password: nextPassword })).status,
    200,
  );
  const ada = await signIn({ email: adasEmail, password: nextPassword });
  const { email_verified: isProven } = await api.db
    .selectFrom("people")
    .select("email_verified")
    .where("id", "=", adaId)
    .executeTakeFirstOrThrow();
  assert.equal(isProven, false, "a link that was handed over proves no address");
  assert.equal(
    (await api.call("POST", path, { token: operator, body: { email: "x@example.test" } })).status,
    404,
  );
  for (const caller of [ada.accessToken, api.token]) {
    assert.equal(
      (await api.call("POST", path, { token: caller, body: { email: adasEmail } })).status,
      403,
    );
  }
});

test("links are not mailed without end to one address", async (t) => {
  const stage = await startPeopleStage(t);
  for (let round = 0; round < 8; round++) {
    assert.equal((await stage.post("/v2/auth/password/forgot", { email: adasEmail })).status, 200);
  }
  await stage.api.people.close();
  await stage.mail.next(adasEmail, 4);
  const { count } = await stage.api.db
    .selectFrom("person_verifications")
    .select((rows) => rows.fn.countAll<number>().as("count"))
    .executeTakeFirstOrThrow();
  assert.equal(count, 5);
});

test("where sign-up is open, whoever gets mail becomes a person; where it is not, nobody does", async (t) => {
  const open = await startPeopleStage(t, { signUp: "open" });
  const grace = { email: "grace@example.test", name: "Grace" };
  assert.equal((await open.post("/v2/auth/sign-up", grace)).status, 200);
  const known = await open.post("/v2/auth/sign-up", { email: adasEmail, name: "Eve" });
  assert.equal(known.status, 200, "an address that is known is answered alike");
  const token = await linkFromMail(open, grace.email);
  assert.equal(
    (await open.post("/v2/auth/password/reset", { token, password: nextPassword })).status,
    200,
  );
  const { person } = await open.signIn({ email: grace.email, password: nextPassword });
  assert.equal(person.name, "Grace");
  await open.mail.next(adasEmail);
  assert.equal((await open.signIn()).person.name, "Ada");

  const closed = await startPeopleStage(t);
  const { status, body } = await closed.post("/v2/auth/sign-up", grace);
  assert.deepEqual([status, /by invitation/.test(body.message)], [403, true]);
});
