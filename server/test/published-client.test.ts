// The conversation of the published command-line client, verb by verb, with a whole platform: what
// it sends, and what it needs of the answers to go on.
import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { WebSocket } from "ws";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import {
  assertIntegers,
  assertTexts,
  assertTimes,
  endedBuilds,
  PublishedClient,
  send,
} from "./support/published-client.ts";
import { zipOf } from "./support/raw-zip.ts";
import { until } from "./support/until.ts";

const toml = `[cerebrium.deployment]
name = "my-app"
python_version = "3.11"
docker_base_image_url = "debian:bookworm-slim"
disable_auth = true
include = ['./*', 'main.py', 'cerebrium.toml']
exclude = ['.*']

[cerebrium.hardware]
cpu = 2.0
memory = 2.0
compute = "CPU"
region = "us-east-1"

[cerebrium.scaling]
min_replicas = 0
max_replicas = 2
cooldown = 30
replica_concurrency = 1
scaling_metric = "concurrency_utilization"
`;

/** As `deploy` sends what `init` writes. */
const payload = {
  name: "my-app",
  include: ["./*", "main.py", "cerebrium.toml"],
  exclude: [".*"],
  shellCommands: null,
  preBuildCommands: null,
  runtime: "cortex",
  logLevel: "INFO",
  disableBuildLogs: false,
  cliVersion: "2.1.4",
  cerebrium_toml: toml,
  pythonVersion: "3.11",
  baseImage: "debian:bookworm-slim",
  disableAuth: true,
  cpu: 2,
  memory: 2,
  compute: ["CPU"],
  region: "us-east-1",
  minReplicaCount: 0,
  maxReplicaCount: 2,
  cooldownPeriodSeconds: 30,
  replicaConcurrency: 1,
  scalingMetric: "concurrency_utilization",
};

const mainPy = `def run(prompt: str):
    print(f"Running on CPU: {prompt}", flush=True)
    return {"my_result": prompt}
`;

type Stage = {
  readonly platform: PlatformProcess;
  readonly client: PublishedClient;
  readonly projectId: string;
  readonly baseUrl: string;
  readonly appId: string;
  /** Paths. */
  readonly project: string;
  readonly app: string;
};

async function start(t: TestContext): Promise<Stage> {
  const platform = await startPlatformOnTestServer(t);
  const { baseUrl, projectId, serviceAccountToken: token } = platform.bootstrap;
  const client = new PublishedClient({ baseUrl, token });
  const project = `/v2/projects/${projectId}`;
  const appId = `${projectId}-my-app`;
  return { platform, client, projectId, baseUrl, appId, project, app: `${project}/apps/${appId}` };
}

/**
 * `deploy -y`: the deployment, the zip, and the state of the build each second while its log comes
 * over a WebSocket.
 */
async function deploy(
  t: TestContext,
  { client, project, app, platform }: Stage,
  {
    files,
    body = {},
  }: { readonly files: Readonly<Record<string, string>>; readonly body?: object },
): Promise<{ readonly status: string; readonly log: string; readonly buildId: string }> {
  const started = await client.ask("POST", `${project}/apps`, { body: { ...payload, ...body } });
  assert.equal(started.status, 201, JSON.stringify(started.body));
  const names = ["buildId", "status", "uploadUrl", "keyName", "internalEndpoint", "dashboardUrl"];
  assertTexts(started.body, names);
  const { buildId, uploadUrl } = started.body;
  const log = await followBuild(t, platform, buildId);
  const sent = await send("PUT", uploadUrl, {
    bytes: zipOf(files),
    headers: { "content-type": "application/zip" },
  });
  assert.equal(sent.status, 200, JSON.stringify(sent.body));
  const build = await until(
    "the build ends",
    async () => {
      const { body: now } = await client.ask("GET", `${app}/builds/${buildId}`);
      assertTexts(now, ["id", "status", "createdAt", "updatedAt"]);
      return endedBuilds.includes(now.status) ? now : null;
    },
    { deadlineMs: 240_000 },
  );
  await log.ended();
  return { status: build.status, log: log.text(), buildId };
}

async function followBuild(t: TestContext, platform: PlatformProcess, buildId: string) {
  const { baseUrl, projectId, serviceAccountToken: token } = platform.bootstrap;
  const after = new Date(Date.now() - 10_000).toISOString().replace("Z", "123456Z");
  const query = new URLSearchParams({ projectID: projectId, token, buildID: buildId, after });
  const socket = new WebSocket(
    `${baseUrl.replace(/^http/, "ws")}/ws-build-logs?${query.toString()}`,
  );
  t.after(() => socket.terminate());
  const lines: Json[] = [];
  let code: number | null = null;
  socket.on("message", (data: Buffer) => void lines.push(JSON.parse(data.toString())));
  socket.on("close", (closed) => (code = closed));
  await once(socket, "open");
  return {
    text: () => lines.map((line) => line.log).join("\n"),
    async ended() {
      await until("the log ends with the build", () => code === 1000);
      for (const line of lines) {
        assertTexts(line, ["build_id", "log_id", "app_id", "timestamp", "log", "stream", "stage"]);
        assertIntegers(line, ["log_line_number"]);
      }
    },
  };
}

type Step = (stage: Stage, t: TestContext) => Promise<void>;

/** In their order, by verb. */
const steps: Readonly<Record<string, Step>> = {
  async "projects list"({ client, projectId }) {
    const { status, body } = await client.ask("GET", "/v2/projects");
    assert.equal(status, 200);
    assert.equal(body[0].id, projectId);
    assertTexts(body[0], ["id", "name"]);
  },
  async "apps list of a new project"({ client, project }) {
    assert.deepEqual((await client.ask("GET", `${project}/apps`)).body, []);
  },
  async deploy(stage, t) {
    const files = { "main.py": mainPy, "cerebrium.toml": toml };
    const first = await deploy(t, stage, { files });
    assert.equal(first.status, "success", first.log);
    assert.notEqual(first.log, "");
  },
  async "deploy again updates the app of that name, and a failed one shows its reason in the log"(
    stage,
    t,
  ) {
    const { client, project } = stage;
    const broken = await deploy(t, stage, {
      files: { "main.py": "def run(:\n", "cerebrium.toml": toml },
    });
    assert.ok(endedBuilds.includes(broken.status) && broken.status !== "success", broken.status);
    assert.match(broken.log, /SyntaxError/);
    const mended = await deploy(t, stage, { files: { "main.py": mainPy, "cerebrium.toml": toml } });
    assert.equal(mended.status, "success", mended.log);
    const { body: apps } = await client.ask("GET", `${project}/apps`);
    assert.equal(apps.length, 1);
  },
  async "apps list and apps get"({ client, project, app, appId }) {
    const { body: apps } = await client.ask("GET", `${project}/apps`);
    assertTexts(apps[0], ["id", "status"]);
    assertTimes(apps[0], ["createdAt", "updatedAt"]);
    const { body } = await client.ask("GET", app);
    assert.equal(body.id, appId);
    assertTimes(body, ["createdAt", "updatedAt"]);
    const numbers = [
      "cpu",
      "memory",
      "gpuCount",
      "cooldownPeriodSeconds",
      "minReplicaCount",
      "maxReplicaCount",
    ];
    assertTexts(body, [
      ...numbers,
      "hardware",
      "responseGracePeriodSeconds",
      "status",
      "lastBuildStatus",
      "latestBuildId",
    ]);
    assert.deepEqual([body.maxReplicaCount, body.cpu, body.hardware], ["2", "2", "CPU"]);
  },
  async "a call of the app needs no token by its file"({ projectId, baseUrl }) {
    const answer = await send("POST", `${baseUrl}/v4/${projectId}/my-app/run`, {
      bytes: Buffer.from('{"prompt":"hello"}'),
      headers: { "content-type": "application/json" },
    });
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    assert.deepEqual(answer.body.result, { my_result: "hello" });
  },
  async logs({ client, app }) {
    const page = await until("the line is there", async () => {
      const { status, body } = await client.ask(
        "GET",
        `${app}/logs?direction=forward&pageSize=1000&search=hello`,
      );
      assert.ok([200, 204].includes(status));
      return status === 200 && body.logs.length > 0 ? body : null;
    });
    const [line] = page.logs;
    assertTexts(line, [
      "appId",
      "projectId",
      "containerId",
      "containerName",
      "logId",
      "logLine",
      "stream",
    ]);
    assertIntegers(line, ["lineNumber"]);
    assertTimes(line, ["timestamp"]);
    assert.equal(typeof page.hasMore, "boolean");
    assert.equal(line.logLine, "Running on CPU: hello");
    const { body: ofRun } = await client.ask(
      "GET",
      `${app}/logs?runId=${line.runId}&stream=stdout`,
    );
    assert.equal(ofRun.logs.length, 1);
  },
  async "runs list, with the integers that it cannot do without"({
    client,
    app,
    projectId,
    baseUrl,
  }) {
    const queued = await send("POST", `${baseUrl}/v4/${projectId}/my-app/run?async=true`, {
      bytes: Buffer.from('{"prompt":"later"}'),
      headers: { "content-type": "application/json" },
    });
    assert.equal(queued.status, 202);
    const runId = queued.body.run_id;
    await until("the run ends", async () => {
      const { body } = await client.ask("GET", `${app}/runs/${runId}`);
      return body.item.status === "success";
    });
    for (const query of ["", "?asyncOnly=true"]) {
      const { body } = await client.ask("GET", `${app}/runs${query}`);
      const run = body.items.find((one: Json) => one.id === runId);
      assertTimes(run, ["createdAt"]);
      const times = ["completedAt", "containerStartedAt", "queueProxyReceivedAt", "updatedAt"];
      assertTimes(run, times, { areNullable: true });
      const sums = [
        "activatorQueueTimeMs",
        "containerQueueTimeMs",
        "totalQueueTimeMs",
        "executionTimeMs",
      ];
      assertIntegers(run, [...sums, "totalResponseTimeMs"]);
      assert.equal(run.async, true);
      assert.equal(run.statusCode, 200);
    }
  },
  async "containers list"({ client, app }) {
    const { body } = await client.ask("GET", `${app}/containers`);
    assert.ok(body.length > 0);
    assertTexts(body[0], ["appId", "projectId", "containerId", "containerState"]);
    assertIntegers(body[0], ["containerRunningTimeMs", "containerRestartCount"]);
    const times = ["timestamp", "containerStartTimestamp", "containerTerminationTimestamp"];
    assertTimes(body[0], times, { areNullable: true });
  },
  async "app scale"({ client, app }) {
    const body = {
      cooldownPeriodSeconds: 60,
      minReplicaCount: 0,
      maxReplicaCount: 3,
      responseGracePeriodSeconds: 900,
    };
    assert.equal((await client.ask("PATCH", app, { body })).status, 200);
    assert.equal((await client.ask("GET", app)).body.maxReplicaCount, "3");
  },
  async "secrets: none, then a merged map for the project and the app"({ client, project, app }) {
    for (const path of [`${project}/secrets`, `${app}/secrets`]) {
      assert.deepEqual((await client.ask("GET", path)).body ?? {}, {});
      assert.equal(
        (await client.ask("PATCH", path, { body: { API_KEY: "one", OTHER: "two" } })).status,
        200,
      );
      assert.deepEqual((await client.ask("GET", path)).body, { API_KEY: "one", OTHER: "two" });
    }
  },
  async "cp, ls, download and rm of files of the volume, of a size that has two parts"({
    client,
    project,
    baseUrl,
  }) {
    const volume = `${project}/volumes/default`;
    const content = Buffer.alloc(partBytes + 3, "part ");
    const given = { file_path: "/f.txt", region: "" };
    const begin = { body: { ...given, part_count: 2 } };
    const { body: begun } = await client.ask("POST", `${volume}/cp/initialize?region=`, begin);
    assertTexts(begun, ["upload_id"]);
    const parts = [];
    for (const { part_number, url } of (begun.parts as Json[]).toReversed()) {
      assertIntegers({ part_number }, ["part_number"]);
      const bytes = content.subarray((part_number - 1) * partBytes, part_number * partBytes);
      const sent = await send("PUT", url, {
        bytes,
        headers: { "content-type": "application/octet-stream" },
      });
      assert.equal(sent.status, 200, JSON.stringify(sent.body));
      parts.push({ part_number, etag: sent.headers["etag"] });
    }
    const complete = { body: { ...given, upload_id: begun.upload_id, parts } };
    assert.equal((await client.ask("POST", `${volume}/cp/complete?region=`, complete)).status, 200);
    const { body: found } = await client.ask("GET", `${volume}/ls?region=&dir=`);
    assert.deepEqual(
      [found[0].name, found[0].is_folder, found[0].size_bytes],
      ["f.txt", false, content.length],
    );
    assertTimes(found[0], ["last_modified"]);
    const { body: address } = await client.ask("GET", `${volume}/download?region=&file_path=f.txt`);
    assert.equal(
      (await send("HEAD", address.url)).headers["content-length"],
      String(content.length),
    );
    assert.ok(Buffer.from(await (await fetch(address.url)).arrayBuffer()).equals(content));
    assert.equal((await client.ask("DELETE", `${volume}/rm?region=&file_path=f.txt`)).status, 200);
    assert.deepEqual((await client.ask("GET", `${volume}/ls?region=&dir=`)).body, []);
    assert.ok(address.url.startsWith(baseUrl));
  },
  async "builds: cancel"({ client, project, app }) {
    const started = await client.ask("POST", `${project}/apps`, { body: payload });
    const { status } = await client.ask("DELETE", `${app}/builds/${started.body.buildId}`);
    assert.equal(status, 200);
    const { body } = await client.ask("GET", `${app}/builds/${started.body.buildId}`);
    assert.equal(body.status, "cancelled");
  },
  async "api keys: the token for calling apps, by its source"({ client, project }) {
    const { body } = await client.ask("GET", `${project}/api-keys`);
    const found = (body as Json[]).find((one) => one.source === "cerebrium_jwt");
    assert.equal(found.apiKey.split(".").length, 3);
  },
  async "refusals are a message, never 405: the client shows that as a lack of rights"({
    client,
    project,
    baseUrl,
  }) {
    const partner = await client.ask("POST", `${project}/partner-apps`, {
      body: { ...payload, runtime: "deepgram" },
    });
    assert.notEqual(partner.status, 405);
    const bad = await client.ask("POST", `${project}/apps`, { body: { ...payload, cpu: 999_999 } });
    assert.equal(bad.status, 400);
    for (const { body } of [partner, bad]) assert.equal(typeof body.message, "string");
    assert.equal(
      (await new PublishedClient({ baseUrl, token: null }).ask("GET", "/v2/projects")).status,
      401,
    );
  },
  async "app delete"({ client, project, app }) {
    assert.equal((await client.ask("DELETE", app)).status, 200);
    assert.deepEqual((await client.ask("GET", `${project}/apps`)).body, []);
  },
};

test("the published client's verbs, with an app of its own", async (t) => {
  const stage = await start(t);
  for (const [verb, step] of Object.entries(steps))
    await t.test(verb, (inner) => step(stage, inner));
});
