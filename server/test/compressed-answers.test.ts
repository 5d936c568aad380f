// An app that compresses, whatever it is asked for, or only when it is asked: results, webhooks of
// async runs and of plain calls can be read, and say in which language and under which name.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { request } from "node:http";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import { startReceiver, type Received, type WebhookReceiver } from "./support/webhook-receiver.ts";

const app = `import gzip, http.server, json, os, zlib

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        accepted = self.headers.get("accept-encoding", "")
        body = json.dumps({"accepted": accepted}).encode()
        coding = None
        if self.path == "/asked" and "gzip" in accepted:
            coding, body = "gzip", gzip.compress(body)
        if self.path == "/always":
            coding, body = "deflate, gzip", gzip.compress(zlib.compress(body))
        if self.path == "/bomb":
            coding, body = "gzip", gzip.compress(b"0" * 40_000_000)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-language", "de")
        self.send_header("content-disposition", 'inline; filename="a.json"')
        if coding is not None:
            self.send_header("content-encoding", coding)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

/** As it comes over the wire: fetch would undo the coding. */
async function raw(url: string, headers: Readonly<Record<string, string>>, method = "GET") {
  return await new Promise<{ headers: Readonly<Record<string, unknown>>; body: Buffer }>(
    (resolve, reject) => {
      request(url, { method, headers }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("end", () =>
          resolve({ headers: response.headers, body: Buffer.concat(parts) }),
        );
      })
        .on("error", reject)
        .end();
    },
  );
}

/** Whether the project's secret has signed what came, as the guide has receivers check it. */
async function isSigned(platform: PlatformProcess, { headers, body }: Received): Promise<boolean> {
  const path = `/v2/projects/${platform.bootstrap.projectId}/webhook-secrets`;
  const [{ secret }] = (await platform.api("GET", path)).body as [{ secret: string }];
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.`;
  const signature = createHmac("sha256", key).update(signed).update(body).digest("base64");
  return headers["webhook-signature"] === `v1,${signature}`;
}

/** How the test calls the app, and what becomes of it. */
function askers(platform: PlatformProcess, receiver: WebhookReceiver) {
  const { apiUrl, baseUrl, projectId, inferenceToken, serviceAccountToken } = platform.bootstrap;
  const hook = `webhookEndpoint=${encodeURIComponent(receiver.url)}`;
  const caller = {
    authorization: `Bearer ${inferenceToken}`,
    "accept-encoding": "gzip, deflate, br",
  };

  const delivered = async (after: number) => {
    await until("the webhook came", () => receiver.received.length > after);
    return receiver.received[after] ?? assert.fail();
  };
  const async = async (path: string, acceptEncoding = "gzip, deflate, br") => {
    const before = receiver.received.length;
    const headers = { ...caller, "accept-encoding": acceptEncoding };
    const { body } = await raw(
      `${apiUrl}/v4/${projectId}/web/${path}?async=true&${hook}`,
      headers,
      "POST",
    );
    const { run_id: runId } = JSON.parse(body.toString()) as { run_id: string };
    const sent = await delivered(before);
    const at = `${baseUrl}/v2/projects/${projectId}/apps/${projectId}-web/runs/${runId}/result`;
    return { sent, kept: await raw(at, { authorization: `Bearer ${serviceAccountToken}` }) };
  };
  const plain = (path: string) =>
    raw(`${apiUrl}/v4/${projectId}/web/${path}?${hook}`, caller, "POST");
  return { delivered, async, plain };
}

test(
  "compressed answers can be read by whoever gets them later",
  { timeout: 300_000 },
  async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("acme", "web", { "server.py": app });
    const receiver = await startReceiver(t);
    const platform = await startPlatformOnTestServer(t, {
      SLIPWAY_GIT_URL: git.urlTemplate,
      SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    });
    const built = await deploy(platform, {
      name: "web",
      gitRepo: "acme/web",
      pythonVersion: "3.11",
      runtime: "custom",
      port: 8000,
      entrypoint: ["python", "server.py"],
      cooldownPeriodSeconds: 600,
    });
    assert.equal(built.status, "success", built.log);
    const { delivered, async, plain } = askers(platform, receiver);

    for (const [path, accepted] of [
      ["asked", "identity"],
      ["always", "identity"],
    ] as const) {
      await t.test(`an async run of an app that compresses (${path})`, async () => {
        const { sent, kept } = await async(path);
        for (const { headers, body } of [sent, kept]) {
          assert.deepEqual(JSON.parse(body.toString()), { accepted });
          assert.equal(headers["content-encoding"], undefined);
          assert.equal(headers["content-type"], "application/json");
          assert.equal(headers["content-language"], "de");
        }
        assert.equal(await isSigned(platform, sent), true, "what is sent is signed");
        assert.equal(sent.headers["content-disposition"], 'inline; filename="a.json"');
        assert.equal(
          kept.headers["content-disposition"],
          'attachment; filename="a.json"',
          "it is never shown in place",
        );
      });
    }

    await t.test("an async run whose caller refuses an answer without a coding", async () => {
      const { sent, kept } = await async("asked", "gzip, identity;q=0");
      for (const { headers, body } of [sent, kept]) {
        assert.equal(headers["content-encoding"], "gzip");
        assert.deepEqual(JSON.parse(gunzipSync(body).toString()), {
          accepted: "gzip, identity;q=0",
        });
      }
    });

    await t.test("an answer that would be too long keeps its coding, and says so", async () => {
      const { sent, kept } = await async("bomb");
      for (const { headers, body } of [sent, kept]) {
        assert.equal(headers["content-encoding"], "gzip");
        assert.equal(gunzipSync(body).length, 40_000_000);
      }
      assert.equal(await isSigned(platform, sent), true);
    });

    await t.test(
      "the caller of a plain call gets the coding that was asked for, the webhook none",
      async () => {
        const before = receiver.received.length;
        const got = await plain("asked");
        assert.equal(got.headers["content-encoding"], "gzip");
        const text = gunzipSync(got.body).toString();
        const sent = await delivered(before);
        assert.deepEqual(
          [sent.headers["content-encoding"], sent.body.toString()],
          [undefined, text],
        );
        assert.equal(sent.headers["content-language"], "de");
        assert.equal(await isSigned(platform, sent), true);
      },
    );
  },
);
