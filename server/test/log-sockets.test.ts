// Live logs over WebSockets, as published clients read them, on a whole platform with a real app.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { test, type TestContext } from "node:test";
import { WebSocket } from "ws";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

type Message = Readonly<Record<string, unknown>>;

type Reader = {
  readonly messages: Message[];
  /** The close code; null: it is open. */
  code(): number | null;
  close(): void;
};

const source = `def run(text: str):
    print(text, flush=True)
    return text
`;

async function read(t: TestContext, platform: PlatformProcess, path: string): Promise<Reader> {
  const client = new WebSocket(platform.bootstrap.baseUrl.replace(/^http/, "ws") + path);
  t.after(() => client.terminate());
  const messages: Message[] = [];
  let ended: number | null = null;
  client.on(
    "message",
    (data: Buffer) => void messages.push(JSON.parse(data.toString()) as Message),
  );
  client.on("close", (code) => (ended = code));
  await once(client, "open");
  return { messages, code: () => ended, close: () => client.close() };
}

/** The answer to a refused one. */
async function refused(
  platform: PlatformProcess,
  path: string,
): Promise<readonly [number, string]> {
  const client = new WebSocket(platform.bootstrap.baseUrl.replace(/^http/, "ws") + path);
  const [, response] = (await once(client, "unexpected-response")) as [
    unknown,
    AsyncIterable<Buffer> & { statusCode: number },
  ];
  let text = "";
  for await (const part of response) text += part.toString();
  return [response.statusCode, (JSON.parse(text) as { message: string }).message];
}

/** Opens nothing, as its handshake is none; resolves with the status of the refusal. */
async function badHandshake(platform: PlatformProcess, path: string): Promise<number> {
  const url = platform.bootstrap.baseUrl + path;
  const fields = { upgrade: "websocket", connection: "Upgrade" };
  const headers = { ...fields, "sec-websocket-version": "13", "sec-websocket-key": "x" };
  const asked = request(url, { headers }).end();
  const [response] = (await once(asked, "response")) as [IncomingMessage];
  response.resume();
  await once(response, "close");
  return response.statusCode ?? 0;
}

type Query = (more: Record<string, string>) => string;

async function checkRefusals(
  platform: PlatformProcess,
  { appId, query }: { readonly appId: string; readonly query: Query },
): Promise<void> {
  const { inferenceToken } = platform.bootstrap;
  for (const [path, expected] of [
    [`/ws-logs?${query({ appID: appId, token: "x" })}`, [401, /invalid, expired or revoked/]],
    [`/ws-logs?${query({ appID: appId, token: "" })}`, [401, /No token was sent/]],
    [`/ws-logs?${query({ appID: appId, token: inferenceToken })}`, [403, /only for calling apps/]],
    [`/ws-logs?${query({ appID: "none" })}`, [404, /no app/i]],
    [`/ws-logs?${query({ appID: appId, projectID: "p-00000000" })}`, [404, /project/]],
    [`/ws-logs?${query({ appID: appId, after: "yesterday" })}`, [400, /^after is "yesterday"/]],
    [`/ws-build-logs?${query({ buildID: crypto.randomUUID() })}`, [404, /no app/i]],
    [`/ws-build-logs?${query({ buildID: "x" })}`, [404, /no app/i]],
  ] as const) {
    const [code, message] = await refused(platform, path);
    assert.equal(code, expected[0], `${path}: ${message}`);
    assert.match(message, expected[1]);
  }
}

test("published clients read the log of a build and of an app over WebSockets", async (t) => {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": source });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const { projectId, serviceAccountToken: token } = platform.bootstrap;
  const { appId, buildId, status, log } = await deploy(platform, {
    name: "printer",
    gitRepo: "acme/app",
    pythonVersion: "3.11",
  });
  assert.equal(status, "success", log);

  const query: Query = (more) =>
    new URLSearchParams({ projectID: projectId, token, ...more }).toString();
  const ofBuild = await read(
    t,
    platform,
    `/ws-build-logs?${query({ buildID: buildId, after: "2026-01-01T00:00:00.123456789Z" })}`,
  );
  await until("it ends with the build", () => ofBuild.code() === 1000);
  assert.deepEqual(ofBuild.messages.map((message) => message["log"]).join("\n"), log);
  const [first] = ofBuild.messages;
  assert.deepEqual(Object.keys(first ?? {}).toSorted(), [
    "app_id",
    "build_id",
    "container_id",
    "k8s_namespace",
    "log",
    "log_id",
    "log_line_number",
    "region",
    "stage",
    "stream",
    "timestamp",
  ]);
  assert.deepEqual(
    [first?.["build_id"], first?.["app_id"], first?.["log_line_number"]],
    [buildId, appId, 1],
  );
  const late = await read(
    t,
    platform,
    `/ws-build-logs?${query({ buildID: buildId, after: "2200-01-01T00:00:00Z" })}`,
  );
  await until("it ends at once", () => late.code() === 1000);
  assert.deepEqual(late.messages, []);

  const say = async (text: string): Promise<string> => {
    const answer = await platform.call("printer", "run", { text });
    return ((await answer.json()) as { run_id: string }).run_id;
  };
  const texts = ({ messages }: Reader): unknown[] => messages.map((message) => message["log"]);
  const fromNow = await read(t, platform, `/ws-logs?${query({ appID: appId })}`);
  const run = await say("one");
  await until("it has the line", () => texts(fromNow).includes("one"));
  const line = fromNow.messages.find((message) => message["log"] === "one");
  assert.deepEqual([line?.["app_id"], line?.["run_id"]], [appId, run]);
  const after = new Date(Date.parse(String(line?.["timestamp"])) - 1).toISOString();
  const other = await say("two");
  const again = await read(t, platform, `//ws-logs?${query({ appID: appId, after })}`);
  const ofRun = await read(t, platform, `/ws-logs?${query({ appID: appId, after, runID: other })}`);
  await until(
    "what was printed before comes first",
    () => texts(again).includes("two") && texts(ofRun).includes("two"),
  );
  await say("three");
  await until("then what comes", () => texts(again).includes("three"));
  assert.deepEqual(texts(again), ["one", "two", "three"]);
  assert.deepEqual(texts(ofRun), ["two"]);

  const rows = Array.from({ length: 40 }, (_, index) => `row ${index}`);
  const printed = await say(rows.join("\n"));
  const ofRows = await read(
    t,
    platform,
    `/ws-logs?${query({ appID: appId, after, runID: printed })}`,
  );
  await until("it has all lines", () => texts(ofRows).length === rows.length);
  assert.deepEqual(texts(ofRows), rows);
  // Clients take two lines of one run with the same time for one.
  const times = ofRows.messages.map((message) => String(message["timestamp"]));
  assert.equal(new Set(times).size, rows.length, "each line has a time of its own");
  assert.deepEqual(times, times.toSorted(), "in the order of the lines");

  // Whoever opens none of them holds no place.
  for (let tries = 0; tries < 21; tries++) {
    const path = `/ws-logs?${query({ appID: appId })}`;
    assert.equal(await badHandshake(platform, path), 400);
  }
  await checkRefusals(platform, { appId, query });
  again.close();
  const ending = platform.end("SIGTERM");
  await until("the platform's end ends it", () => fromNow.code() !== null);
  assert.equal(fromNow.code(), 1001);
  assert.equal(await ending, 0);
});
