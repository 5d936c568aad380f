// People on a real platform: the owner of bootstrap.json, a second platform on the same database,
// another secret key.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { SigningKeys } from "#accounts/keys.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { personLookup } from "#people/person-lookup.ts";
import { Notifications } from "#store/notify.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { emptyDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import type { Json } from "#test/support/management-api.ts";
import { startPlatform, type PlatformProcess } from "#test/support/platform-process.ts";
import { templateName } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";
import { connect } from "./support/connect.ts";

async function post(
  { bootstrap }: PlatformProcess,
  path: string,
  body: Json,
): Promise<{ status: number; body: Json }> {
  const response = await fetch(bootstrap.baseUrl + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

test("the owner signs in; sessions are known to every platform, end on every one, and outlive a new secret key", async (t) => {
  const url = await emptyDatabase(t, { template: templateName });
  const oldKey = randomBytes(32).toString("hex");
  const newKey = randomBytes(32).toString("hex");
  const platform = await startPlatform(t, {
    SLIPWAY_DATABASE_URL: url.reveal(),
    SLIPWAY_SECRET_KEY: oldKey,
  });
  const { ownerEmail, ownerPassword, projectId, apiUrl } = platform.bootstrap;
  const credentials = { email: ownerEmail, password: ownerPassword };
  const signedIn = await post(platform, "/v2/auth/sign-in", credentials);
  assert.equal(signedIn.status, 200, JSON.stringify(signedIn.body));
  const { accessToken, refreshToken } = signedIn.body;
  const bearer = { headers: { authorization: `Bearer ${accessToken}` } };
  const called = await fetch(`${apiUrl}/v4/${projectId}/some-app/predict`, {
    ...bearer,
    method: "POST",
    body: "{}",
  });
  assert.equal(called.status, 401, "apps take no sign-ins of people");

  await platform.end("SIGTERM");
  await platform.restart({ environment: { SLIPWAY_SECRET_KEY: `${newKey},${oldKey}` } });
  await platform.end("SIGTERM");
  await platform.restart({ environment: { SLIPWAY_SECRET_KEY: newKey } });
  assert.equal(
    (await post(platform, "/v2/auth/token", { refresh_token: refreshToken })).status,
    200,
  );

  const other = await connect(url, 2);
  cleanLast(t, () => other.destroy());
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  cleanLast(t, () => notifications.stop());
  const keys = new SigningKeys({ sealer: new Sealer([newKey]), clock: systemClock });
  await keys.load(other);
  const check = new TokenCheck({
    db: other,
    keys,
    notifications,
    clock: systemClock,
    people: personLookup(other),
  });
  cleanLast(t, () => check.close());
  assert.equal((await check.check(accessToken))?.kind, "person");
  assert.equal(
    (await post(platform, "/v2/auth/sign-out", { refresh_token: refreshToken })).status,
    200,
  );
  await until(
    "the other platform refuses it",
    async () => (await check.check(accessToken)) === null,
  );
  for (const secret of [ownerPassword, accessToken, refreshToken, oldKey]) {
    assert.equal(platform.output().includes(secret), false, "the log has no secret");
  }
});
