// Tries to sign in are bounded for everybody, and nobody can use up those of a browser that the
// person has signed in with, not even from the same address, where every app of the machine may
// stand.
import assert from "node:assert/strict";
import { test } from "node:test";
import "#test/support/leftovers.ts";
import { makePerson } from "./support/person.ts";
import {
  adasEmail,
  adasPassword,
  appCode,
  startPeopleStage,
  type PeopleStage,
} from "./people-stage.ts";

const right = { email: adasEmail, password: adasPassword };
const wrong = { email: adasEmail, password: "not her password" };

/** The Cookie header of a browser that was given these. */
function deviceOf(headers: Headers): string {
  const line = headers.getSetCookie().find((one) => one.startsWith("slipway_device="));
  assert.match(
    line ?? "none",
    /; Path=\/v2\/auth; Max-Age=34560000; HttpOnly; SameSite=Lax; Priority=High$/,
  );
  return line?.split(";", 1)[0] ?? "";
}

/** Signs in with a browser; returns its device's cookie. */
async function signInWith({ post }: PeopleStage, body = right, cookie = ""): Promise<string> {
  const { status, headers } = await post("/v2/auth/sign-in", body, { cookie });
  assert.equal(status, 200);
  return deviceOf(headers);
}

/** What apps of the machine can do: wrong passwords for her and for others. */
async function flood({ api, post }: PeopleStage): Promise<void> {
  // To try a password of somebody takes less of a processor than one of nobody.
  await makePerson(api.db, {
    email: "nobody@example.test",
    name: "Nobody",
    password: "a password of nobody's",
  });
  for (let round = 0; round < 36; round++) await post("/v2/auth/sign-in", wrong);
  for (let round = 0; round < 60; round++)
    await post("/v2/auth/sign-in", { ...wrong, email: "nobody@example.test" });
  for (const body of [right, { ...wrong, email: "somebody@example.test" }]) {
    assert.equal((await post("/v2/auth/sign-in", body)).status, 429, "strangers are held up");
  }
}

test("wrong sign-ins from her own address do not lock a person out of a browser that she has signed in with", async (t) => {
  const stage = await startPeopleStage(t);
  const cookie = await signInWith(stage);
  await flood(stage);
  const again = await signInWith(stage, right, cookie);
  assert.equal(again, cookie, "it is the same device");
});

test("nor with a second factor", async (t) => {
  const stage = await startPeopleStage(t);
  const { accessToken } = await stage.signIn();
  const as = { authorization: `Bearer ${accessToken}` };
  const { body: begun } = await stage.post("/v2/auth/two-factor", { password: adasPassword }, as);
  const { headers } = await stage.post(
    "/v2/auth/two-factor/confirm",
    { code: appCode(begun.uri) },
    as,
  );
  const cookie = deviceOf(headers);
  await flood(stage);
  const first = await stage.post("/v2/auth/sign-in", right, { cookie });
  assert.equal(first.body.twoFactorRequired, true);
  assert.deepEqual(first.headers.getSetCookie(), [], "half a sign-in makes no device");
  const code = { challenge: first.body.challenge, code: begun.backupCodes[0] };
  const second = await stage.post("/v2/auth/sign-in/two-factor", code, { cookie });
  assert.equal(second.status, 200, JSON.stringify(second.body));
});

test("the tries of a device are bounded, too, and are not another device's", async (t) => {
  const stage = await startPeopleStage(t);
  const { post } = stage;
  const first = await signInWith(stage);
  const second = await signInWith(stage);
  assert.notEqual(first, second);
  for (let round = 0; round < 10; round++) {
    assert.equal((await post("/v2/auth/sign-in", wrong, { cookie: first })).status, 401);
  }
  const refused = await post("/v2/auth/sign-in", right, { cookie: first });
  assert.equal(refused.status, 429);
  assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/);
  await signInWith(stage, right, second);
  await signInWith(stage);
});

test("a device of somebody else's, an altered one, and one that was made up are nobody's", async (t) => {
  const stage = await startPeopleStage(t);
  const eve = { email: "eve@example.test", password: "a password of Eve's" };
  await makePerson(stage.api.db, { ...eve, name: "Eve" });
  const hers = await signInWith(stage);
  const eves = await signInWith(stage, eve);
  const [name, value = ""] = hers.split("=");
  const [personId, id, signature = ""] = value.split(".");
  const others = [
    eves,
    `${name}=${personId}.${eves.split(".")[1]}.${eves.split(".")[2]}`,
    `${name}=${personId}.${id}.${signature.replace(/./, (letter) => (letter === "A" ? "B" : "A"))}`,
    `${name}=${personId}.${"A".repeat(22)}.${"A".repeat(43)}`,
    `${name}=${"x".repeat(5_000)}`,
  ];
  await flood(stage);
  for (const cookie of others) {
    const { status } = await stage.post("/v2/auth/sign-in", right, { cookie });
    assert.equal(status, 429, cookie.slice(0, 100));
  }
  await signInWith(stage, right, hers);
});

test("a browser that was signed in before there were device cookies gets one when it goes on, and keeps it after a sign-out", async (t) => {
  const stage = await startPeopleStage(t);
  const { refreshToken } = await stage.signIn();
  const session = { cookie: `slipway_session=${refreshToken}` };
  const { status, headers } = await stage.post("/v2/auth/token", {}, session);
  assert.equal(status, 200);
  const cookie = deviceOf(headers);
  const out = await stage.post("/v2/auth/sign-out", {}, session);
  assert.deepEqual(
    out.headers.getSetCookie().map((line) => line.split("=", 1)[0]),
    ["slipway_session"],
  );
  await flood(stage);
  await signInWith(stage, right, cookie);
});
