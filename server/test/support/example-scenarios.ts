// The example apps with what each must answer, whichever driver runs it.
import assert from "node:assert/strict";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { WebSocket } from "ws";
import { deploy, replicaCount } from "./examples.ts";
import type { PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";

/** What is done with one example app, and whether it needs packages from the index. */
export type Scenario = {
  readonly promise: string;
  readonly needsPackages: boolean;
  readonly run: (platform: PlatformProcess, t: TestContext) => Promise<void>;
};

async function tryHello(platform: PlatformProcess): Promise<void> {
  const { projectId } = platform.bootstrap;
  const hello = await deploy(platform, {
    name: "hello",
    gitPath: "hello",
    cooldownPeriodSeconds: 1,
  });
  assert.equal(hello.status, "success", hello.log);
  const first = await platform.call("hello", "run", { name: "Ada" });
  const answer = (await first.json()) as { run_id: string; result: unknown; run_time_ms: number };
  assert.deepEqual(Object.keys(answer), ["run_id", "result", "run_time_ms"]);
  assert.deepEqual(answer.result, { greeting: "Hello, Ada!" });
  assert.equal(first.headers.get("x-request-id"), answer.run_id);
  await until("the app sleeps", async () => (await replicaCount(platform, hello.appId)) === 0, {
    deadlineMs: 60_000,
  });
  const woken = await platform.call("hello", "run", {});
  assert.deepEqual(((await woken.json()) as { result: unknown }).result, {
    greeting: "Hello, world!",
  });
  await until(
    "the line that the app printed can be read by its run",
    async () => {
      const logs = await platform.api(
        "GET",
        `/v2/projects/${projectId}/apps/${hello.appId}/logs?runId=${answer.run_id}`,
      );
      return logs.body?.logs?.[0]?.logLine === "greeting Ada";
    },
    { deadlineMs: 60_000 },
  );
}

async function tryStream(platform: PlatformProcess): Promise<void> {
  const stream = await deploy(platform, { name: "stream", gitPath: "stream" });
  assert.equal(stream.status, "success", stream.log);
  // So long a pause that each piece is read before the next one comes, also on a busy machine.
  const response = await platform.call("stream", "run", { count: 3, pause_seconds: 1 });
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  const pieces: string[] = [];
  for await (const piece of response.body ?? []) pieces.push(new TextDecoder().decode(piece));
  assert.equal(pieces.join(""), "data: Number 0\n\ndata: Number 1\n\ndata: Number 2\n\n");
  assert.ok(pieces.length >= 3, `arrived in ${pieces.length} pieces`);
  const letters = await (await platform.call("stream", "letters", { text: "ab" })).text();
  assert.match(letters, /^data: \{"letter": ?"a"\}\n\ndata: \{"letter": ?"b"\}\n\n$/);
}

async function tryReport(platform: PlatformProcess): Promise<void> {
  const { projectId } = platform.bootstrap;
  const { appId, status, log } = await deploy(platform, { name: "report", gitPath: "report" });
  assert.equal(status, "success", log);
  const plain = await platform.call("report", "run", { pages: 1, seconds_per_page: 0.1 });
  assert.deepEqual(((await plain.json()) as { result: unknown }).result, { pages: 1 });
  assert.equal((await platform.call("report", "run", { pages: 0 })).status, 422);
  const accepted = await platform.call("report", "publish?async=true", { shelf: "closed" });
  assert.equal(accepted.status, 202);
  const { run_id: runId } = (await accepted.json()) as { run_id: string };
  const run = await until(
    "the run has used up its retries",
    async () => {
      const { item } = (
        await platform.api("GET", `/v2/projects/${projectId}/apps/${appId}/runs/${runId}`)
      ).body;
      return item.completedAt !== null && item;
    },
    { deadlineMs: 30_000 },
  );
  assert.deepEqual([run.status, run.statusCode, run.attempts], ["failure", 503, 3]);
}

async function trySecretsAsync(platform: PlatformProcess): Promise<void> {
  const { projectId } = platform.bootstrap;
  const secrets = await platform.api("PATCH", `/v2/projects/${projectId}/secrets`, {
    SIGNING_KEY: "k1",
  });
  assert.equal(secrets.status, 200, JSON.stringify(secrets.body));
  const app = await deploy(platform, { name: "secrets-async", gitPath: "secrets-async" });
  assert.equal(app.status, "success", app.log);
  const order: number[] = [];
  const sign = async (waitSeconds: number): Promise<{ result: { signature: string } }> => {
    const answer = await platform.call("secrets-async", "sign", {
      message: "m",
      wait_seconds: waitSeconds,
    });
    order.push(waitSeconds);
    return (await answer.json()) as { result: { signature: string } };
  };
  // The last one has nothing to wait for.
  const answers = await Promise.all([...Array.from({ length: 19 }, () => sign(3)), sign(0)]);
  assert.equal(order[0], 0, "calls waited for one another");
  assert.equal(new Set(answers.map((answer) => answer.result.signature)).size, 1);
  assert.match(answers[0]?.result.signature ?? "", /^[0-9a-f]{64}$/);
  assert.equal(await replicaCount(platform, app.appId), 1);
}

async function tryOpenaiCompatible(platform: PlatformProcess): Promise<void> {
  const app = await deploy(platform, { name: "openai-compatible", gitPath: "openai-compatible" });
  assert.equal(app.status, "success", app.log);
  const body = { model: "echo", messages: [{ role: "user", content: "two words" }], stream: true };
  const text = await (
    await platform.call("openai-compatible", "run/chat/completions", body)
  ).text();
  assert.match(text, /"content": "two"/);
  assert.match(text, /data: \[DONE\]\n\n$/);
}

async function tryPypiDependency(platform: PlatformProcess): Promise<void> {
  const app = await deploy(platform, { name: "pypi-dependency", gitPath: "pypi-dependency" });
  assert.equal(app.status, "success", app.log);
  const answer = (await (
    await platform.call("pypi-dependency", "run", { text: "Größe & Co." })
  ).json()) as {
    result: unknown;
  };
  assert.deepEqual(answer.result, { slug: "grosse-co" });
}

async function tryWebsocketFastapi(platform: PlatformProcess, t: TestContext): Promise<void> {
  const { projectId, baseUrl, inferenceToken } = platform.bootstrap;
  const app = await deploy(platform, { name: "websocket-fastapi", gitPath: "websocket-fastapi" });
  assert.equal(app.status, "success", app.log);
  const item = await fetch(`${baseUrl}/v4/${projectId}/websocket-fastapi/items/7`, {
    headers: { authorization: `Bearer ${inferenceToken}` },
  });
  assert.deepEqual(await item.json(), {
    item: 7,
    run_id: item.headers.get("x-request-id"),
    build: app.buildId,
  });
  const url = `${baseUrl.replace("http", "ws")}/v4/${projectId}/websocket-fastapi/echo`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${inferenceToken}` } });
  t.after(() => socket.terminate());
  const reply = await new Promise<string>((resolve, reject) => {
    socket.on("error", reject);
    socket.on("open", () => socket.send("ahoy"));
    socket.on("message", (data: Buffer) => resolve(data.toString()));
  });
  assert.deepEqual(JSON.parse(reply), { echo: "ahoy", length: 4 });
  socket.close();
  await tryRevoked(platform, url);
}

/** A connection does not outlive the token that it was opened with. */
async function tryRevoked({ bootstrap }: PlatformProcess, url: string): Promise<void> {
  const { baseUrl, projectId, serviceAccountToken } = bootstrap;
  const keys = `${baseUrl}/v2/projects/${projectId}/api-keys`;
  const headers = {
    authorization: `Bearer ${serviceAccountToken}`,
    "content-type": "application/json",
  };
  const made = await fetch(keys, {
    method: "POST",
    headers,
    body: JSON.stringify({ name: "for one socket" }),
  });
  const { id, token } = (await made.json()) as { id: string; token: string };
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
  await once(socket, "open");
  const closed = once(socket, "close", { signal: AbortSignal.timeout(30_000) });
  assert.equal((await fetch(`${keys}/${id}`, { method: "DELETE", headers })).status, 200);
  await closed;
}

/** One for each example app. */
export const exampleScenarios: readonly Scenario[] = [
  {
    promise: "hello: a function answers, sleeps and wakes, and its output is kept by run",
    needsPackages: false,
    run: tryHello,
  },
  {
    promise: "stream: generators arrive piece by piece as server-sent events",
    needsPackages: false,
    run: tryStream,
  },
  {
    promise: "report: a run is worked off later, and tried again as often as its TOML says",
    needsPackages: false,
    run: tryReport,
  },
  {
    promise:
      "secrets-async: async calls run side by side in one replica and see the project's secret",
    needsPackages: false,
    run: trySecretsAsync,
  },
  {
    promise: "openai-compatible: the path of OpenAI clients reaches the function",
    needsPackages: false,
    run: tryOpenaiCompatible,
  },
  {
    promise: "pypi-dependency: packages are installed",
    needsPackages: true,
    run: tryPypiDependency,
  },
  {
    promise: "websocket-fastapi: a server of one's own answers routes and a WebSocket",
    needsPackages: true,
    run: tryWebsocketFastapi,
  },
];
