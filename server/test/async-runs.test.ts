// Async runs as their callers see them: accepting, refusing, ending, cancelling, retrying,
// repeating with a key. A real platform, a cortex app and a custom one, a real receiver.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  begin,
  delivered,
  ended,
  mark,
  result,
  runPath,
  show,
  stage,
  type Fixture,
} from "./support/async-fixture.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { deploy, replicaCount } from "./support/examples.ts";
import type { Json } from "./support/management-api.ts";
import { until } from "./support/until.ts";

async function endsAndIsDelivered(fixture: Fixture): Promise<void> {
  const hook = `webhookEndpoint=${encodeURIComponent(fixture.receiver.url)}`;
  const runId = await begin(fixture, "work", `run?${hook}`, { value: "ä" });
  const item = await ended(fixture, "work", runId);
  assert.deepEqual(
    [item.status, item.statusCode, item.attempts, item.async],
    ["success", 200, 1, true],
  );
  for (const field of ["acceptedAt", "queuedAt", "startedAt", "endedAt"])
    assert.ok(item[field], `${field} is told`);
  const kept = await result(fixture, "work", runId);
  assert.equal(kept.status, 200);
  assert.deepEqual((JSON.parse(kept.text) as Json).result, { value: "ä" });
  const got = await delivered(fixture, runId);
  assert.deepEqual(
    [got.body, got.type, got.status],
    [kept.text, "application/json", "200"],
    "the same bytes",
  );
}

async function failuresAreToldAndForwarded(fixture: Fixture): Promise<void> {
  const hook = `webhookEndpoint=${encodeURIComponent(fixture.receiver.url)}`;
  const answered = await begin(fixture, "work", `status?${hook}`, { code: 422 });
  const item = await ended(fixture, "work", answered);
  assert.deepEqual([item.status, item.statusCode], ["failure", 422]);
  assert.equal(
    (await delivered(fixture, answered)).status,
    "422",
    "an app's own answer is forwarded whatever its status",
  );
  const dying = await begin(fixture, "echo", `die?${hook}`);
  const dead = await ended(fixture, "echo", dying);
  assert.deepEqual([dead.status, dead.statusCode], ["failure", 502]);
  const fault = await delivered(fixture, dying);
  const { message } = JSON.parse(fault.body) as { message: string };
  const own = new RegExp(
    `^The app's replica ended during the call\\. .*exit code 3.* run ${dying} `,
  );
  assert.match(message, own, "the platform's own is forwarded");
  assert.match(dead.reason ?? "", /^The app's replica ended during the run\. .*exit code/);
  assert.equal((await result(fixture, "echo", dying)).status, 404);
}

async function customAppsSeeTheCallAsItWas(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const init = {
    method: "PUT",
    headers: { "x-own": "kept", "content-type": "text/plain" },
    body: "plain text",
  };
  const runId = await begin(fixture, "echo", "deep/er?x=1&y=%20", undefined, init);
  assert.equal((await ended(fixture, "echo", runId)).status, "success");
  const { text, type } = await result(fixture, "echo", runId);
  const seen = JSON.parse(text) as {
    method: string;
    path: string;
    headers: Record<string, string>;
    body: string;
  };
  assert.deepEqual(
    [seen.method, seen.path, seen.body],
    ["PUT", "/deep/er?x=1&y=%20", "plain text"],
  );
  assert.equal(type, "application/vnd.echo+json");
  const headers = new Map(
    Object.entries(seen.headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  assert.deepEqual([headers.get("x-own"), headers.get("content-type")], ["kept", "text/plain"]);
  assert.equal(headers.get("x-request-id"), runId);
  assert.equal(headers.has("authorization"), false, "the platform's token is not for the app");
  assert.equal(headers.has("slipway-held"), false);
  assert.equal(text.includes(platform.bootstrap.inferenceToken), false);
}

async function nothingFalseIsAccepted(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const { apiUrl, projectId, inferenceToken } = platform.bootstrap;
  const refusal = async (
    path: string,
    init: RequestInit = {},
    app = "work",
  ): Promise<[number, string]> => {
    const headers = {
      authorization: `Bearer ${inferenceToken}`,
      "content-type": "application/json",
    };
    const url = `${apiUrl}/v4/${projectId}/${app}/${path}`;
    const response = await fetch(url, { method: "POST", body: "{}", headers, ...init });
    const { message } = (await response.json()) as { message: string };
    return [response.status, message];
  };
  const cases: readonly [string, RequestInit, string, number, RegExp][] = [
    ["run?async=true", {}, "nobody", 404, /no app/],
    ["run?async=true", { headers: {} }, "work", 401, /token/],
    ["run?async=yes", {}, "work", 400, /async must be true or false; given: "yes"/],
    ["run?async=true&webhookEndpoint=ftp%3A%2F%2Fx", {}, "work", 400, /webhookEndpoint .*http/],
    [
      "run?async=true&webhookEndpoint=http%3A%2F%2F10.0.0.1%2F",
      {},
      "work",
      400,
      /webhookEndpoint .*SLIPWAY_WEBHOOK_ALLOW/,
    ],
    ["run?webhookEndpoint=http%3A%2F%2F169.254.169.254%2F", {}, "work", 400, /webhookEndpoint /],
    ["run?async=true", { body: "x".repeat(1_100_000) }, "work", 413, /SLIPWAY_ASYNC_BODY_LIMIT_MB/],
  ];
  for (const [path, init, app, status, form] of cases) {
    const [got, message] = await refusal(path, init, app);
    assert.deepEqual([got, form.test(message)], [status, true], `${path}: ${got} ${message}`);
  }
  const plain = await platform.call("work", "run?async=false", { value: 1 });
  assert.deepEqual(
    [plain.status, ((await plain.json()) as Json).result],
    [200, { value: 1 }],
    "async=false is a plain call",
  );
}

async function keysGiveOneRun(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const headers = { "idempotency-key": "order-1" };
  const body = { key: "once" };
  const ids = await Promise.all(
    Array.from({ length: 8 }, () => begin(fixture, "work", "count", body, { headers })),
  );
  assert.equal(new Set(ids).size, 1, "at once and again: one run");
  assert.equal((await ended(fixture, "work", String(ids[0]))).status, "success");
  assert.equal(await begin(fixture, "work", "count", body, { headers }), ids[0]);
  assert.equal(await mark(fixture, "once"), 1);
  const other = await platform.call("work", "count?async=true", { key: "twice" }, { headers });
  assert.equal(other.status, 422);
  assert.match(((await other.json()) as Json).message, new RegExp(`Idempotency-Key .*${ids[0]}`));
}

async function retriesFollowTheWish(fixture: Fixture): Promise<void> {
  const headers = { "slipway-retries": "2" };
  const [good, bad, none] = await Promise.all([
    begin(fixture, "work", "busy_first", { key: "good", times: 1 }, { headers }),
    begin(fixture, "work", "busy_first", { key: "bad", times: 99 }, { headers }),
    begin(fixture, "work", "busy_first", { key: "none", times: 99 }),
  ]);
  const items = await Promise.all([good, bad, none].map((runId) => ended(fixture, "work", runId)));
  assert.deepEqual(
    items.map((item) => [item.status, item.statusCode, item.attempts]),
    [
      ["success", 200, 2],
      ["failure", 503, 3],
      ["failure", 503, 1],
    ],
  );
  const dead = await fixture.platform.api(
    "GET",
    runPath(fixture, "work", "").replace("/runs/", "/dead-runs"),
  );
  const listed = (dead.body.items as Json[]).map((item) => item.id);
  assert.ok(listed.includes(bad) && listed.includes(none) && !listed.includes(good));
  const again = await fixture.platform.api("POST", `${runPath(fixture, "work", none)}/redrive`);
  assert.equal(again.status, 201, JSON.stringify(again.body));
}

async function cancelling(fixture: Fixture, app: string, runId: string): Promise<Json> {
  const { status, body } = await fixture.platform.api("DELETE", runPath(fixture, app, runId));
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.item.status, "cancelled", JSON.stringify(body.item));
  return body.item;
}

async function cancelWorksAtEveryStage(fixture: Fixture): Promise<void> {
  const hook = `webhookEndpoint=${encodeURIComponent(fixture.receiver.url)}`;
  for (const kind of ["sleep", "spin"]) {
    const runId = await begin(fixture, "work", `${kind}?${hook}`, { key: kind });
    await until(`${kind} runs`, async () => (await mark(fixture, kind)) === 1);
    await cancelling(fixture, "work", runId);
    await until(`${kind} has stopped`, async () => (await mark(fixture, `${kind}-stopped`)) === 1);
    const again = await fixture.platform.api("DELETE", runPath(fixture, "work", runId));
    assert.deepEqual([again.status, /cancelled/.test(String(again.body.message))], [409, true]);
    assert.equal(
      fixture.receiver.received.some(({ headers }) => headers["x-request-id"] === runId),
      false,
    );
  }
  const held = async (): Promise<Json> =>
    ((await (await fixture.platform.call("echo", "look")).json()) as Json).held;
  const before = await held();
  const custom = await begin(fixture, "echo", "hold");
  await until("the custom app works on it", async () => (await held()).now === before.now + 1);
  await cancelling(fixture, "echo", custom);
  await until(
    "the custom app sees its caller go",
    async () => (await held()).gone === before.gone + 1,
  );
  // All places are taken: these wait, in the platform's hands and beyond.
  const sleepers = await Promise.all(
    Array.from({ length: 20 }, () => begin(fixture, "work", "sleep", { key: "many" })),
  );
  for (const runId of sleepers.toReversed()) await cancelling(fixture, "work", runId);
  await until(
    "nothing goes on",
    async () => (await mark(fixture, "many")) === (await mark(fixture, "many-stopped")),
  );
}

async function whatCannotBeStoppedEndsWithItsReplica(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const alone = {
    name: "alone",
    gitRepo: "acme/cortex",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 600,
  };
  const { appId, status, log } = await deploy(platform, {
    ...alone,
    replicaConcurrency: 1,
    maxReplicaCount: 1,
  });
  assert.equal(status, "success", log);
  const containers = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/containers`;
  const replicas = async (): Promise<string[]> =>
    ((await platform.api("GET", containers)).body as Json[]).map((one) => String(one.containerId));
  const [before] = await replicas();
  const runId = await begin(fixture, "alone", "stubborn");
  // The run is "running" a moment before its function begins, and until then it can be stopped.
  const logs = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/logs?runId=${runId}`;
  const said = async (): Promise<Json[]> => (await platform.api("GET", logs)).body.logs;
  await until("its function has begun", async () => (await said())[0]?.logLine === "begun");
  await cancelling(fixture, "alone", runId);
  await until("its replica is gone", async () => !(await replicas()).includes(String(before)), {
    deadlineMs: 30_000,
  });
  const next = await begin(fixture, "alone", "run", { value: 1 });
  assert.equal(
    (await ended(fixture, "alone", next)).status,
    "success",
    "another replica takes the next one",
  );
}

async function aSleepingAppIsWoken(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const { projectId } = platform.bootstrap;
  const sleepy = {
    name: "sleepy",
    gitRepo: "acme/cortex",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 0,
  };
  const { appId, status, log } = await deploy(platform, sleepy);
  assert.equal(status, "success", log);
  await until("it sleeps", async () => (await replicaCount(platform, appId)) === 0, {
    deadlineMs: 30_000,
  });
  const runId = await begin(fixture, "sleepy", "run", { value: 7 });
  assert.equal((await ended(fixture, "sleepy", runId)).status, "success");
  await until("it sleeps again", async () => (await replicaCount(platform, appId)) === 0, {
    deadlineMs: 30_000,
  });
  const waking = await begin(fixture, "sleepy", "sleep", { key: "waking" });
  await cancelling(fixture, "sleepy", waking);
  const listed = await platform.api(
    "GET",
    `/v2/projects/${projectId}/apps/${appId}/runs?asyncOnly=true`,
  );
  assert.deepEqual(
    (listed.body.items as Json[]).map((item) => [item.id, item.status]),
    [
      [waking, "cancelled"],
      [runId, "success"],
    ],
  );
}

async function plainCallsAreForwardedAndListed(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const { projectId } = platform.bootstrap;
  const hook = `webhookEndpoint=${encodeURIComponent(fixture.receiver.url)}`;
  const plain = await platform.call("work", `run?${hook}`, { value: "plain" });
  const text = await plain.text();
  assert.equal((await delivered(fixture, String(plain.headers.get("x-request-id")))).body, text);
  const stream = await platform.call("work", `stream?${hook}`, {});
  const whole = await stream.text();
  const got = await delivered(fixture, String(stream.headers.get("x-request-id")));
  assert.deepEqual(
    [got.body, got.type],
    [whole, String(stream.headers.get("content-type"))],
    "a stream is delivered whole",
  );
  await until("both are listed", async () => {
    const { body } = await platform.api(
      "GET",
      `/v2/projects/${projectId}/apps/${projectId}-work/runs`,
    );
    const ids = (body.items as Json[])
      .filter((item) => item.async === false)
      .map((item) => item.id);
    return [plain, stream].every((call) => ids.includes(call.headers.get("x-request-id")));
  });
}

async function aRestartKeepsWhatIsThere(fixture: Fixture): Promise<void> {
  const { platform } = fixture;
  const running = await begin(fixture, "work", "sleep", { key: "over" });
  await until("it runs", async () => (await mark(fixture, "over")) === 1);
  assert.equal(await platform.end("SIGTERM"), 0, platform.output());
  await platform.restart();
  await until(
    "it is in hand again",
    async () => (await show(fixture, "work", running)).status === "running",
  );
  assert.equal(await mark(fixture, "over"), 1, "it goes on, and was not started again");
  await cancelling(fixture, "work", running);
  await until("it has stopped", async () => (await mark(fixture, "over-stopped")) === 1);
  const custom = await begin(fixture, "echo", "hold");
  await until("it runs", async () => (await show(fixture, "echo", custom)).status === "running");
  await platform.end("SIGKILL");
  await platform.restart();
  const item = await ended(fixture, "echo", custom);
  assert.deepEqual(
    [item.status, String(item.reason).startsWith("interrupted")],
    ["failure", true],
    String(item.reason),
  );
}

test("async runs do what their callers may expect", async (t) => {
  const fixture = await stage(t);
  const parts: readonly [string, (fixture: Fixture) => Promise<void>][] = [
    ["a run ends, its result is kept, and its webhook gets the same bytes", endsAndIsDelivered],
    [
      "a failed call is a failed run with the true reason, and is forwarded",
      failuresAreToldAndForwarded,
    ],
    ["a custom app sees method, path, headers and body as they were", customAppsSeeTheCallAsItWas],
    ["what cannot be run is refused before anything is accepted", nothingFalseIsAccepted],
    ["an Idempotency-Key gives one run, and is refused for another request", keysGiveOneRun],
    ["retries follow the header, and what is dead can be run again", retriesFollowTheWish],
    ["cancelling works at every stage, and nothing goes on", cancelWorksAtEveryStage],
    [
      "a function that cannot be stopped ends with its replica",
      whatCannotBeStoppedEndsWithItsReplica,
    ],
    ["a sleeping app is woken, and cancelled while it wakes", aSleepingAppIsWoken],
    ["plain calls are forwarded too, streams whole, and listed", plainCallsAreForwardedAndListed],
    ["a restart goes on with what runs; what cannot go on says so", aRestartKeepsWhatIsThere],
  ];
  for (const [name, run] of drawCases(parts, { what: "promises", max: 7 }))
    await t.test(name, () => run(fixture));
});
