// What callers of an app see of its fields, on any driver: one app that tells about itself, changed
// field by field.
import assert from "node:assert/strict";
import type { FieldName } from "@slipway/contract/app-fields.ts";
import { deploy } from "./examples.ts";
import type { Json } from "./management-api.ts";
import type { PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";

/** An app that answers each call with what it knows of itself; `acme/told` holds its folders. */
const program = `
import json, os, resource, subprocess, sys, threading, time, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

instance, asked, healthy, lock = uuid.uuid4().hex, {}, [True], threading.Lock()

def burn():
    """The cores that two busy programs get."""
    busy = "import time\\nend = time.monotonic() + 2\\nwhile time.monotonic() < end: pass"
    began = time.monotonic()
    for child in [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(2)]:
        child.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / (time.monotonic() - began)

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.rstrip("/")
        with lock:
            asked[path] = asked.get(path, 0) + 1
        if path == "/break":
            healthy[0] = False
        if path == "/hold":
            time.sleep(3600)
        bad = path == "/health" and not healthy[0] or path == "/ready" and asked[path] < 4
        body = json.dumps({
            "instance": instance, "asked": asked, "arguments": sys.argv[1:], "port": port,
            "cores": burn() if path == "/burn" else None,
            "variable": os.environ.get("PORT"), "python": "%d.%d" % sys.version_info[:2],
        }).encode()
        self.send_response(503 if bad else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

port = int(os.environ["PORT"])
ThreadingHTTPServer(("0.0.0.0", port), Handler).serve_forever()
`;

const cortex = "def run():\n    return 'ran'\n";

/** Never becomes ready. */
const idle = "import time\ntime.sleep(3600)\n";

/** The files of the repository `acme/told`. */
export const toldFiles = { "main.py": program, "cortex/main.py": cortex, "idle/main.py": idle };

/** One app on one platform. */
export type ToldApp = {
  readonly platform: PlatformProcess;
  readonly appId: string;
  /** A call of the path; the answer is what the app tells. */
  told(path?: string): Promise<Json>;
  /** Changes settings and waits until the app has the release that the change takes. */
  change(body: object): Promise<void>;
};

/** Deploys the app that tells about itself. */
export async function deployTold(
  platform: PlatformProcess,
  name: string,
  settings: object = {},
): Promise<ToldApp> {
  const common = {
    gitRepo: "acme/told",
    runtime: "custom",
    entrypoint: ["python3", "main.py"],
    cpu: 0.5,
    memory: 0.25,
  };
  const { appId, status, log } = await deploy(platform, { ...common, name, ...settings });
  assert.equal(status, "success", log);
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  const told = async (called = ""): Promise<Json> => {
    const response = await callApp(platform, `${name}${called}`);
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text);
  };
  const change = async (body: object): Promise<void> => {
    const before: number = (await platform.api("GET", path)).body.liveRelease;
    const { status: answered, body: answer } = await platform.api("PATCH", path, body);
    assert.equal(answered, 200, JSON.stringify(answer));
    if (answer.change === "live") return;
    // The number of a release that is built first is not known before.
    const isLive = async (): Promise<boolean> =>
      (await platform.api("GET", path)).body.liveRelease > before;
    await until("the new release takes the calls", isLive, { deadlineMs: 120_000 });
  };
  return { platform, appId, told, change };
}

/** The same with each driver, by field. */
export const drivenEffects = {
  port: async ({ told, change }) => {
    const { port, variable } = await told();
    assert.deepEqual([port, variable], [8000, "8000"]);
    await change({ port: 8123 });
    assert.deepEqual((await told()).port, 8123);
    await change({ port: 0 });
    assert.ok((await told()).port > 0, "the platform picks one");
  },
  entrypoint: async ({ told, change }) => {
    assert.deepEqual((await told()).arguments, []);
    await change({ entrypoint: ["python3 main.py 'two words' three"] });
    assert.deepEqual((await told()).arguments, ["two words", "three"]);
  },
  readycheckEndpoint: async ({ told, change }) => {
    await change({ readycheckEndpoint: "/ready" });
    const { asked } = await told();
    assert.ok(asked["/ready"] >= 4, `the first three answers were no: ${JSON.stringify(asked)}`);
  },
  healthcheckEndpoint: async ({ told, change }) => {
    await change({ healthcheckEndpoint: "/health", minReplicaCount: 1 });
    const before = await told("/break");
    await until(
      "another replica has taken its place",
      async () => (await told()).instance !== before.instance,
      {
        deadlineMs: 120_000,
      },
    );
  },
} as const satisfies Partial<Record<FieldName, (app: ToldApp) => Promise<void>>>;

/** What only a driver with containers does everywhere. */
export const containerEffects = {
  ...drivenEffects,
  cpu: async ({ told }) => {
    const { cores } = await told("/burn");
    assert.ok(cores < 0.8, `of two busy programs with cpu 0.5: ${cores} cores`);
  },
} as const satisfies Partial<Record<FieldName, (app: ToldApp) => Promise<void>>>;

/** A call with the token that the first start has written. */
export async function callApp(
  { bootstrap }: PlatformProcess,
  path: string,
  signal?: AbortSignal,
): Promise<Response> {
  const { baseUrl, projectId, inferenceToken } = bootstrap;
  return await fetch(`${baseUrl}/v4/${projectId}/${path}`, {
    headers: { authorization: `Bearer ${inferenceToken}` },
    signal: signal ?? null,
  });
}
