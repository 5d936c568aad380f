// What callers of real apps meet on a real platform: a crash, an answer that takes too long, a full
// line, a client that goes away, and bodies that are larger than what the platform may hold.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { request as sendRequest, type IncomingMessage } from "node:http";
import { test, type TestContext } from "node:test";
import { gatedApp, startCallGate, type CallGate } from "./support/call-gate.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const cortexMain = `
import asyncio, os

async def wait(seconds: float = 1):
    print("waiting", flush=True)
    await asyncio.sleep(seconds)
    return "waited"

def crash():
    os._exit(7)

def run():
    return os.getpid()
`;

/** Counts what it gets, gives as much as it is asked for, and says when its caller has gone. */
const serverMain = `
import asyncio, os

async def serve(reader, writer):
    head = (await reader.readuntil(b"\\r\\n\\r\\n")).decode("latin1").lower()
    path = head.split(" ")[1]
    if path == "/hang":
        print("hanging", flush=True)
        print("data" if await reader.read(1) else "the caller has gone", flush=True)
    elif path.startswith("/give/"):
        left = int(path.split("/")[2])
        writer.write(b"HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: %d\\r\\n\\r\\n" % left)
        while left:
            block = min(left, 65536)
            writer.write(b"z" * block)
            await writer.drain()
            left -= block
    else:
        left = taken = int(head.split("content-length: ")[1].split("\\r")[0]) if "content-length: " in head else 0
        while left:
            left -= len(await reader.read(min(left, 65536)))
        body = str(taken).encode()
        writer.write(b"HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
        await writer.drain()
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", int(os.environ["PORT"]))
    await server.serve_forever()

asyncio.run(main())
`;

const serverToml = `
[cerebrium.runtime.custom]
entrypoint = ["python", "server.py"]
`;

const lineLength = 3;
const largeBytes = 200_000_000;
const graceSeconds = 16;

const appPath = (platform: PlatformProcess, app: string): string =>
  `/v2/projects/${platform.bootstrap.projectId}/apps/${app}`;

async function linesOf(platform: PlatformProcess, app: string): Promise<string[]> {
  const { body } = await platform.api("GET", `${appPath(platform, app)}/logs?pageSize=1000`);
  return body.logs.map(({ logLine }: { logLine: string }) => logLine);
}

async function messageOf(response: Response): Promise<string> {
  return ((await response.json()) as { message: string }).message;
}

async function crashIsReplaced(platform: PlatformProcess): Promise<void> {
  const before = (await (await platform.call("trouble", "run", {})).json()) as Json;
  assert.equal(typeof before.result, "number");
  const crashed = await platform.call("trouble", "crash", {});
  assert.equal(crashed.status, 502);
  assert.match(await messageOf(crashed), /replica/);
  await until(
    "calls get a new replica",
    async () => (await platform.call("trouble", "run", {})).status === 200,
  );
  await until("the app's log says why the replica is gone", async () =>
    (await linesOf(platform, "trouble")).some((line) => /^\[slipway\] .* exit code 7/.test(line)),
  );
}

/** The function would answer after a minute: that would be its answer. */
async function lateAnswer(platform: PlatformProcess): Promise<void> {
  const response = await platform.call("trouble", "wait", { seconds: 60 });
  assert.equal(response.status, 504);
  assert.match(await messageOf(response), /responseGracePeriodSeconds/);
}

async function fullLine(platform: PlatformProcess, gate: CallGate): Promise<void> {
  const answers: { status: number; retry: string | null; text: string }[] = [];
  const calls = Array.from({ length: lineLength + 3 }, async () => {
    const response = await platform.call("narrow", "run", { gate: gate.urls });
    answers.push({
      status: response.status,
      retry: response.headers.get("retry-after"),
      text: await response.text(),
    });
  });
  await until("those beyond the line are answered", () => answers.length >= 2);
  await until("all are answered", () => (gate.open(), answers.length === calls.length), {
    deadlineMs: 60_000,
  });
  await Promise.all(calls);
  const refused = answers.filter(({ status }) => status === 503);
  assert.ok(refused.length > 0 && refused.length <= 3, JSON.stringify(answers));
  for (const { retry, text } of refused) {
    assert.ok(Number(retry) >= 1);
    assert.match(JSON.parse(text).message, new RegExp(`${lineLength} calls of this app`));
  }
  assert.ok(answers.every(({ status }) => status === 200 || status === 503));
}

async function goneClient(platform: PlatformProcess): Promise<void> {
  const leaving = new AbortController();
  const call = platform.call("large", "hang", undefined, { signal: leaving.signal });
  await until("the app works on it", async () =>
    (await linesOf(platform, "large")).includes("hanging"),
  );
  leaving.abort();
  await assert.rejects(call, { name: "AbortError" });
  await until("the app learns of it", async () =>
    (await linesOf(platform, "large")).includes("the caller has gone"),
  );
}

/** Resident memory of the platform's process, in bytes. */
async function memory(platform: PlatformProcess): Promise<number> {
  const status = await readFile(`/proc/${platform.pid()}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** Sends `bytes` zeros, waiting for the socket as one should. */
async function sendZeros(platform: PlatformProcess, bytes: number): Promise<string> {
  const { baseUrl, projectId, inferenceToken } = platform.bootstrap;
  const headers = { authorization: `Bearer ${inferenceToken}`, "content-length": String(bytes) };
  const request = sendRequest(`${baseUrl}/v4/${projectId}/large/take`, { method: "POST", headers });
  const answered = once(request, "response") as Promise<[IncomingMessage]>;
  const block = Buffer.alloc(1_000_000);
  for (let left = bytes; left > 0; left -= block.length) {
    if (!request.write(block)) await once(request, "drain");
  }
  request.end();
  const [response] = await answered;
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  return text;
}

async function largeBodies(platform: PlatformProcess): Promise<void> {
  const { inferenceToken } = platform.bootstrap;
  const before = await memory(platform);
  assert.equal(await sendZeros(platform, largeBytes), String(largeBytes));
  const given = await platform.call("large", `give/${largeBytes}`, undefined, {
    method: "GET",
    headers: { authorization: `Bearer ${inferenceToken}` },
  });
  let got = 0;
  for await (const piece of given.body ?? []) got += piece.length;
  assert.equal(got, largeBytes);
  const grown = (await memory(platform)) - before;
  assert.ok(grown < largeBytes / 2, `the platform's memory grew by ${Math.round(grown / 1e6)} MB`);
}

test("callers are told what happened, and misfortune of one call stays its own", async (t: TestContext) => {
  const server = await startGitServer(t);
  await server.createRepo("team", "app", {
    "cortex/main.py": cortexMain,
    "server/server.py": serverMain,
    "server/slipway.toml": serverToml,
    "gated/main.py": gatedApp,
  });
  const gate = await startCallGate(t);
  const settings = {
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_LINE_LENGTH: String(lineLength),
    ...gate.settings,
  };
  const platform = await startPlatformOnTestServer(t, settings);
  const cortex = { gitRepo: "team/app", gitPath: "cortex", cooldownPeriodSeconds: 60 };
  const apps = await Promise.all([
    deploy(platform, { ...cortex, name: "trouble", responseGracePeriodSeconds: graceSeconds }),
    deploy(platform, {
      ...cortex,
      name: "narrow",
      gitPath: "gated",
      replicaConcurrency: 1,
      maxReplicaCount: 1,
    }),
    deploy(platform, {
      name: "large",
      gitRepo: "team/app",
      gitPath: "server",
      cooldownPeriodSeconds: 60,
    }),
  ]);
  for (const { status, log } of apps) assert.equal(status, "success", log);
  await t.test(
    "a replica that crashes fails its call only, is replaced, and the app's log says why",
    () => crashIsReplaced(platform),
  );
  const late = lateAnswer(platform);
  await t.test(
    "calls beyond the line's length are refused with what to do; the others are answered",
    () => fullLine(platform, gate),
  );
  await t.test("when a client goes away, its replica learns of it", () => goneClient(platform));
  await t.test("bodies of 200 MB pass both ways without being held", () => largeBodies(platform));
  await t.test("a call without an answer within responseGracePeriodSeconds is a 504", () => late);
});
