// Bad tokens are bounded by address and by the token that has ended, while good ones go on; at the
// API and for calls of apps.
import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import { Authenticator } from "#accounts/authenticator.ts";
import { authorizeCall } from "#proxy/authorize.ts";
import type { Caller, TokenCaller } from "#accounts/caller.ts";
import type { AppRoute } from "#apps/routes.ts";
import type { AppId, ProjectId, TokenId } from "#lib/ids.ts";
import { byPlatform, testAccounts, type Accounts } from "#test/support/accounts.ts";
import "#test/support/leftovers.ts";
import { startManagementApi } from "#test/support/management-api.ts";
import { revokeToken } from "#test/support/revoke-token.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

function authenticatorOf(
  accounts: Accounts,
  failedPerMinute: number,
  clock: Clock = systemClock,
): Authenticator {
  return new Authenticator({
    check: accounts.check,
    uses: { note: () => undefined },
    failedPerMinute,
    clock,
  });
}

function codeOf(judged: unknown): string {
  if (judged === null) return "not valid";
  return judged instanceof Fault ? judged.code : "valid";
}

async function projectToken(accounts: Accounts): Promise<string> {
  const issued = await accounts.issue({ kind: "inference", projectId: accounts.projectId });
  return issued.token.reveal();
}

test("after many bad tokens unknown ones are refused unseen for a minute; known ones and other addresses go on", async (t) => {
  const clock = new VirtualClock();
  const accounts = await testAccounts(t, { clock });
  const authenticator = authenticatorOf(accounts, 5, clock);
  const known = await projectToken(accounts);
  const unknown = await projectToken(accounts);
  const third = await projectToken(accounts);
  assert.equal(codeOf(await authenticator.check(known, "192.0.2.1")), "valid");
  for (let index = 0; index < 5; index++) {
    assert.equal(codeOf(await authenticator.check(`bad-${index}`, "192.0.2.1")), "not valid");
  }
  const refused = await authenticator.check("bad-5", "192.0.2.1");
  assert.equal(codeOf(refused), "rate_limited");
  assert.ok(refused instanceof Fault && refused.retryAfterSeconds === 60);
  assert.equal(
    codeOf(await authenticator.check("bad-0", "192.0.2.1")),
    "rate_limited",
    "one that was refused before too",
  );
  assert.equal(codeOf(await authenticator.check(unknown, "192.0.2.1")), "rate_limited");
  assert.equal(
    codeOf(authenticator.cached(unknown, "192.0.2.1")),
    "rate_limited",
    "also where calls of apps ask",
  );
  assert.equal(codeOf(await authenticator.check(known, "192.0.2.1")), "valid");
  assert.equal(codeOf(authenticator.cached(known, "192.0.2.1")), "valid");
  assert.equal(codeOf(await authenticator.check(third, "192.0.2.2")), "valid");
  await clock.advance(60_000);
  assert.equal(codeOf(await authenticator.check(unknown, "192.0.2.1")), "valid");
});

test("a token that was known goes on also when it must be looked up again", async (t) => {
  const accounts = await testAccounts(t);
  const authenticator = authenticatorOf(accounts, 2);
  const known = await projectToken(accounts);
  await authenticator.check(known, "192.0.2.1");
  for (const bad of ["bad-1", "bad-2", "bad-3"]) await authenticator.check(bad, "192.0.2.1");
  // As after a broken connection, or when the rights of the token were changed.
  await accounts.db.transaction().execute((tx) => accounts.keys.rotate(tx, byPlatform));
  await until("it is forgotten", () => accounts.check.cached(known) === undefined);
  assert.equal(authenticator.cached(known, "192.0.2.1"), undefined);
  assert.equal(codeOf(await authenticator.check(known, "192.0.2.1")), "valid");
});

test("a client that goes on with a revoked token is counted by it, not by the address it shares", async (t) => {
  const accounts = await testAccounts(t);
  const authenticator = authenticatorOf(accounts, 3);
  const ended = await projectToken(accounts);
  const fresh = await projectToken(accounts);
  await authenticator.check(ended, "192.0.2.1");
  await revokeToken(accounts, ended);
  await until("it is refused", async () => (await accounts.check.check(ended)) === null);
  const codes = [];
  for (let index = 0; index < 5; index++)
    codes.push(codeOf(await authenticator.check(ended, "192.0.2.1")));
  assert.deepEqual(codes, ["not valid", "not valid", "not valid", "rate_limited", "rate_limited"]);
  assert.equal(
    codeOf(await authenticator.check(ended, "198.51.100.9")),
    "rate_limited",
    "wherever it comes from",
  );
  assert.equal(codeOf(await authenticator.check(fresh, "192.0.2.1")), "valid");
});

test("a client with IPv6 does not get more tries by changing its address within its network", async (t) => {
  const accounts = await testAccounts(t);
  const authenticator = authenticatorOf(accounts, 3);
  const codes = [];
  for (let index = 1; index <= 4; index++)
    codes.push(codeOf(await authenticator.check(`bad-${index}`, `2001:db8::${index}`)));
  assert.deepEqual(codes, ["not valid", "not valid", "not valid", "rate_limited"]);
});

test("the management API answers 401, then 429 with the seconds to wait", async (t) => {
  const api = await startManagementApi(t, { settings: { failedTokensPerMinute: 3 } });
  const path = `/v2/projects/${api.projectId}/apps`;
  assert.equal((await api.call("GET", path)).status, 200);
  const fresh = await api.issue({ kind: "service_account" });
  const statuses = [];
  for (let index = 0; index < 4; index++) {
    statuses.push((await api.call("GET", path, { token: `bad.${index}.token` })).status);
  }
  assert.deepEqual(statuses, [401, 401, 401, 429]);
  const refused = await api.call("GET", path, { token: fresh });
  assert.equal(refused.status, 429);
  assert.match(refused.headers.get("retry-after") ?? "", /^\d+$/);
  assert.match(refused.body.message, /^Too many invalid tokens/);
  assert.equal((await api.call("GET", path)).status, 200, "the known one goes on");
  assert.equal(
    (await api.call("GET", path, { token: null })).status,
    401,
    "without a token nothing is tried",
  );
});

test("calls of apps take a token with the right to call; without it 403, of another project 404, too many bad ones 429", async () => {
  const projectId = "p-00000001" as ProjectId;
  const route = {
    projectId,
    appId: `${projectId}-hello` as AppId,
    appName: "hello",
    disableAuth: false,
  } as unknown as AppRoute;
  const asked = { projectId, appName: "hello", address: "192.0.2.1" };
  const id = "00000000-0000-4000-8000-000000000003" as TokenId;
  const account = { tokenId: id, accountId: id, projectId, name: "ci" };
  const service = { ...account, kind: "service_account", permissions: null } as const;
  const callers: Readonly<Record<string, [Caller | Fault | null, string]>> = {
    inference: [{ ...account, kind: "inference", role: null, permissions: null }, "passes"],
    member: [{ ...service, role: "member" }, "passes"],
    billing: [{ ...service, role: "billing" }, "forbidden"],
    chosen: [
      { ...service, role: null, permissions: new Set(["apps.call"]) } satisfies TokenCaller,
      "passes",
    ],
    other: [
      { ...service, role: null, permissions: new Set(["apps.read"]) } satisfies TokenCaller,
      "forbidden",
    ],
    foreign: [{ ...service, role: "owner", projectId: "p-00000002" as ProjectId }, "not_found"],
    operator: [
      { ...account, kind: "operator", projectId: null, role: null, permissions: null },
      "unauthorized",
    ],
    bad: [null, "unauthorized"],
    tooMany: [new Fault("rate_limited", "too many", { retryAfterSeconds: 9 }), "rate_limited"],
  };
  for (const [name, [caller, expected]] of Object.entries(callers)) {
    const known = { cached: () => caller, check: () => Promise.resolve(caller) };
    const late = { ...known, cached: () => undefined };
    for (const tokens of [known, late]) {
      const passed = await authorizeCall(tokens, route, asked, "Bearer x");
      assert.equal(passed instanceof Fault ? passed.code : "passes", expected, name);
    }
  }
});
