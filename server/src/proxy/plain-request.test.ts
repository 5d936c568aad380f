// What is a plain call, and what is left to node's HTTP server because it is anything else.
import assert from "node:assert/strict";
import { test } from "node:test";
import { PlainReader } from "./plain-request.ts";

function read(text: string, reader = new PlainReader()) {
  return reader.read(Buffer.from(text, "latin1"));
}

const path = "/v4/p-1/hello/run";
const fields = "Host: a.test\r\nAuthorization: Bearer x\r\n";

test("a whole request for an app is a plain call", () => {
  const call = read(
    `POST ${path}?a=%20 HTTP/1.1\r\n${fields}Content-Length: 4\r\nX-A: b\r\n\r\nbod\xff`,
  );
  assert.ok(call !== null && call !== "unfinished");
  assert.deepEqual([call.method, call.url, call.body], ["POST", `${path}?a=%20`, "bod\xff"]);
  assert.deepEqual(
    [call.fields.passed, call.fields.authorization],
    ["Host: a.test\r\nX-A: b\r\n", "Bearer x"],
  );
  for (const method of ["GET", "HEAD", "DELETE", "PROPFIND"]) {
    const plain = read(`${method} ${path} HTTP/1.1\r\n${fields}Connection: keep-alive\r\n\r\n`);
    assert.ok(
      plain !== null && plain !== "unfinished" && plain.method === method && plain.body === "",
    );
  }
});

test("a call whose small body is still coming is not finished, a large one is not plain", () => {
  const head = (bytes: number): string =>
    `POST ${path} HTTP/1.1\r\n${fields}Content-Length: ${bytes}\r\n\r\n`;
  assert.equal(read(head(4)), "unfinished");
  assert.equal(read(`${head(4)}bod`), "unfinished");
  assert.equal(read(head(70_000)), null);
  assert.equal(read(head(70_000) + "x".repeat(70_000)), null);
});

test("everything else is left to node's server", () => {
  const line = `GET ${path} HTTP/1.1\r\n`;
  const others: Record<string, string> = {
    "another path": `GET /v2/projects HTTP/1.1\r\n${fields}\r\n`,
    "a path with slashes before": `GET /${path} HTTP/1.1\r\n${fields}\r\n`,
    "an absolute target": `GET http://a.test${path} HTTP/1.1\r\n${fields}\r\n`,
    "a blank in the target": `GET ${path} x HTTP/1.1\r\n${fields}\r\n`,
    "a byte above ASCII in the target": `GET ${path}\xa0 HTTP/1.1\r\n${fields}\r\n`,
    "a control character in the target": `GET ${path}\x01 HTTP/1.1\r\n${fields}\r\n`,
    "two blanks before the target": `GET  ${path} HTTP/1.1\r\n${fields}\r\n`,
    "a tunnel": `CONNECT ${path} HTTP/1.1\r\n${fields}\r\n`,
    "HTTP/1.0": `GET ${path} HTTP/1.0\r\n${fields}\r\n`,
    "no host": `${line}X-A: b\r\n\r\n`,
    "two hosts": `${line}Host: a\r\nHost: b\r\n\r\n`,
    "two lengths": `${line}${fields}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`,
    "a length that is no number": `${line}${fields}Content-Length: 0x0\r\n\r\n`,
    "a length and chunks": `${line}${fields}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    chunks: `${line}${fields}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "a coding in another case": `${line}${fields}TRANSFER-ENCODING: x\r\n\r\n`,
    "an expectation": `${line}${fields}Expect: 100-continue\r\n\r\n`,
    "an upgrade": `${line}${fields}Upgrade: websocket\r\n\r\n`,
    "a named field": `${line}${fields}Connection: x-a\r\nX-A: b\r\n\r\n`,
    "a wish for trailers": `${line}${fields}TE: trailers\r\n\r\n`,
    "a second call behind it": `${line}${fields}\r\n${line}${fields}\r\n`,
    "bytes behind it": `${line}${fields}\r\n\r\n`,
    "half a head": `${line}${fields}`,
    "a head in LF": `${line}${fields}\r\n`.replaceAll("\r", ""),
    "a bare LF": `${line}${fields}X-A: b\nTransfer-Encoding: chunked\r\n\r\n`,
    "a bare CR": `${line}${fields}X-A: b\rc\r\n\r\n`,
    "a folded field": `${line}${fields}X-A: b\r\n c\r\n\r\n`,
    "a blank before a colon": `${line}${fields}Content-Length : 0\r\n\r\n`,
    "a field without a name": `${line}${fields}: b\r\n\r\n`,
    "a NUL": `${line}${fields}X-A: \0\r\n\r\n`,
    "an empty line before it": `\r\n${line}${fields}\r\n`,
    "a long head": `${line}${fields}X-A: ${"b".repeat(20_000)}\r\n\r\n`,
    "another protocol": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  };
  for (const [what, text] of Object.entries(others)) assert.equal(read(text), null, what);
});

test("the same field lines stand for the same fields, others for others", () => {
  const reader = new PlainReader();
  const ask = (lines: string) => {
    const call = read(`GET ${path} HTTP/1.1\r\n${lines}\r\n`, reader);
    return call === null || call === "unfinished" ? null : call.fields;
  };
  const first = ask(fields);
  assert.equal(ask(fields), first);
  assert.equal(ask(fields.replace("Bearer x", "Bearer y"))?.authorization, "Bearer y");
  assert.equal(ask(`${fields}Expect: 100-continue\r\n`), null);
  assert.equal(ask(fields)?.authorization, "Bearer x");
});
