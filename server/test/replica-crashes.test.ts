// An app that prints without measure and crashes: the next calls go to the next replica at once,
// and whoever asks about a run that the crash took down finds why.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const app = `import http.server, os, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/crash":
            for _ in range(400):
                os.write(1, b"a line of output\\n" * 1000)
        if self.path in ("/crash", "/exit"):
            os.write(2, b"LastWords: it was too much\\n")
            # Otherwise the kernel may close this connection first, and calls in between would be reset with the listener.
            self.server.socket.close()
            os._exit(3)
        if self.path == "/wait":
            print("it waits", flush=True)
            threading.Event().wait()
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

/** The lines of a run, as the API shows them. */
async function linesOf(platform: PlatformProcess, runId: string): Promise<string[]> {
  const { projectId } = platform.bootstrap;
  const path = `/v2/projects/${projectId}/apps/${projectId}-loud`;
  const { status, body } = await platform.api("GET", `${path}/logs?runId=${runId}`);
  assert.equal(status, 200, JSON.stringify(body));
  return (body.logs as { logLine: string }[]).map(({ logLine }) => logLine);
}

async function run(platform: PlatformProcess, runId: string): Promise<Json> {
  const { projectId } = platform.bootstrap;
  return (
    await platform.api("GET", `/v2/projects/${projectId}/apps/${projectId}-loud/runs/${runId}`)
  ).body?.item;
}

async function saysWhy(platform: PlatformProcess, runId: string, reason: RegExp): Promise<void> {
  await until("the run has its reason", async () =>
    reason.test(String((await run(platform, runId))?.reason)),
  );
  await until("its lines say it too", async () => {
    const lines = await linesOf(platform, runId);
    return lines.includes("LastWords: it was too much") && lines.some((line) => reason.test(line));
  });
}

test("a crash takes down only the calls that it had, and they have its reason and its last lines", async (t) => {
  const git = await startGitServer(t);
  await git.createRepo("acme", "loud", { "server.py": app });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const built = await deploy(platform, {
    name: "loud",
    gitRepo: "acme/loud",
    pythonVersion: "3.11",
    runtime: "custom",
    port: 8000,
    entrypoint: ["python", "server.py"],
    cooldownPeriodSeconds: 600,
    maxReplicaCount: 1,
    replicaConcurrency: 10,
  });
  assert.equal(built.status, "success", built.log);
  const reason = /The app ended with exit code 3/;

  await t.test(
    "the calls after it wait for the next replica, however much there is to be stored",
    async () => {
      const crashed = await platform.call("loud", "crash");
      assert.equal(crashed.status, 502);
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => platform.call("loud", "run")),
      );
      for (const answer of answers) assert.equal(answer.status, 200, await answer.text());
      await saysWhy(platform, crashed.headers.get("x-request-id") ?? "", reason);
      const { projectId } = platform.bootstrap;
      const path = `/v2/projects/${projectId}/apps/${projectId}-loud/logs?search=dropped`;
      const { body } = await platform.api("GET", path);
      assert.match(
        JSON.stringify(body),
        /\[slipway\] \d+ lines were dropped here: the app wrote faster/,
      );
    },
  );

  await t.test(
    "each of several runs that it took down has the lines, and no other run has them",
    async () => {
      const good = await platform.call("loud", "run");
      const waiting = platform.call("loud", "wait");
      await until("it waits", async () => {
        const { projectId } = platform.bootstrap;
        const { body } = await platform.api(
          "GET",
          `/v2/projects/${projectId}/apps/${projectId}-loud/logs?search=waits`,
        );
        return (body.logs as unknown[]).length > 0;
      });
      const crashed = await platform.call("loud", "exit");
      for (const { status, headers } of [crashed, await waiting]) {
        assert.equal(status, 502);
        await saysWhy(platform, headers.get("x-request-id") ?? "", reason);
      }
      assert.deepEqual(await linesOf(platform, good.headers.get("x-request-id") ?? ""), []);
    },
  );

  await t.test("an async run too", async () => {
    await until("the app is back", async () => (await platform.call("loud", "run")).status === 200);
    const accepted = await platform.call("loud", "exit?async=true");
    const { run_id: runId } = (await accepted.json()) as { run_id: string };
    await saysWhy(platform, runId, /ended.*The app ended with exit code 3/);
    const { status } = await run(platform, runId);
    assert.equal(status, "failure");
  });
});
