// Two-factor sign-in: turned on and off by who may, codes that are good once, and guesses that end.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ApiAnswer, Json } from "#test/support/management-api.ts";
import "#test/support/leftovers.ts";
import { movableClock } from "#test/support/movable-clock.ts";
import { until } from "#test/support/until.ts";
import {
  adasEmail,
  adasPassword,
  appCode,
  startPeopleStage,
  type PeopleStage,
} from "./people-stage.ts";

const credentials = { email: adasEmail, password: adasPassword };

/** Ada with two-factor sign-in on. */
async function enrolled(
  stage: PeopleStage,
): Promise<{ uri: string; backupCodes: string[]; token: string }> {
  const { api, signIn } = stage;
  const { accessToken } = await signIn();
  const begun = await api.call("POST", "/v2/auth/two-factor", {
    token: accessToken,
    body: { password: adasPassword },
  });
  assert.equal(begun.status, 200, JSON.stringify(begun.body));
  const { uri, backupCodes } = begun.body;
  const body = { code: appCode(uri) };
  const on = await api.call("POST", "/v2/auth/two-factor/confirm", { token: accessToken, body });
  assert.equal(on.status, 200, JSON.stringify(on.body));
  return { uri, backupCodes, token: on.body.accessToken };
}

async function challengeOf({ signIn }: PeopleStage): Promise<string> {
  const body = await signIn();
  assert.deepEqual(Object.keys(body), ["twoFactorRequired", "challenge", "expiresIn"]);
  return body.challenge;
}

function secondStep({ post }: PeopleStage, challenge: string, code: string): Promise<ApiAnswer> {
  return post("/v2/auth/sign-in/two-factor", { challenge, code });
}

function wrongCode(uri: string, later = 0): string {
  const near = new Set([-2, -1, 0, 1, 2].map((steps) => appCode(uri, steps + later)));
  return (
    ["111111", "222222", "333333", "444444", "555555", "666666"].find((code) => !near.has(code)) ??
    ""
  );
}

test("with two-factor sign-in on, a password gives a challenge, and a code of the app the session", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, post } = stage;
  const { uri, token } = await enrolled(stage);
  const first = await post("/v2/auth/sign-in", credentials);
  assert.deepEqual(
    [first.status, first.body.twoFactorRequired, first.headers.get("set-cookie")],
    [200, true, null],
  );
  assert.equal((await post("/v2/auth/token", { refresh_token: first.body.challenge })).status, 401);
  const done = await secondStep(stage, first.body.challenge, appCode(uri, 1));
  assert.equal(done.status, 200, JSON.stringify(done.body));
  assert.equal(done.body.person.twoFactorEnabled, true);
  assert.match(done.headers.get("set-cookie") ?? "", /^slipway_session=/);
  const { body: me } = await api.call("GET", "/v2/auth/session", { token: done.body.accessToken });
  assert.equal(me.person.email, adasEmail);
  assert.equal((await api.call("GET", "/v2/auth/session", { token })).status, 200);
});

test("behind https and below a path the second step is the same, and links lead there", async (t) => {
  const stage = await startPeopleStage(t, { publicUrl: "https://example.test/slipway" });
  const { uri, backupCodes } = await enrolled(stage);
  assert.equal((await secondStep(stage, await challengeOf(stage), appCode(uri, 1))).status, 200);
  assert.equal(
    (await secondStep(stage, await challengeOf(stage), backupCodes[0] ?? "")).status,
    200,
  );
  await stage.post("/v2/auth/password/forgot", { email: adasEmail });
  assert.match(
    (await stage.mail.next(adasEmail)).text,
    /https:\/\/example\.test\/slipway\/dashboard\/reset-password\//,
  );
});

test("a code of the app is good for one sign-in, also when it is used twice at the same moment", async (t) => {
  const stage = await startPeopleStage(t);
  const { uri } = await enrolled(stage);
  const code = appCode(uri, 1);
  const challenges = [await challengeOf(stage), await challengeOf(stage)];
  const answers = await Promise.all(
    challenges.map((challenge) => secondStep(stage, challenge, code)),
  );
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401]);
  assert.equal((await secondStep(stage, await challengeOf(stage), code)).status, 401);
});

test("a code of the app that was taken for one thing is good for no other, and none before it is", async (t) => {
  const stage = await startPeopleStage(t);
  const { uri, backupCodes, token } = await enrolled(stage);
  const change = (path: string, code: string): Promise<ApiAnswer> =>
    stage.api.call("POST", `/v2/auth/two-factor/${path}`, {
      token,
      body: { code, password: adasPassword },
    });
  const confirmed = appCode(uri);
  const next = appCode(uri, 1);
  assert.equal((await secondStep(stage, await challengeOf(stage), confirmed)).status, 401);
  assert.equal((await change("disable", confirmed)).status, 422);
  assert.equal((await secondStep(stage, await challengeOf(stage), next)).status, 200);
  for (const code of [next, confirmed]) {
    assert.equal((await change("backup-codes", code)).status, 422);
    assert.equal((await change("disable", code)).status, 422);
    assert.equal((await secondStep(stage, await challengeOf(stage), code)).status, 401);
  }
  assert.equal((await change("disable", backupCodes[0] ?? "")).status, 200);
});

test("a challenge is good once, and for five codes", async (t) => {
  const stage = await startPeopleStage(t);
  const { uri, backupCodes } = await enrolled(stage);
  const [backup = ""] = backupCodes;
  const guessed = await challengeOf(stage);
  for (let round = 0; round < 5; round++) {
    const { status, body } = await secondStep(stage, guessed, wrongCode(uri));
    assert.deepEqual([status, body], [401, { message: "The code is wrong or was already used." }]);
  }
  assert.equal(
    (await secondStep(stage, guessed, backup)).status,
    401,
    "the right code comes too late",
  );
  const used = await challengeOf(stage);
  assert.equal((await secondStep(stage, used, appCode(uri, 1))).status, 200);
  assert.equal((await secondStep(stage, used, backup)).status, 401);
  for (const challenge of ["x", "2fa-", `2fa-${"A".repeat(32)}`]) {
    assert.equal((await secondStep(stage, challenge, backup)).status, 401, challenge);
  }
  await challengeOf(stage);
  const { identifier } = await stage.api.db
    .selectFrom("person_verifications")
    .select("identifier")
    .where("value", "=", stage.adaId)
    .executeTakeFirstOrThrow();
  assert.equal(
    (await secondStep(stage, identifier, backup)).status,
    401,
    "a stored hash is no challenge",
  );
});

test("wrong codes over many sign-ins lock the second step for a while, the right one included", async (t) => {
  const stage = await startPeopleStage(t);
  const { uri } = await enrolled(stage);
  for (let round = 0; round < 2; round++) {
    const challenge = await challengeOf(stage);
    const codes = Array.from({ length: 5 }, () => secondStep(stage, challenge, wrongCode(uri)));
    for (const { status } of await Promise.all(codes)) assert.equal(status, 401);
  }
  // Codes that came at the same moment as another of their challenge were refused unseen; one by
  // one, all count.
  const last = await challengeOf(stage);
  let isLocked = false;
  for (let round = 0; round < 10 && !isLocked; round++) {
    isLocked = (await secondStep(stage, await challengeOf(stage), wrongCode(uri))).status === 429;
  }
  assert.ok(isLocked, "after twenty wrong codes");
  const { status, body } = await secondStep(stage, last, appCode(uri, 1));
  assert.equal(status, 429, JSON.stringify(body));
  assert.match(body.message, /too many wrong codes/);
});

test("the lock ends after a quarter of an hour with a new count, and a challenge after ten minutes", async (t) => {
  const clock = movableClock();
  const stage = await startPeopleStage(t, { clock });
  const { uri } = await enrolled(stage);
  for (let round = 0; round < 2; round++) {
    const challenge = await challengeOf(stage);
    for (let code = 0; code < 5; code++) {
      assert.equal((await secondStep(stage, challenge, wrongCode(uri))).status, 401);
    }
  }
  const locked = await challengeOf(stage);
  assert.equal((await secondStep(stage, locked, appCode(uri, 1))).status, 429);
  clock.moveMs = 300_000;
  const later = await secondStep(stage, locked, appCode(uri, 11));
  assert.equal(later.status, 429);
  const remaining = Number(later.headers.get("retry-after"));
  assert.ok(remaining > 500 && remaining <= 600, `${remaining} s of the quarter of an hour remain`);
  assert.match(later.body.message, new RegExp(`try again in ${remaining} s`));
  clock.moveMs = 601_000;
  assert.equal(
    (await secondStep(stage, locked, appCode(uri, 20))).status,
    401,
    "the challenge has ended",
  );
  const early = await challengeOf(stage);
  assert.equal((await secondStep(stage, early, appCode(uri, 20))).status, 429, "the lock has not");
  // Thirty steps of the app's codes, and two seconds, which those of the steps beside them leave
  // room for.
  clock.moveMs = 902_000;
  assert.equal((await secondStep(stage, early, wrongCode(uri, 30))).status, 401);
  assert.equal(
    (await secondStep(stage, early, appCode(uri, 30))).status,
    200,
    "one more wrong code locks nothing",
  );
});

test("backup codes are good once each, and new ones replace them", async (t) => {
  const stage = await startPeopleStage(t);
  const { uri, backupCodes, token } = await enrolled(stage);
  const [first = "", second = ""] = backupCodes;
  assert.equal(new Set(backupCodes).size, 10);
  assert.equal((await secondStep(stage, await challengeOf(stage), first)).status, 200);
  assert.equal((await secondStep(stage, await challengeOf(stage), first)).status, 401);
  const path = "/v2/auth/two-factor/backup-codes";
  const without = await stage.api.call("POST", path, {
    token,
    body: { code: appCode(uri, 1), password: "wrong" },
  });
  assert.equal(without.status, 422, JSON.stringify(without.body));
  const body = { code: appCode(uri, 1), password: adasPassword };
  const renewed = await stage.api.call("POST", path, { token, body });
  assert.equal(renewed.status, 200, JSON.stringify(renewed.body));
  assert.equal((await secondStep(stage, await challengeOf(stage), second)).status, 401);
  const [fresh] = renewed.body.backupCodes;
  assert.equal((await secondStep(stage, await challengeOf(stage), fresh)).status, 200);
  const rows = JSON.stringify(
    await stage.api.db.selectFrom("person_two_factors").selectAll().execute(),
  );
  assert.equal(rows.includes(second) || rows.includes(fresh), false, "codes are encrypted at rest");
});

test("turning it on needs the password and a code, turning it off too; both replace the session", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, signIn, entries, isTaken } = stage;
  const { accessToken: token } = await signIn();
  assert.ok(await isTaken(token));
  const call = (path: string, body: Json, as = token): Promise<ApiAnswer> =>
    api.call("POST", `/v2/auth/two-factor${path}`, { token: as, body });
  assert.equal((await call("", { password: "wrong" })).status, 422);
  assert.equal((await call("/confirm", { code: "123456" })).status, 409);
  const { uri } = (await call("", { password: adasPassword })).body;
  assert.equal((await call("/confirm", { code: wrongCode(uri) })).status, 422);
  assert.equal(
    (await signIn()).twoFactorRequired,
    undefined,
    "it is not on before a code was confirmed",
  );
  // As the app shows it, and as people type it.
  const shown = appCode(uri).replace(/(?=...$)/, " ");
  const on = await call("/confirm", { code: shown });
  assert.equal(on.status, 200, JSON.stringify(on.body));
  await until("the old session has ended", async () => !(await isTaken(token)));
  const { accessToken: next } = on.body;
  assert.equal((await call("/confirm", { code: appCode(uri, 1) }, next)).status, 409);
  assert.equal((await call("", { password: adasPassword }, next)).status, 409);
  assert.equal(
    (await call("/disable", { password: adasPassword, code: wrongCode(uri) }, next)).status,
    422,
  );
  assert.equal(
    (await call("/disable", { password: "wrong", code: appCode(uri, 1) }, next)).status,
    422,
  );
  assert.equal((await call("/disable", { code: appCode(uri, 1) }, next)).status, 422);
  const off = await call("/disable", { password: adasPassword, code: appCode(uri, 1) }, next);
  assert.equal(off.status, 200, JSON.stringify(off.body));
  assert.equal(off.body.person.twoFactorEnabled, false);
  assert.equal((await signIn()).person.email, adasEmail);
  const changes = (await entries()).filter((entry) => entry.startsWith("person.two_factor"));
  assert.deepEqual(
    changes.filter((entry) => entry.includes("success")),
    ["person.two_factor_enable success person", "person.two_factor_disable success person"],
  );
});

test("what was begun with the old password is not confirmed after a new one, however that was set", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, post, signIn } = stage;
  const operator = await api.issue({ kind: "operator" });
  const second = "my second password";
  const third = "my third password";
  const ways = [
    (token: string) =>
      api.call("POST", "/v2/auth/password", {
        token,
        body: { currentPassword: adasPassword, newPassword: second },
      }),
    async () => {
      const wish = { token: operator, body: { email: adasEmail } };
      const { url } = (await api.call("POST", "/v2/operator/password-resets", wish)).body;
      return post("/v2/auth/password/reset", { token: url.split("/").at(-1), password: third });
    },
  ];
  for (const [index, password] of [adasPassword, second].entries()) {
    const { accessToken: token } = await signIn({ email: adasEmail, password });
    const { uri } = (await api.call("POST", "/v2/auth/two-factor", { token, body: { password } }))
      .body;
    assert.equal((await ways[index]?.(token))?.status, 200);
    const later = await signIn({ email: adasEmail, password: [second, third][index] ?? "" });
    const confirm = { token: later.accessToken, body: { code: appCode(uri) } };
    assert.equal((await api.call("POST", "/v2/auth/two-factor/confirm", confirm)).status, 409);
  }
});

test("whoever has a stolen access token cannot guess the password or codes with it", async (t) => {
  const stage = await startPeopleStage(t);
  const { accessToken: token } = await stage.signIn();
  const call = (path: string, body: Json): Promise<ApiAnswer> =>
    stage.api.call("POST", path, { token, body });
  for (let round = 0; round < 5; round++) {
    assert.equal((await call("/v2/auth/two-factor", { password: "a guess" })).status, 422);
    const guess = { currentPassword: "a guess", newPassword: "my own new password" };
    assert.equal((await call("/v2/auth/password", guess)).status, 422);
  }
  const right = { currentPassword: adasPassword, newPassword: "my own new password" };
  assert.equal((await call("/v2/auth/password", right)).status, 429);
  assert.equal((await call("/v2/auth/two-factor", { password: adasPassword })).status, 429);
});

test("refused codes are in the audit log, and no code, secret or password is", async (t) => {
  const stage = await startPeopleStage(t);
  const { uri, backupCodes } = await enrolled(stage);
  const wrong = wrongCode(uri);
  await secondStep(stage, await challengeOf(stage), wrong);
  const code = appCode(uri, 1);
  assert.equal((await secondStep(stage, await challengeOf(stage), code)).status, 200);
  assert.deepEqual(await stage.entries(), [
    "person.sign_in success person",
    "person.two_factor_enable success person",
    "person.sign_in failure anonymous",
    "person.sign_in success person",
  ]);
  const everything = JSON.stringify(
    await stage.api.db.selectFrom("audit_log").selectAll().execute(),
  );
  for (const secret of [...backupCodes, uri, adasPassword, `"${code}"`])
    assert.equal(everything.includes(secret), false);
});

test("the operator turns it off for somebody who has lost everything, and nobody else does", async (t) => {
  const stage = await startPeopleStage(t);
  const { api, signIn, isTaken, mail } = stage;
  const { token } = await enrolled(stage);
  assert.ok(await isTaken(token));
  const operator = await api.issue({ kind: "operator" });
  const reset = (as: string, email = adasEmail): Promise<ApiAnswer> =>
    api.call("POST", "/v2/operator/two-factor-resets", { token: as, body: { email } });
  for (const other of [token, api.token]) assert.equal((await reset(other)).status, 403);
  const pending = await challengeOf(stage);
  assert.equal((await reset(operator)).status, 200);
  await until("her sessions end", async () => !(await isTaken(token)));
  assert.equal((await secondStep(stage, pending, "123456")).status, 401);
  assert.equal((await signIn()).person.twoFactorEnabled, false);
  assert.match((await mail.next(adasEmail)).text, /turned off your two-factor sign-in/);
  assert.ok((await stage.entries()).includes("person.two_factor_disable success operator"));
  assert.equal((await reset(operator)).status, 409);
  assert.equal((await reset(operator, "nobody@example.test")).status, 404);
});
