// Why calls failed, in the words of what failed: exceptions after a stream has begun, and processes
// that ended, with nothing of the calls before. Asked of real replicas in every way in which
// somebody may ask.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import { startReceiver } from "./support/webhook-receiver.ts";

const functions = `import ctypes, os

def old():
    raise ValueError("old problem of another call")

def exits():
    os._exit(7)

def faults():
    ctypes.string_at(0)

def fails_in_between():
    yield "one"
    raise ValueError("in between")

async def fails_in_between_later():
    yield "one"
    raise ValueError("in between")

def lacks_a_form():
    yield "one"
    yield [object()]
`;

const server = `import http.server, os, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/old":
            print("ValueError: old problem of another call", file=sys.stderr, flush=True)
        if self.path == "/says":
            # The times of files come from the clock of the kernel's ticks (5), which is behind by up to one.
            began = time.time()
            while time.clock_gettime(5) <= began:
                pass
            print("ValueError: what ended it", file=sys.stderr, flush=True)
        if self.path in ("/says", "/exits"):
            self.server.socket.close()
            os._exit(7)
        if self.path == "/breaks":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"3\\r\\none\\r\\n")
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

const ended = /^(?:success|failure|timeout|cancelled)$/;

class Asker {
  readonly platform: PlatformProcess;
  readonly app: string;

  constructor(platform: PlatformProcess, app: string) {
    this.platform = platform;
    this.app = app;
  }

  async run(runId: string): Promise<Json> {
    const { projectId } = this.platform.bootstrap;
    const path = `/v2/projects/${projectId}/apps/${projectId}-${this.app}/runs/${runId}`;
    let item: Json = null;
    await until(`run ${runId} has ended`, async () => {
      item = (await this.platform.api("GET", path)).body?.item;
      return ended.test(String(item?.status));
    });
    return item;
  }

  async runOf(response: Response): Promise<Json> {
    return await this.run(response.headers.get("x-request-id") ?? "");
  }

  /** Ends as a run with the answer as its result. */
  async async(path: string, query = ""): Promise<{ readonly run: Json; readonly result: unknown }> {
    const accepted = await this.platform.call(this.app, `${path}?async=true${query}`, {});
    assert.equal(accepted.status, 202, await accepted.clone().text());
    const { projectId } = this.platform.bootstrap;
    const { run_id: runId } = (await accepted.json()) as { run_id: string };
    const run = await this.run(runId);
    const at = `/v2/projects/${projectId}/apps/${projectId}-${this.app}/runs/${runId}/result`;
    return { run, result: (await this.platform.api("GET", at)).body };
  }
}

/** The caller gets the bytes up to where the answer broke off. */
async function read(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const piece of response.body ?? [])
      text += decoder.decode(piece as Uint8Array, { stream: true });
  } catch {
    return text;
  }
  assert.fail(`the answer is complete: ${text}`);
}

/** Both kinds of apps on a platform, and a receiver of their webhooks. */
async function stage(t: TestContext) {
  const git = await startGitServer(t);
  await git.createRepo("acme", "words", { "main.py": functions });
  await git.createRepo("acme", "server", { "server.py": server });
  const receiver = await startReceiver(t);
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
  });
  const common = { pythonVersion: "3.11", cooldownPeriodSeconds: 600, maxReplicaCount: 1 };
  const built = await deploy(platform, { ...common, name: "words", gitRepo: "acme/words" });
  assert.equal(built.status, "success", built.log);
  const custom = { runtime: "custom", port: 8000, entrypoint: ["python", "server.py"] };
  const served = await deploy(platform, {
    ...common,
    ...custom,
    name: "server",
    gitRepo: "acme/server",
  });
  assert.equal(served.status, "success", served.log);
  const words = new Asker(platform, "words");
  const other = new Asker(platform, "server");
  return { platform, receiver, words, other };
}

test("why answers broke off after they had begun", { timeout: 300_000 }, async (t) => {
  const { platform, receiver, words, other } = await stage(t);
  const streams = {
    fails_in_between: /^ValueError: in between$/,
    fails_in_between_later: /^ValueError: in between$/,
    lacks_a_form: /^Unserialisable: .*object/,
  };
  for (const [name, message] of Object.entries(streams)) {
    await t.test(
      `an async run of a stream that ${name} has the exception, and its webhook too`,
      async () => {
        const before = receiver.received.length;
        const hook = `&webhookEndpoint=${encodeURIComponent(receiver.url)}`;
        const { run, result } = await words.async(name, hook);
        assert.deepEqual([run.status, run.statusCode], ["failure", 500]);
        assert.match(
          run.reason,
          new RegExp(`^The app answered with status 500: ${message.source.slice(1, -1)}`),
        );
        assert.match((result as { message: string }).message, message);
        await until("the webhook came", () => receiver.received.length > before);
        const [delivered] = receiver.received.slice(before);
        assert.equal(delivered?.headers["slipway-status-code"], "500");
        assert.match((JSON.parse(String(delivered?.body)) as { message: string }).message, message);
      },
    );

    await t.test(
      `a plain call of a stream that ${name} has it in its record, and its webhook too`,
      async () => {
        const before = receiver.received.length;
        const hook = `webhookEndpoint=${encodeURIComponent(receiver.url)}`;
        const response = await platform.call("words", `${name}?${hook}`, {});
        assert.match(await read(response), /^data: one\n\nevent: error\ndata: /);
        const { status, reason } = await words.runOf(response);
        assert.equal(status, "failure");
        const said = /^The app's function failed after its answer had begun: (.*)$/.exec(
          String(reason),
        )?.[1];
        assert.match(said ?? "", message);
        await until("the webhook came", () => receiver.received.length > before);
        const [delivered] = receiver.received.slice(before);
        assert.equal(delivered?.headers["slipway-status-code"], "502");
        assert.equal((JSON.parse(String(delivered?.body)) as { message: string }).message, reason);
      },
    );
  }

  await t.test("an answer that a live replica breaks off has a reason", async () => {
    const response = await platform.call("server", "breaks");
    assert.equal(await read(response), "one");
    assert.match((await other.runOf(response)).reason, /the replica closed the connection/);
  });
});

test("why processes ended under calls", { timeout: 300_000 }, async (t) => {
  const { platform, words, other } = await stage(t);
  const ends = {
    exits: "The app ended with exit code 7.",
    faults: "The app was ended by SIGSEGV.",
  };
  for (const [name, reason] of Object.entries(ends)) {
    await t.test(
      `a process that ${name} is the reason of the run and of the plain call, whatever failed before`,
      async () => {
        assert.equal((await platform.call("words", "old", {})).status, 500);
        const { run } = await words.async(name);
        assert.deepEqual([run.status, run.statusCode], ["failure", 502]);
        assert.equal(run.reason, `The app's replica ended during the run. ${reason}`);
        assert.equal((await platform.call("words", "old", {})).status, 500);
        const response = await platform.call("words", name, {});
        const { message } = (await response.json()) as { message: string };
        const runId = response.headers.get("x-request-id");
        const said = `The app's replica ended during the call. ${reason} Its log for the run ${runId} may say more.`;
        assert.deepEqual([response.status, message], [502, said]);
        assert.equal((await words.runOf(response)).reason, reason);
      },
    );
  }

  await t.test(
    "a server without frames in its log is quoted from the call on, and only to the owner",
    async () => {
      assert.equal((await platform.call("server", "old")).status, 200);
      assert.equal(
        (await other.async("exits")).run.reason,
        `The app's replica ended during the run. ${ends.exits}`,
      );
      const quoted = "The app ended with exit code 7: ValueError: what ended it.";
      assert.equal(
        (await other.async("says")).run.reason,
        `The app's replica ended during the run. ${quoted}`,
      );
      const response = await platform.call("server", "says");
      assert.doesNotMatch(await response.text(), /what ended it/);
      assert.equal((await other.runOf(response)).reason, quoted);
    },
  );
});
