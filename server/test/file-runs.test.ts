// Files that run once, through the requests that the published client's command sends, with a whole platform: what the file prints and
// answers, how a run ends whose file or build fails, and what a restart between build and run changes. Hostile forms are refused.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { startManagementApi, type Json } from "./support/management-api.ts";
import { packageIndexAnswers } from "./support/package-index.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { PublishedClient, send, type Answered } from "./support/published-client.ts";
import { rawTar, tarOf, type TarEntry } from "./support/raw-tar.ts";
import { until } from "./support/until.ts";
import { zipOf } from "./support/raw-zip.ts";

type Sent = {
  readonly name: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly tar: Buffer;
  readonly data?: string;
};
type Place = { readonly baseUrl: string; readonly projectId: string; readonly token: string };

/** As the client prints its numbers, and with the parameters that it leaves empty. */
const usual = { region: "", computeType: "CPU", gpuCount: "0.0", cpu: "1.0", memoryGb: "1.0" };

/** The form in the order of the client. */
async function sendFile({ baseUrl, projectId, token }: Place, { name, query, tar, data }: Sent): Promise<Answered> {
  const boundary = "b".repeat(60);
  const part = (head: string, content: Buffer): Buffer[] => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${head}\r\n\r\n`),
    content,
    Buffer.from("\r\n"),
  ];
  const bytes = Buffer.concat([
    ...part('name="projectId"', Buffer.from(projectId)),
    ...(data === undefined
      ? []
      : part('name="data"; filename="data.json"\r\nContent-Type: application/json', Buffer.from(data))),
    ...part(`name="file"; filename="${name}.tar"\r\nContent-Type: application/x-tar`, tar),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  const asked = new URLSearchParams({ ...usual, appName: `${projectId}-${name}`, ...query });
  const path = `/v3/projects/${projectId}/apps/${projectId}-${name}/run?${asked.toString()}`;
  const headers = { authorization: `Bearer ${token}`, "content-type": `multipart/form-data; boundary=${boundary}` };
  return await send("POST", `${baseUrl}${path}`, { bytes, headers });
}

function placeOf(platform: PlatformProcess): Place {
  const { baseUrl, projectId, serviceAccountToken: token } = platform.bootstrap;
  return { baseUrl, projectId, token };
}

/** The client's command: it polls until the status is one of two words, and reads the lines of the run. */
async function ended(place: Place, name: string, runId: string): Promise<{ run: Json; lines: string[] }> {
  const client = new PublishedClient(place);
  const app = `/v2/projects/${place.projectId}/apps/${place.projectId}-${name}`;
  const run = await until(
    "the run ends",
    async () => {
      const { body } = await client.ask("GET", `${app}/runs/${runId}`);
      return ["success", "failed"].includes(body.item.status) ? body.item : null;
    },
    { deadlineMs: 240_000 },
  );
  const { body, status } = await client.ask("GET", `${app}/logs?runId=${runId}&direction=forward&pageSize=100`);
  return { run, lines: status === 204 ? [] : body.logs.map((line: Json) => line.logLine) };
}

async function runFile(platform: PlatformProcess, sent: Sent) {
  const place = placeOf(platform);
  const { status, body } = await sendFile(place, sent);
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(Object.keys(body), ["runId"]);
  return { runId: body.runId as string, ...(await ended(place, sent.name, body.runId)) };
}

const greet = `from words import hello

def greet(name, times: int = 1, run_id=""):
    print(hello(name) * times, flush=True)
    return {"said": times, "has_id": len(run_id)}

def fail(**_):
    raise ValueError("it is broken")
`;
const files = { "greet.py": greet, "words.py": "def hello(name):\n    return 'Hello ' + name\n" };

describe("a file that runs once", () => {
  test("is run as the published client asks, each time with its own code", async (t) => {
    const platform = await startPlatformOnTestServer(t);
    const place = placeOf(platform);
    const client = new PublishedClient(place);
    const v3 = `/v3/projects/${place.projectId}/apps/${place.projectId}-greeter`;

    await t.test("a function gets the fields of the data, and its lines are those of the run", async () => {
      const made = await client.ask("POST", `${v3}/create-run-app?region=`);
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const wanted = { dependencies: { pip: {}, conda: {}, apt: {} }, preBuildCommands: [], shellCommands: [] };
      const { body: image } = await client.ask("POST", `${v3}/base-image?region=`, { body: wanted });
      assert.equal(image.status, "ready");
      const query = { filename: "greet.py", functionName: "greet", imageDigest: image.digest };
      const { run, lines, runId } = await runFile(platform, {
        ...{ name: "greeter", query, tar: tarOf(files), data: '{"name":"Ada","times":2}' },
      });
      assert.deepEqual([run.status, run.statusCode], ["success", 200], JSON.stringify(run));
      assert.deepEqual(lines, ["Hello AdaHello Ada"]);
      const result = await client.ask("GET", `/v2/projects/${place.projectId}/apps/greeter/runs/${runId}/result`);
      assert.deepEqual(result.body.result, { said: 2, has_id: 36 });
    });
    await t.test("a script needs no function, and other code takes its place at once", async () => {
      const script =
        'import sys\nif __name__ == "__main__":\n    print("as a script", len(sys.argv), flush=True)\n    sys.exit(0)\n';
      const query = { filename: "main.py" };
      const { run, lines } = await runFile(platform, { name: "greeter", query, tar: tarOf({ "main.py": script }) });
      assert.deepEqual([run.status, lines], ["success", ["as a script 1"]], JSON.stringify(run));
    });
    await t.test("a function that fails ends the run as failed, with the traceback in its lines", async () => {
      const query = { filename: "greet.py", functionName: "fail" };
      const { run, lines } = await runFile(platform, { name: "greeter", query, tar: tarOf(files), data: "{}" });
      assert.deepEqual([run.status, run.statusCode], ["failed", 500]);
      assert.match(run.reason, /ValueError: it is broken/);
      assert.match(lines.join("\n"), /ValueError: it is broken/);
    });
    await t.test("a file that is no Python ends the run as failed", async () => {
      const query = { filename: "main.py", functionName: "run" };
      const { run, lines } = await runFile(platform, {
        name: "greeter",
        query,
        tar: tarOf({ "main.py": "def run(:\n" }),
      });
      assert.equal(run.status, "failed");
      assert.match(lines.join("\n"), /SyntaxError/);
    });
    await t.test("a build that fails ends the run as failed, with the build's reason", async () => {
      const wanted = { shellCommands: [Buffer.from("echo no such thing >&2; exit 3").toString("base64")] };
      const { body: image } = await client.ask("POST", `${v3}/base-image?region=`, { body: wanted });
      const query = { filename: "greet.py", functionName: "greet", imageDigest: image.digest };
      const { run } = await runFile(platform, { name: "greeter", query, tar: tarOf(files), data: '{"name":"x"}' });
      assert.deepEqual([run.status, run.attempts], ["failed", 0]);
      assert.match(run.reason, /^The build of its files ended as build_failure\. .*exit 3|code 3/);
    });
    await t.test("packages are installed", { skip: await packageIndexAnswers() }, async () => {
      const wanted = { dependencies: { pip: { "python-slugify": "latest" } } };
      const { body: image } = await client.ask("POST", `${v3}/base-image?region=`, { body: wanted });
      const script = 'from slugify import slugify\nprint(slugify("Größe & Co."), flush=True)\n';
      const query = { filename: "./slug.py", imageDigest: image.digest };
      const { run, lines } = await runFile(platform, { name: "slugs", query, tar: tarOf({ "./slug.py": script }) });
      assert.deepEqual([run.status, lines], ["success", ["grosse-co"]], JSON.stringify(run));
    });
    assert.deepEqual(await readdir(join(platform.dataDir, "uploads/staging")), []);
  });

  test("outlives its platform between the acceptance and the end of its build, and is one at a time", async (t) => {
    const platform = await startPlatformOnTestServer(t);
    const wanted = { shellCommands: [Buffer.from("sleep 3").toString("base64")] };
    const before = placeOf(platform);
    const path = `/v3/projects/${before.projectId}/apps/lasting/base-image`;
    const { body: image } = await new PublishedClient(before).ask("POST", path, { body: wanted });
    const query = { filename: "greet.py", functionName: "greet", imageDigest: image.digest };
    const sent = { name: "lasting", query, tar: tarOf(files), data: '{"name":"Grace"}' };
    const { status, body } = await sendFile(before, sent);
    assert.equal(status, 200, JSON.stringify(body));
    const second = await sendFile(before, sent);
    assert.equal(second.status, 409);
    assert.match(second.body.message, /^Run [0-9a-f-]{36} of another file has not ended yet: wait/);
    await platform.end("SIGKILL");
    await platform.restart();
    const { run, lines } = await ended(placeOf(platform), "lasting", body.runId);
    assert.deepEqual([run.status, lines], ["success", ["Hello Grace"]], JSON.stringify(run));
  });
});
