// The fixture for tests of async runs: a platform with a cortex app `work` and a custom app `echo`,
// a webhook receiver, and queries about a run as a caller would make them.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { deploy } from "./examples.ts";
import { startGitServer } from "./git-server.ts";
import type { Json } from "./management-api.ts";
import { startPlatformOnTestServer } from "./platform-on-test-server.ts";
import type { PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

const cortexApp = `import asyncio, collections, time

tries = collections.Counter()
marks = collections.Counter()

def run(value=None):
    return {"value": value}

def status(code):
    return {"status_code": code}

def busy_first(key, times):
    tries[key] += 1
    if tries[key] <= times:
        return {"status_code": 503}
    return {"tries": tries[key]}

def count(key):
    marks[key] += 1
    return marks[key]

async def sleep(key):
    try:
        marks[key] += 1
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        marks[key + "-stopped"] += 1
        raise

def spin(key):
    marks[key] += 1
    try:
        while True:
            time.sleep(0.01)
    finally:
        marks[key + "-stopped"] += 1

def stubborn():
    has_begun = False
    while True:
        try:
            if not has_begun:
                has_begun = True
                print("begun")
            while True:
                time.sleep(0.01)
        except BaseException:
            pass

def mark(key):
    return marks[key]

def stream():
    yield "one"
    yield "two"
`;

/** Echoes the request, holds /hold until the client disconnects, and exits on /die. */
const customApp = `import http.server, json, os, select

held = {"now": 0, "gone": 0}

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        size = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(size)
        if self.path.startswith("/die"):
            os._exit(3)
        if self.path.startswith("/hold"):
            held["now"] += 1
            while not (select.select([self.connection], [], [], 0.05)[0] and self.connection.recv(1) == b""):
                pass
            held["gone"] += 1
            return
        told = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body": body.decode("latin1"), "held": held}
        text = json.dumps(told).encode()
        self.send_response(201)
        self.send_header("content-type", "application/vnd.echo+json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = answer

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

/** The parts of the fixture. */
export type Fixture = { readonly platform: PlatformProcess; readonly receiver: WebhookReceiver };

/** Starts the platform and deploys both apps. */
export async function stage(t: TestContext): Promise<Fixture> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "cortex", { "main.py": cortexApp });
  await git.createRepo("acme", "custom", { "server.py": customApp });
  const receiver = await startReceiver(t);
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_ASYNC_BODY_LIMIT_MB: "1",
  });
  const common = {
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 600,
    maxReplicaCount: 1,
    replicaConcurrency: 4,
  };
  const apps = await Promise.all([
    deploy(platform, { name: "work", gitRepo: "acme/cortex", ...common }),
    deploy(platform, {
      name: "echo",
      gitRepo: "acme/custom",
      ...common,
      runtime: "custom",
      entrypoint: ["python", "server.py"],
      port: 8000,
    }),
  ]);
  for (const app of apps) assert.equal(app.status, "success", app.log);
  return { platform, receiver };
}

/** Starts a run and checks the answer; returns the run's id. */
export async function begin(
  { platform }: Fixture,
  app: string,
  path: string,
  body: unknown = {},
  init: RequestInit = {},
): Promise<string> {
  const glue = path.includes("?") ? "&" : "?";
  const response = await platform.call(app, `${path}${glue}async=true`, body, init);
  const text = await response.text();
  assert.equal(response.status, 202, text);
  const { run_id: runId, ...rest } = JSON.parse(text) as { run_id: string };
  assert.deepEqual(rest, {}, "the body holds the run's id and nothing else");
  assert.equal(response.headers.get("x-request-id"), runId);
  return runId;
}

/** A request to the management API. */
export function runPath({ platform }: Fixture, app: string, runId: string): string {
  const { projectId } = platform.bootstrap;
  return `/v2/projects/${projectId}/apps/${projectId}-${app}/runs/${runId}`;
}

/** The run as the API shows it. */
export async function show(fixture: Fixture, app: string, runId: string): Promise<Json> {
  const { status, body } = await fixture.platform.api("GET", runPath(fixture, app, runId));
  assert.equal(status, 200, JSON.stringify(body));
  return body.item;
}

/** The run once it has ended. */
export async function ended(fixture: Fixture, app: string, runId: string): Promise<Json> {
  let item: Json;
  const isOver = async (): Promise<boolean> => {
    item = await show(fixture, app, runId);
    return ["success", "failure", "cancelled", "timeout"].includes(String(item.status));
  };
  await until(`run ${runId} ends`, isOver, { deadlineMs: 30_000 });
  return item;
}

/** What is stored of its answer. */
export async function result(
  fixture: Fixture,
  app: string,
  runId: string,
): Promise<{ status: number; type: string | null; text: string }> {
  const { baseUrl, serviceAccountToken } = fixture.platform.bootstrap;
  const headers = { authorization: `Bearer ${serviceAccountToken}` };
  const response = await fetch(`${baseUrl}${runPath(fixture, app, runId)}/result`, { headers });
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    text: await response.text(),
  };
}

/** The cortex app's counter for the key. */
export async function mark({ platform }: Fixture, key: string): Promise<number> {
  const answer = (await (await platform.call("work", "mark", { key })).json()) as {
    result: number;
  };
  return answer.result;
}

/** What the receiver got for the run; waits until it is there. */
export async function delivered(
  { receiver }: Fixture,
  runId: string,
): Promise<{ body: string; type: string; status: string }> {
  const find = () => receiver.received.find(({ headers }) => headers["x-request-id"] === runId);
  await until(`run ${runId} is delivered`, () => find() !== undefined);
  const got = find();
  assert.ok(got !== undefined);
  const { headers, body } = got;
  return {
    body: String(body),
    type: String(headers["content-type"]),
    status: String(headers["slipway-status-code"]),
  };
}
