// What `slipway call` sends and how it prints what comes back, against a server in the place of an
// app. The guide's test calls real apps.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { writeSignIn } from "@slipway/cli/src/sign-ins.ts";
import { commandLine, startCommand } from "./support/command-line.ts";
import { temporaryFolder } from "./support/folder.ts";
import { until } from "./support/until.ts";

const projectId = "p-00000001";
/** A token of the project, as its claims say; nobody checks it here. */
const token = `x.${Buffer.from(JSON.stringify({ projectId })).toString("base64url")}.x`;

async function serve(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) text += String(part);
  return text;
}

test("a call has the fields, the method, the path and the token that were given", async (t) => {
  const seen: unknown[] = [];
  const baseUrl = await serve(t, (request, response) => {
    void bodyOf(request).then((body) => {
      const { method, url, headers } = request;
      seen.push([
        method,
        url,
        headers.authorization,
        headers["content-type"],
        headers.accept,
        body,
      ]);
      response
        .writeHead(200, { "content-type": "application/json", "x-request-id": "run-1" })
        .end('"done"');
    });
  });
  const slipway = commandLine(t, { baseUrl, token, projectId });
  const { code, stdout, stderr } = await slipway([
    "call",
    "p-00000001-hello/run?x=1",
    "n=3",
    "text=a b",
  ]);
  assert.deepEqual([code, stdout], [0, "done\n"]);
  assert.match(stderr, /^Run run-1 took \d+(?:\.\d)? m?s\.\n$/);
  const web = { environment: { SLIPWAY_CALL_TOKEN: "x.y.z" } };
  assert.equal(
    (await slipway(["call", "web", "--method", "get", "--stream", "--json"], web)).stdout,
    '"done"\n',
  );
  const json = "application/json";
  assert.deepEqual(seen, [
    [
      "POST",
      "/v4/p-00000001/hello/run?x=1",
      `Bearer ${token}`,
      json,
      "*/*",
      '{"n":3,"text":"a b"}',
    ],
    ["GET", "/v4/p-00000001/web", "Bearer x.y.z", undefined, "text/event-stream", ""],
  ]);
});

test("what an app compresses without being asked is printed as if it had not", async (t) => {
  const text = Buffer.from(JSON.stringify("wörter ".repeat(100)));
  const coded = new Map([
    ["gzip", gzipSync(text)],
    ["deflate", deflateSync(text)],
    ["br", brotliCompressSync(text)],
    ["zstd", zstdCompressSync(text)],
  ]);
  const baseUrl = await serve(t, (request, response) => {
    const coding = request.url?.split("/").at(-1) ?? "";
    const body = coded.get(coding) ?? text.subarray(0, 10);
    const headers = {
      "content-type": "application/json",
      "content-encoding": coding === "broken" ? "gzip" : coding,
    };
    response.writeHead(200, headers).end(body);
  });
  const slipway = commandLine(t, { baseUrl, token, projectId });
  for (const coding of coded.keys()) {
    assert.equal(
      (await slipway(["call", `web/${coding}`])).stdout,
      `${"wörter ".repeat(100)}\n`,
      coding,
    );
  }
  const { code, stderr } = await slipway(["call", "web/broken"]);
  assert.deepEqual([code, stderr], [1, "The answer broke off (Z_DATA_ERROR).\n"]);
});

test("text and events are printed as they come; bytes go to programs unchanged and not to a terminal", async (t) => {
  let finish = (): void => undefined;
  const baseUrl = await serve(t, (request, response) => {
    if (request.url?.endsWith("/bytes")) {
      response.writeHead(200, { "content-type": "image/png" }).end(Buffer.from([0x89, 0x50, 0x1b]));
      return;
    }
    if (request.url?.endsWith("/cut-off")) {
      response.writeHead(200, { "content-type": "application/json" }).end('{"one":\x1b[2J');
      return;
    }
    const type = request.url?.endsWith("/events") ? "text/event-stream" : "text/plain";
    response
      .writeHead(200, { "content-type": type })
      .write(type === "text/plain" ? "one\x1b[2J" : "data: one\r\n\r\nda");
    finish = () => response.end(type === "text/plain" ? "\ntwo" : "ta: two\r\ndata: three\r\n\r\n");
  });
  const platform = { baseUrl, token, projectId };
  for (const [path, first, whole] of [
    ["text", "one\x1b[2J", "one\x1b[2J\ntwo"],
    ["events", "one\n", "one\ntwo\nthree\n"],
  ] as const) {
    const command = startCommand(t, platform, ["call", `hello/${path}`]);
    await until("the first part came", () => command.stdout() === first);
    finish();
    assert.equal((await command.ended).code, 0, command.stderr());
    assert.equal(command.stdout(), whole);
  }
  const slipway = commandLine(t, platform);
  const bytes = await slipway(["call", "hello/bytes"], { columns: 80 });
  assert.deepEqual([bytes.code, bytes.stdout], [1, ""]);
  assert.equal(
    (await slipway(["call", "hello/cut-off"], { columns: 80 })).stdout,
    '{"one":[2J\n',
    "it is no JSON",
  );
  assert.match(bytes.stderr, /^The result is 3 B of image\/png\. To keep it, add: > file/);
});

test("what an app refuses goes to standard error, with a code that is not 0; so does an app that is gone", async (t) => {
  const baseUrl = await serve(t, (request, response) => {
    if (request.url?.endsWith("/gone")) return void request.socket.destroy();
    if (request.url?.endsWith("/broken")) {
      response.writeHead(200, { "content-type": "text/plain" }).write("one");
      setImmediate(() => request.socket.destroy());
      return;
    }
    const isJson = request.url?.endsWith("/json");
    response
      .writeHead(isJson ? 422 : 500, {})
      .end(isJson ? '{"message":"n is\\u001b odd"}' : "<h1>\x1b[2Joops</h1>");
  });
  const slipway = commandLine(t, { baseUrl, token, projectId });
  for (const [path, stderr] of [
    ["json", "The call was answered with status 422: n is odd\n"],
    ["html", "The call was answered with status 500: <h1>[2Joops</h1>\n"],
    ["gone", `${baseUrl} did not answer the call (ECONNRESET).\n`],
  ] as const) {
    const ended = await slipway(["call", `hello/${path}`]);
    assert.deepEqual([ended.code, ended.stdout, ended.stderr], [1, "", stderr]);
  }
  const texts = "run: the parameter 'name' does not fit: expected a string, got the number 3";
  const strict = await serve(t, (_request, response) => {
    response.writeHead(422).end(JSON.stringify({ message: texts }));
  });
  const number = await commandLine(t, { baseUrl: strict, token, projectId })([
    "call",
    "hello/run",
    "n=1",
    "name=3",
  ]);
  assert.equal(
    number.stderr,
    `The call was answered with status 422: ${texts}\n3 is valid JSON, so it was sent as JSON. To send it as text: 'name="3"'\n`,
  );
  const broken = await slipway(["call", "hello/broken"]);
  assert.deepEqual([broken.code, broken.stderr], [1, "The answer broke off (ECONNRESET).\n"]);
});

test("who is signed in calls with a readable key of the project, or is told to create one", async (t) => {
  const seen: (string | undefined)[] = [];
  let keys = [
    { apiKey: null, state: "active" },
    { apiKey: "old", state: "revoked" },
    { apiKey: "key", state: "active" },
  ];
  const baseUrl = await serve(t, (request, response) => {
    const isList = request.url === `/v2/projects/${projectId}/api-keys`;
    if (!isList) seen.push(request.headers.authorization);
    const isAllowed = isList || request.headers.authorization === "Bearer key";
    response.writeHead(isAllowed ? 200 : 401, { "content-type": "application/json" });
    response.end(isList ? JSON.stringify(keys) : '{"message":"No token."}');
  });
  const home = temporaryFolder(t, "home");
  const signIn = {
    accessToken: token,
    refreshToken: "r",
    email: "ada@example.org",
    project: projectId,
  };
  writeSignIn({ homeFolder: home }, baseUrl, signIn);
  const slipway = commandLine(t, { baseUrl, token: "", projectId });
  assert.equal((await slipway(["call", "hello"], { home })).code, 0);
  keys = keys.slice(0, 2);
  const { code, stderr } = await slipway(["call", "hello"], { home });
  assert.equal(code, 3);
  assert.match(stderr, /status 401: No token\.\n.*slipway keys create <name> --readable/);
  assert.deepEqual(seen, ["Bearer key", undefined]);
});
