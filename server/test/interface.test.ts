// The published interface, section by section in its order, asked of a whole platform from outside:
// nothing is used but what the first start wrote into bootstrap.json, and the wire. Where the
// interface is silent, the answer is the one that docs/decisions has.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { deploy, serveExamples } from "./support/examples.ts";
import { choices, ranges, refusedValues } from "./support/interface-fields.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import { startReceiver } from "./support/webhook-receiver.ts";

type Answer = { readonly status: number; readonly headers: Headers; readonly body: Json };

/** A call with any token, or none. */
async function ask(
  platform: PlatformProcess,
  token: string | null,
  request: { readonly method?: string; readonly path: string; readonly body?: unknown },
): Promise<Answer> {
  const { method = "GET", path, body } = request;
  const response = await fetch(`${platform.bootstrap.baseUrl}${path}`, {
    method,
    headers: {
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

/** A refusal is of the form that the interface has: an object with a message. */
function assertRefused(answer: Answer, status: number, form: RegExp = /./): void {
  assert.equal(answer.status, status, JSON.stringify(answer.body).slice(0, 500));
  assert.deepEqual(Object.keys(answer.body), ["message"]);
  assert.match(answer.body.message, form);
}

const projectPath = ({ bootstrap }: PlatformProcess, rest: string): string =>
  `/v2/projects/${bootstrap.projectId}${rest}`;

async function serviceAccount(platform: PlatformProcess, given: object): Promise<string> {
  const made = await platform.api("POST", projectPath(platform, "/service-accounts"), {
    name: "test",
    expires_at: null,
    ...given,
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return made.body.token;
}

/** Missing, of another scheme, no token at all, and one that was altered. */
async function assertNeedsToken(
  platform: PlatformProcess,
  request: { readonly method: string; readonly path: string; readonly body?: unknown },
): Promise<void> {
  assertRefused(await ask(platform, null, request), 401);
  const { serviceAccountToken } = platform.bootstrap;
  for (const wrong of [
    "nonsense",
    `${serviceAccountToken}x`,
    serviceAccountToken.replace(/\.[^.]*$/, "."),
  ]) {
    assertRefused(await ask(platform, wrong, request), 401);
  }
}

test("the interface, from outside", async (t) => {
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: await serveExamples(t),
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_DEPLOYS_PER_MINUTE: "10000",
    // As large as the largest values of the fields, with every compute type.
    SLIPWAY_OVERCOMMIT: "1000",
    SLIPWAY_SIMULATE_COMPUTE: "true",
  });
  await t.test("1. list audit log", (inner) => auditLog(inner, platform));
  await t.test("1. list audit log: refusals", (inner) => auditLogRefusals(inner, platform));
  await t.test("2. create git-linked app", (inner) => createApp(inner, platform));
  await t.test("3. apply coupon", (inner) => applyCoupon(inner, platform));
  await t.test("4. run an app asynchronously", (inner) => asyncRun(inner, platform));
  await t.test("authentication", (inner) => authentication(inner, platform));
});

async function auditLog(t: TestContext, platform: PlatformProcess): Promise<void> {
  const path = projectPath(platform, "/audit-log");
  for (let count = 0; count < 60; count++)
    await platform.api("GET", projectPath(platform, "/secrets"));
  // What is written down later, as it is from where a token is used, lies behind this time: all
  // that is read has an end.
  const to = new Date(Date.now() + 1).toISOString();
  const read = (query: Record<string, string> = {}): Promise<Answer> =>
    platform.api("GET", `${path}?${new URLSearchParams({ to, ...query })}`);

  await t.test(
    "the answer has logs newest first, hasMore, nextPageToken and retentionDays; 50 entries by default",
    async () => {
      const { status, body } = await read();
      assert.equal(status, 200);
      assert.deepEqual(Object.keys(body), ["logs", "hasMore", "nextPageToken", "retentionDays"]);
      assert.equal(body.logs.length, 50);
      const times = body.logs.map((entry: Json) => entry.timestamp);
      assert.deepEqual(times, times.toSorted().toReversed());
      assert.deepEqual(
        [body.hasMore, typeof body.nextPageToken, typeof body.retentionDays],
        [true, "string", "number"],
      );
    },
  );

  await t.test(
    "nextPageToken is passed as nextToken, and is absent at the end of the timeline",
    async () => {
      const seen: string[] = [];
      for (let token: string | undefined, page = 0; page < 100; page++) {
        const { body } = await read({
          limit: "20",
          ...(token === undefined ? {} : { nextToken: token }),
        });
        seen.push(...body.logs.map((entry: Json) => entry.id));
        assert.equal(body.hasMore, "nextPageToken" in body);
        token = body.nextPageToken;
        if (token === undefined) break;
      }
      const { body } = await read({ limit: "200" });
      assert.deepEqual(
        seen,
        body.logs.map((entry: Json) => entry.id),
      );
    },
  );

  await t.test("from, to, action, actor and outcome narrow it", async () => {
    const { logs } = (await read({ limit: "200" })).body;
    const oldest = logs.at(-1);
    const [first] = logs;
    const actions = async (query: Record<string, string>): Promise<string[]> =>
      (await read({ limit: "200", ...query })).body.logs.map((entry: Json) => entry.action);
    assert.deepEqual([...new Set(await actions({ action: "secrets.read" }))], ["secrets.read"]);
    assert.equal((await actions({ action: "secrets.read" })).length, 60);
    assert.equal((await actions({ actor: first.actor.id })).length >= 60, true);
    assert.deepEqual(await actions({ actor: "nobody" }), []);
    assert.deepEqual(await actions({ outcome: "failure" }), []);
    assert.equal((await actions({ outcome: "success" })).length, logs.length);
    assert.deepEqual(
      await actions({ from: "2999-01-01T00:00:00Z", to: "2999-01-02T00:00:00Z" }),
      [],
    );
    assert.equal(
      (await actions({ from: "1970-01-01T01:00:00+01:00" })).length,
      logs.length,
      "clamped, not refused",
    );
    assert.deepEqual(await actions({ to: oldest.timestamp }), []);
  });
}

async function auditLogRefusals(t: TestContext, platform: PlatformProcess): Promise<void> {
  const path = projectPath(platform, "/audit-log");
  const read = (query: Record<string, string>): Promise<Answer> =>
    platform.api("GET", `${path}?${new URLSearchParams(query)}`);

  await t.test(
    "limit is 1 to 200; what is not allowed is 400 with a message that names it",
    async () => {
      for (const limit of ["1", "200"]) assert.equal((await read({ limit })).status, 200);
      const refused: readonly (readonly [string, string])[] = [
        ...["0", "201", "-1", "1.5", "ten"].map((limit) => ["limit", limit] as const),
        ...["yesterday", "2026-02-30T00:00:00Z", "1700000000"].flatMap(
          (time) =>
            [
              ["from", time],
              ["to", time],
            ] as const,
        ),
        ["action", "secrets"],
        ["outcome", "maybe"],
        ["nextToken", "made-up"],
      ];
      for (const [name, value] of refused)
        assertRefused(await read({ [name]: value }), 400, new RegExp(name));
      assertRefused(
        await read({ from: "2026-01-02T00:00:00Z", to: "2026-01-01T00:00:00Z" }),
        400,
        /from/,
      );
    },
  );

  await t.test(
    "it is the owner's alone: 401 without a valid token, 403 for any other role",
    async () => {
      await assertNeedsToken(platform, { method: "GET", path });
      for (const role of ["admin", "member", "billing"]) {
        assertRefused(await ask(platform, await serviceAccount(platform, { role }), { path }), 403);
      }
      const owner = await serviceAccount(platform, { role: "owner" });
      assert.equal((await ask(platform, owner, { path })).status, 200);
    },
  );
}

async function createApp(t: TestContext, platform: PlatformProcess): Promise<void> {
  const path = projectPath(platform, "/apps/git");
  let number = 0;
  const create = (fields: object): Promise<Answer> =>
    platform.api("POST", path, { name: `app-${++number}`, gitRepo: "acme/none", ...fields });

  await t.test("the answer has the eight fields and no others", async () => {
    const { status, body } = await create({ name: "eight-fields" });
    assert.equal(status, 201);
    const { projectId, baseUrl, apiUrl } = platform.bootstrap;
    assert.deepEqual(Object.keys(body).toSorted(), [
      "appId",
      "appUrl",
      "buildId",
      "dashboardUrl",
      "internalEndpoint",
      "logUrl",
      "projectId",
      "status",
    ]);
    assert.equal(body.projectId, projectId);
    assert.equal(body.internalEndpoint, `${apiUrl}/v4/${projectId}/eight-fields`);
    assert.ok(body.appUrl.startsWith(baseUrl) && body.dashboardUrl.startsWith(baseUrl));
    assert.equal((await fetch(body.appUrl)).status, 200);
    const log = await ask(platform, platform.bootstrap.serviceAccountToken, {
      path: new URL(body.logUrl).pathname,
    });
    assert.equal(log.status, 200);
  });

  await t.test(
    "each number is taken at both ends of its range and refused beyond them, by its name",
    async () => {
      for (const [name, { min, max, within = {} }] of Object.entries(ranges)) {
        for (const value of [min, max].filter((one) => one !== null)) {
          const answer = await create({ ...within, [name]: value });
          assert.equal(answer.status, 201, `${name}: ${value}: ${JSON.stringify(answer.body)}`);
        }
        const step = 0.01;
        const beyond = [
          min === null ? null : min - step,
          max === null ? null : max + step,
          "many",
          true,
          [1],
        ];
        for (const value of beyond.filter((one) => one !== null)) {
          assertRefused(await create({ ...within, [name]: value }), 400, new RegExp(name));
        }
      }
    },
  );

  await t.test("each choice is taken, and anything else refused by the field's name", async () => {
    for (const [name, { values, within = {} }] of Object.entries(choices)) {
      for (const value of values) {
        const answer = await create({ ...within, [name]: value });
        assert.equal(
          answer.status,
          201,
          `${name}: ${JSON.stringify(value)}: ${JSON.stringify(answer.body)}`,
        );
      }
      assertRefused(await create({ ...within, [name]: "something-else" }), 400, new RegExp(name));
    }
    for (const [name, values] of Object.entries(refusedValues)) {
      for (const value of values)
        assertRefused(await create({ [name]: value }), 400, new RegExp(name));
    }
  });

  await t.test("without a valid token it is 401, without the right 403", async () => {
    const request = { method: "POST", path, body: { name: "not-made", gitRepo: "acme/none" } };
    await assertNeedsToken(platform, request);
    assertRefused(
      await ask(platform, await serviceAccount(platform, { role: "billing" }), request),
      403,
    );
  });
}

async function applyCoupon(t: TestContext, platform: PlatformProcess): Promise<void> {
  const path = projectPath(platform, "/billing/coupons/apply");
  const { operatorToken } = platform.bootstrap;
  const apply = (code: unknown): Promise<Answer> =>
    platform.api("POST", path, { coupon_code: code });
  const make = async (coupon: object): Promise<void> => {
    const made = await ask(platform, operatorToken, {
      method: "POST",
      path: "/v2/operator/coupons",
      body: coupon,
    });
    assert.equal(made.status, 201, JSON.stringify(made.body));
  };
  const fixed = {
    name: "Ten",
    coupon_type: "fixed_amount",
    amount_cents: 1000,
    amount_currency: "USD",
    frequency: "once",
  };

  await t.test(
    "a fixed amount that does not expire leaves out expiration_at and percentage_rate",
    async () => {
      await make({ ...fixed, code: "TEN" });
      const { status, body } = await apply("TEN");
      assert.equal(status, 200);
      assert.deepEqual(Object.keys(body).toSorted(), ["coupon", "message", "success"]);
      assert.deepEqual([typeof body.message, body.success], ["string", true]);
      assert.deepEqual(body.coupon, {
        code: "TEN",
        name: "Ten",
        amount_cents: 1000,
        amount_currency: "USD",
        frequency: "once",
        amount_cents_balance: 1000,
      });
    },
  );

  await t.test("a percentage that expires has both", async () => {
    const expiration = new Date(Date.now() + 3_600_000).toISOString();
    const half = {
      name: "Half",
      coupon_type: "percentage",
      percentage_rate: 12.5,
      frequency: "forever",
    };
    await make({ ...half, code: "HALF", expiration_at: expiration });
    const { coupon } = (await apply("HALF")).body;
    assert.deepEqual([coupon.percentage_rate, coupon.frequency], [12.5, "forever"]);
    assert.equal(Date.parse(coupon.expiration_at), Date.parse(expiration));
    assert.ok(
      Number.isInteger(coupon.amount_cents) && Number.isInteger(coupon.amount_cents_balance),
    );
  });

  await t.test("what cannot be applied is refused with a message, by who may", async () => {
    assertRefused(await apply("NONE"), 404);
    assertRefused(await apply("TEN"), 409);
    assertRefused(await apply(7), 400, /coupon_code/);
    await make({ ...fixed, code: "EURO", amount_currency: "EUR" });
    assertRefused(await apply("EURO"), 422, /EUR/);
    const request = { method: "POST", path, body: { coupon_code: "TEN" } };
    await assertNeedsToken(platform, request);
    assertRefused(
      await ask(platform, await serviceAccount(platform, { role: "member" }), request),
      403,
    );
  });
}

async function asyncRun(t: TestContext, platform: PlatformProcess): Promise<void> {
  const { projectId, apiUrl, inferenceToken } = platform.bootstrap;
  const { appId, status, log } = await deploy(platform, {
    name: "hello",
    gitPath: "hello",
    pythonVersion: "3.11",
  });
  assert.equal(status, "success", log);
  const receiver = await startReceiver(t);
  const call = (query: string, body: unknown): Promise<Response> =>
    fetch(`${apiUrl}/v4/${projectId}/hello/run?${query}`, {
      method: "POST",
      headers: { authorization: `Bearer ${inferenceToken}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });

  await t.test(
    "async=true is answered 202 with the run_id alone and X-Request-Id; the result goes to the webhook",
    async () => {
      const plain = await call("async=false", { name: "Ada" });
      const expected: Json = await plain.json();
      assert.equal(plain.status, 200);
      const answer = await call(`async=true&webhookEndpoint=${encodeURIComponent(receiver.url)}`, {
        name: "Ada",
      });
      assert.equal(answer.status, 202);
      const body: Json = await answer.json();
      assert.deepEqual(Object.keys(body), ["run_id"]);
      assert.equal(answer.headers.get("x-request-id"), body.run_id);
      await until("the webhook has the answer", () => receiver.received.length > 0);
      const sent: Json = JSON.parse(String(receiver.received[0]?.body));
      assert.deepEqual(sent.result, expected.result);
    },
  );

  await t.test(
    "a run whose internal call fails is shown as async, with the state failure",
    async () => {
      const { run_id: runId }: Json = await (
        await call("async=true", { unknown_parameter: true })
      ).json();
      const shown = async (): Promise<Json> =>
        (await platform.api("GET", projectPath(platform, `/apps/${appId}/runs/${runId}`))).body
          .item;
      await until("the run has ended", async () => (await shown()).status === "failure");
      assert.equal((await shown()).async, true);
    },
  );

  await t.test("without a valid token it is 401", async () => {
    for (const token of [null, "nonsense"]) {
      const answer = await ask(platform, token, {
        method: "POST",
        path: `/v4/${projectId}/hello/run?async=true`,
        body: {},
      });
      assert.equal(answer.status, 401);
    }
  });
}

async function authentication(t: TestContext, platform: PlatformProcess): Promise<void> {
  const request = { path: projectPath(platform, "/apps") };

  await t.test(
    "a service account's token is valid until the chosen date, and no longer",
    async () => {
      const tokenFor = async (ms: number): Promise<string> =>
        serviceAccount(platform, {
          role: "member",
          expires_at: new Date(Date.now() + ms).toISOString(),
        });
      const short = await tokenFor(2_000);
      const long = await tokenFor(3_600_000);
      await until(
        "the token has expired",
        async () => (await ask(platform, short, request)).status === 401,
      );
      assert.equal((await ask(platform, long, request)).status, 200);
    },
  );

  await t.test("a token of another project does not open this one", async () => {
    const other = projectPath(platform, "/apps").replace(
      platform.bootstrap.projectId,
      "p-00000000",
    );
    assertRefused(
      await ask(platform, platform.bootstrap.serviceAccountToken, { path: other }),
      404,
    );
  });
}
