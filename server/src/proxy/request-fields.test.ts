// Which fields of a request reach the replica, and what the proxy reads from them.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Origin } from "#lib/trusted-proxies.ts";
import { fieldKind } from "./fields.ts";
import { addedLines, RequestFields } from "./request-fields.ts";

function read(lines: readonly string[]): RequestFields {
  return new RequestFields(lines.map((line) => `${line}\r\n`).join(""));
}

test("names are known in any letter case", () => {
  for (const name of [
    "Transfer-Encoding",
    "transfer-encoding",
    "TRANSFER-ENCODING",
    "tRaNsFeR-eNcOdInG",
  ]) {
    assert.equal(fieldKind(name), "transfer-encoding");
  }
  assert.equal(fieldKind("TE"), "te");
  assert.equal(fieldKind(""), "pass");
  assert.equal(fieldKind("content-lengthy"), "pass");
  assert.equal(fieldKind("x".repeat(10_000)), "pass");
});

test("fields of one connection stay behind, all others pass in their order", () => {
  const fields = read([
    "Host: a.test",
    "Connection: keep-alive, X-Private",
    "Keep-Alive: timeout=5",
    "X-One: 1",
    "Proxy-Authorization: Basic x",
    "TE: trailers",
    "Upgrade: h2c",
    "HTTP2-Settings: x",
    "x-private: 2",
    "Cookie: a=b",
    "cookie: c=d",
    "X-One: 3",
  ]);
  assert.equal(
    fields.passed,
    "Host: a.test\r\nX-One: 1\r\nCookie: a=b\r\ncookie: c=d\r\nX-One: 3\r\n",
  );
  assert.equal(fields.takesTrailers, true);
});

test("fields of one connection stay behind even when no Connection field names them", () => {
  const names = [
    "Keep-Alive",
    "Proxy-Connection",
    "Proxy-Authorization",
    "TE",
    "Upgrade",
    "HTTP2-Settings",
    "keep-alive",
  ];
  assert.equal(read(names.map((name) => `${name}: x`)).passed, "");
  assert.equal(new RequestFields(names.flatMap((name) => [name, "x"])).passed, "");
});

test("a Connection field cannot take out how long the body is or where the call goes", () => {
  const fields = read([
    "Connection: host, content-length, transfer-encoding",
    "Host: a.test",
    "Content-Length: 5",
  ]);
  assert.equal(fields.passed, "Host: a.test\r\n");
  assert.equal(fields.contentLength, 5);
});

test("the platform's token is not handed to the app, the caller's own to an open app is", () => {
  const lines = ["Authorization: Bearer secret", "Host: a.test"];
  assert.equal(read(lines).passed, "Host: a.test\r\n");
  assert.equal(read(lines).authorization, "Bearer secret");
  assert.equal(read(lines).authorizationLines, "Authorization: Bearer secret\r\n");
});

test("fields that node's parser has read are read the same", () => {
  const fields = new RequestFields(["Host", "a.test", "x-one", "1", "Content-Length", "12"]);
  assert.equal(fields.passed, "Host: a.test\r\nx-one: 1\r\n");
  assert.equal(fields.contentLength, 12);
});

test("a client's own X-Request-Id is not passed on", () => {
  assert.equal(read(["X-Request-Id: mine"]).passed, "");
});

test("nobody but the platform can ask a replica to keep an answer", () => {
  for (const name of ["Slipway-Held", "slipway-held", "SLIPWAY-HELD", "Slipway_Held"]) {
    assert.equal(read(["X-One: 1", `${name}: 1`]).passed, "X-One: 1\r\n");
    assert.equal(new RequestFields([name, "1"]).passed, "");
  }
});

test("a transfer coding other than chunked is refused", () => {
  for (const value of ["gzip, chunked", "identity", "chunked, chunked"]) {
    assert.match(read([`Transfer-Encoding: ${value}`]).refused ?? "", /chunked/);
  }
  assert.equal(read(["transfer-encoding: Chunked"]).isChunked, true);
});

const route = { projectId: "p-0123abcd", appName: "web", disableAuth: false };
const rootPath = "/v4/p-0123abcd/web";
const root = `X-Forwarded-Prefix: ${rootPath}\r\n`;

function originOf(peer: string, proxies: number, isEncrypted = false): Origin {
  return { address: proxies === 0 ? peer : "9.9.9.9", peer, proxies, isEncrypted };
}

test("what proxies before say about the client is passed on only when they are trusted", () => {
  const lines = [
    "Host: a.test",
    "X-Forwarded-For: 9.9.9.9",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: b.test",
  ];
  const forged = ["X-Forwarded-Prefix: /evil", "x_forwarded_prefix: /evil"];
  const fields = read([...lines, ...forged, "Forwarded: for=9.9.9.9"]);
  assert.equal(fields.passed, "Host: a.test\r\n");
  assert.equal(
    addedLines(fields, { origin: originOf("10.0.0.1", 0), route, rootPath }),
    `X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\n${root}`,
  );
  assert.equal(
    addedLines(fields, { origin: originOf("10.0.0.1", 1), route, rootPath }),
    `X-Forwarded-For: 9.9.9.9, 10.0.0.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b.test\r\n${root}`,
  );
});

test("what is remembered of the lines holds for one client and one kind of app only", () => {
  const fields = read(["Host: a.test", "Authorization: Basic x"]);
  const context = { origin: originOf("10.0.0.1", 0), route, rootPath };
  const lines = fields.linesFor(context);
  assert.equal(fields.linesFor({ ...context }), lines);
  assert.match(
    fields.linesFor({ ...context, route: { ...route, disableAuth: true } }),
    /^Host: a\.test\r\nAuthorization: Basic x\r\nX-Forwarded-For: 10/,
  );
  assert.match(
    fields.linesFor({ ...context, origin: originOf("10.0.0.2", 0) }),
    /X-Forwarded-For: 10\.0\.0\.2/,
  );
  const other = "/v4/p-0123abcd/other";
  assert.match(
    fields.linesFor({ ...context, rootPath: other }),
    /\r\nX-Forwarded-Prefix: \/v4\/p-0123abcd\/other\r\n$/,
  );
  assert.doesNotMatch(
    fields.linesFor({ ...context, rootPath: "" }),
    /Prefix/,
    "it is at the root of its own host",
  );
  assert.equal(fields.linesFor(context), lines);
});
