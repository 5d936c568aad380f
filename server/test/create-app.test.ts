// Creating an app over the wire: the answer, what is kept, every refusal.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { appFields, fieldNames } from "@slipway/contract/app-fields.ts";
import * as answers from "@slipway/contract/answers.ts";
import { Credentials } from "#apps/credentials.ts";
import { startManagementApi, type ApiAnswer, type ApiUnderTest } from "./support/management-api.ts";

const body = { name: "my-app", gitRepo: "acme/shop" };

function create(api: ApiUnderTest, given: object, token?: string): Promise<ApiAnswer> {
  return api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: given,
    ...(token === undefined ? {} : { token }),
  });
}

test("an app is created with its first build, and the answer has exactly the eight fields", async (t) => {
  const api = await startManagementApi(t);
  const { status, body: answer } = await create(api, body);
  assert.equal(status, 201, JSON.stringify(answer));
  answers.createdApp.parse(answer);
  assert.deepEqual(Object.keys(answer), [
    "appId",
    "appUrl",
    "buildId",
    "dashboardUrl",
    "internalEndpoint",
    "logUrl",
    "projectId",
    "status",
  ]);
  const appId = `${api.projectId}-my-app`;
  assert.deepEqual(answer, {
    appId,
    appUrl: `${api.baseUrl}/dashboard/projects/${api.projectId}/apps/${appId}`,
    buildId: answer.buildId,
    dashboardUrl: `${api.baseUrl}/dashboard/projects/${api.projectId}/apps/${appId}/builds/${answer.buildId}`,
    internalEndpoint: `${api.baseUrl}/v4/${api.projectId}/my-app`,
    logUrl: `${api.baseUrl}/v2/projects/${api.projectId}/apps/${appId}/builds/${answer.buildId}/logs`,
    projectId: api.projectId,
    status: "pending",
  });
  for (const url of [answer.appUrl, answer.dashboardUrl]) {
    const page = await api.call("GET", url.slice(api.baseUrl.length), { token: null });
    assert.equal(page.status, 200);
    assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
  }
  const log = await api.call("GET", answer.logUrl.slice(api.baseUrl.length));
  assert.equal(log.status, 200);
});

test("all fields together are taken, and kept as they were sent", async (t) => {
  const api = await startManagementApi(t);
  const configToml = '# kept\r\n[cerebrium.deployment]\nname = "other"\n';
  const all = {
    ...body,
    cliVersion: "2.1.0",
    baseImage: "debian:12",
    config_toml: configToml,
    compute: ["ADA_L4", "AMPERE_A10"],
    computeTier: "protected",
    containerRuntime: "v1",
    cooldownPeriodSeconds: 20,
    corsCredentials: true,
    corsHeaders: ["X-Api-Version"],
    corsOrigins: ["https://a.example"],
    cpu: 4,
    deploymentInitializationTimeout: 100,
    disableAuth: true,
    dockerAuth: '{"auths":{"r.example.org":{"auth":"c2VzYW1l"}}}',
    dockerfilePath: "Dockerfile",
    buildSecrets: ["PIP_TOKEN"],
    egressCidrs: ["203.0.113.0/24"],
    entrypoint: ["python", "main.py"],
    evaluationIntervalSeconds: 10,
    gitAutoDeploy: false,
    gitBranch: "release/1",
    gitLfs: true,
    gitPath: "apps/shop",
    gitSubmodules: true,
    gpuCount: 2,
    healthcheckEndpoint: "/health",
    keepPathPrefix: true,
    loadBalancingAlgorithm: "min-connections",
    logLevel: "DEBUG",
    maxReplicaCount: 5,
    memory: 8.5,
    minReplicaCount: 1,
    partialUpload: true,
    port: 9000,
    provider: "aws",
    pythonVersion: "3.12",
    readycheckEndpoint: "/ready",
    region: "us-east-1",
    replicaConcurrency: 7,
    responseGracePeriodSeconds: 60,
    retries: 3,
    rollOutDurationSeconds: 30,
    runtime: "custom",
    scalingBuffer: 1,
    scalingMetric: "requests_per_second",
    scalingTarget: 250,
    storagePath: "/data",
    useUv: true,
  };
  assert.deepEqual(Object.keys(all).toSorted(), fieldNames.toSorted(), "every field is sent");
  const { status, body: answer } = await create(api, all);
  assert.equal(status, 201, JSON.stringify(answer));
  const row = await api.db
    .selectFrom("apps")
    .selectAll()
    .where("id", "=", answer.appId)
    .executeTakeFirstOrThrow();
  const { config_toml: sentToml, dockerAuth, ...request } = all;
  assert.deepEqual(row.request, request);
  assert.equal(row.config_toml, sentToml);
  const sealed = row.docker_auth_sealed ?? "";
  assert.equal(api.sealer.open(sealed, `docker-auth:${answer.appId}`).reveal(), dockerAuth);
  assert.equal((await new Credentials(api).forRegistry(answer.appId))?.reveal(), dockerAuth);
  const stored = await readTables(api);
  assert.doesNotMatch(stored, /c2VzYW1l/, "the credentials are nowhere in clear");
  const detail = await api.call("GET", `/v2/projects/${api.projectId}/apps/${answer.appId}`);
  assert.doesNotMatch(JSON.stringify(detail.body), /c2VzYW1l/);
});

async function readTables({ db }: Awaited<ReturnType<typeof startManagementApi>>): Promise<string> {
  const tables = ["apps", "builds", "audit_log"] as const;
  return JSON.stringify(
    await Promise.all(tables.map((table) => db.selectFrom(table).selectAll().execute())),
  );
}

test("the name may stand in config_toml", async (t) => {
  const api = await startManagementApi(t);
  const config_toml = '[cerebrium.deployment]\nname = "from-toml"\n';
  const { status, body: answer } = await create(api, { gitRepo: "a/b", config_toml });
  assert.equal(status, 201);
  assert.equal(answer.appId, `${api.projectId}-from-toml`);
  assert.equal(
    (await create(api, { gitRepo: "a/b", config_toml, name: "from-body" })).body.appId,
    `${api.projectId}-from-body`,
  );
});

describe("a create request is refused", () => {
  test("with 400 and a message that names the field, for what is not allowed", async (t) => {
    const api = await startManagementApi(t);
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ gitRepo: "a/b" }, /^name is missing/],
      [{ name: "abc" }, /^gitRepo is missing/],
      [{ ...body, cpu: 0.1 }, /^cpu is 0.1, but must be a number from 0.25 to 192\.$/],
      [{ ...body, cpus: 1 }, /^"cpus" is not a field of this request; did you mean cpu\?$/],
      [{ ...body, compute: ["CPU", "CPU"] }, /^compute is \["CPU", "CPU"\]/],
      [{ ...body, minReplicaCount: 2, maxReplicaCount: 1 }, /^minReplicaCount is 2/],
      [{ ...body, gitPath: "../.." }, /^gitPath is "..\/.."/],
      [{ ...body, config_toml: "a = " }, /^config_toml is not valid TOML at line 1/],
      [
        { ...body, config_toml: "[cerebrium.hardware]\ncpu = 0" },
        /^hardware.cpu in config_toml is 0/,
      ],
      [{ ...body, provider: "moon" }, /^provider is "moon", but must be one of aws, local/],
    ];
    for (const [given, expected] of cases) {
      const { status, body: answer } = await create(api, given);
      assert.equal(status, 400, JSON.stringify(given));
      answers.faultAnswer.parse(answer);
      assert.match(answer.message, expected);
    }
    assert.equal((await api.db.selectFrom("apps").selectAll().execute()).length, 0);
  });

  test("with 400 for what is not a JSON object, 413 for what is too large, 415 for another type", async (t) => {
    const api = await startManagementApi(t);
    const path = `/v2/projects/${api.projectId}/apps/git`;
    for (const text of ["", "{", "[]", "null", '"x"', "1", '{"a":1}}', "{'name': 1}"]) {
      const { status, body: answer } = await api.call("POST", path, { text });
      assert.equal(status, 400, text);
      answers.faultAnswer.parse(answer);
    }
    const large = await api.call("POST", path, {
      body: { ...body, config_toml: `#${"x".repeat(1_100_000)}` },
    });
    assert.equal(large.status, 413);
    answers.faultAnswer.parse(large.body);
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/xml"]) {
      const other = await api.call("POST", path, { body, headers: { "content-type": type } });
      assert.equal(other.status, 415, type);
      answers.faultAnswer.parse(other.body);
    }
    const withCharset = await api.call("POST", path, {
      body,
      headers: { "content-type": "application/json; charset=utf-8" },
    });
    assert.equal(withCharset.status, 201);
  });

  test("with 409 when the name is taken; two equal requests at once make one app", async (t) => {
    const api = await startManagementApi(t);
    const statuses = (await Promise.all(Array.from({ length: 8 }, () => create(api, body)))).map(
      ({ status }) => status,
    );
    assert.deepEqual(statuses.toSorted(), [201, 409, 409, 409, 409, 409, 409, 409]);
    assert.equal((await api.db.selectFrom("builds").selectAll().execute()).length, 1);
    const again = await create(api, body);
    assert.match(
      again.body.message,
      /^name is "my-app", but the project already has an app with that name/,
    );
    const other = await api.addProject("second");
    const token = await api.issue({ kind: "service_account", projectId: other });
    const elsewhere = await api.call("POST", `/v2/projects/${other}/apps/git`, { body, token });
    assert.equal(elsewhere.status, 201, "another project may use the name");
  });

  test("with 429 and Retry-After beyond the limit of its project", async (t) => {
    const api = await startManagementApi(t, { settings: { deploysPerMinute: 2 } });
    assert.equal(
      (await create(api, { ...body, cpu: 0 })).status,
      400,
      "a refused one does not count",
    );
    assert.equal((await create(api, { ...body, name: "one" })).status, 201);
    assert.equal((await create(api, { ...body, name: "two" })).status, 201);
    const refused = await create(api, { ...body, name: "three" });
    assert.equal(refused.status, 429);
    answers.faultAnswer.parse(refused.body);
    const wait = Number(refused.headers.get("retry-after"));
    assert.ok(wait >= 1 && wait <= 60, String(wait));
    const other = await api.addProject("second");
    const token = await api.issue({ kind: "service_account", projectId: other });
    assert.equal(
      (await api.call("POST", `/v2/projects/${other}/apps/git`, { body, token })).status,
      201,
    );
  });

  test("with 401, 403 or 404 for who may not, before the body is looked at", async (t) => {
    const api = await startManagementApi(t);
    const path = `/v2/projects/${api.projectId}/apps/git`;
    const text = "x".repeat(2_000_000);
    for (const token of [null, "nonsense", `${api.token}x`, ""]) {
      const { status, body: answer, headers } = await api.call("POST", path, { body, token });
      assert.equal(status, 401);
      assert.equal(headers.get("www-authenticate"), "Bearer");
      answers.faultAnswer.parse(answer);
    }
    const billing = await api.issue({ kind: "service_account", role: "billing" });
    const inference = await api.issue({ kind: "inference" });
    for (const token of [billing, inference]) {
      assert.equal((await api.call("POST", path, { body, token })).status, 403);
      assert.equal((await api.call("POST", path, { text, token })).status, 403, "not 413");
    }
    const other = await api.addProject("second");
    const elsewhere = await api.issue({ kind: "service_account", projectId: other });
    const foreign = await api.call("POST", path, { body, token: elsewhere });
    const unknown = await api.call("POST", "/v2/projects/p-00000000/apps/git", {
      body,
      token: elsewhere,
    });
    assert.equal(foreign.status, 404);
    assert.deepEqual(
      [foreign.status, foreign.body],
      [unknown.status, unknown.body],
      "another's is like none",
    );
    const operator = await api.issue({ kind: "operator" });
    assert.equal((await api.call("POST", path, { body, token: operator })).status, 201);
    assert.equal(
      (await api.call("POST", "/v2/projects/p-00000000/apps/git", { body, token: operator }))
        .status,
      404,
    );
  });
});

test("a create and each refused attempt of a known caller are in the audit log", async (t) => {
  const api = await startManagementApi(t);
  await create(api, body);
  await create(api, body);
  await create(api, { ...body, cpu: 0 });
  await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { text: "{" });
  const inference = await api.issue({ kind: "inference" });
  await create(api, body, inference);
  await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body, token: "nonsense" });
  const rows = await api.db
    .selectFrom("audit_log")
    .select([
      "outcome",
      "resource_id",
      "resource_type",
      "reason",
      "actor_name",
      "request_id",
      "changes",
      "project_id",
    ])
    .where("action", "=", "app.create")
    .orderBy("id")
    .execute();
  assert.deepEqual(
    rows.map((row) => [row.outcome, row.actor_name]),
    [
      ["success", "owner"],
      ["failure", "owner"],
      ["failure", "owner"],
      ["failure", "owner"],
      ["failure", "inference"],
    ],
  );
  assert.equal(rows[0]?.resource_id, `${api.projectId}-my-app`);
  assert.deepEqual(rows[0]?.changes, { name: { new: "my-app" }, gitRepo: { new: "acme/shop" } });
  assert.match(rows[1]?.reason ?? "", /^name is "my-app", but/);
  assert.match(rows[2]?.reason ?? "", /^cpu is 0/);
  for (const row of rows) {
    assert.equal(row.project_id, api.projectId);
    assert.match(row.request_id ?? "", /^[0-9a-f-]{36}$/);
  }
});

test("a field with a default of its own row is documented with it", () => {
  for (const name of fieldNames) {
    const { about } = appFields[name];
    assert.match(about, /^[A-Za-z].*\.$/, name);
  }
});
