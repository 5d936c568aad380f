// Plain calls are read by a reader of our own, all others by node's HTTP server. Whatever ours
// takes for a call must be exactly one call to node's too, with the same method, target, fields and
// body: else a request could be two things at once, depending on how its bytes happened to arrive.
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { duplexPair } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import { unfitness } from "#proxy/malformed.ts";
import { PlainReader, type PlainRequest } from "#proxy/plain-request.ts";
import { RequestFields } from "#proxy/request-fields.ts";
import { until } from "./support/until.ts";

/**
 * What node's server makes of the bytes, in the words of ours; a text says what is wrong with them.
 */
type Reading = { method: string; url: string; fields: RequestFields; body: string } | string;

class NodeReader {
  readonly #server: Server;
  #readings: Reading[] = [];
  #open = 0;

  constructor() {
    this.#server = createServer({
      insecureHTTPParser: false,
      maxHeaderSize: 32_768,
      requestTimeout: 0,
    });
    this.#server.on(
      "request",
      (request: IncomingMessage, response: ServerResponse) => void this.#take(request, response),
    );
    this.#server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
      this.#readings.push(`refused: ${error.code}`);
      socket.destroy();
    });
  }

  /** All requests that the bytes hold, as node reads them. */
  async read(bytes: Buffer): Promise<Reading[]> {
    this.#readings = [];
    const [client, socket] = duplexPair();
    client.on("error", () => undefined);
    client.resume();
    this.#server.emit("connection", socket);
    client.write(bytes);
    const isClosed = new Promise<void>((resolve) => socket.on("close", () => resolve()));
    client.end();
    await isClosed;
    await until("all requests are read", () => this.#open === 0);
    return this.#readings;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#open++;
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString("latin1")));
    request.on("end", () => {
      const unfit = unfitness(request);
      if (unfit !== null) this.#readings.push(`refused: ${unfit.status}`);
      const { method = "", url = "", rawHeaders } = request;
      this.#readings.push({ method, url, fields: new RequestFields(rawHeaders), body });
      response.end();
    });
    request.on("error", () => undefined);
    request.on("close", () => this.#open--);
  }
}

const path = "/v4/p-1/hello/run";
const whole = [
  `GET ${path} HTTP/1.1\r\nHost: a.test\r\n\r\n`,
  `POST ${path}?a=b HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer x\r\nContent-Length: 4\r\n\r\nbody`,
  `PUT ${path} HTTP/1.1\r\nhost:a.test\r\nContent-Length:0\r\nX-A: \t b \r\nX-A:\xff\r\n\r\n`,
  `DELETE ${path}/%20?x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: a=b; c="d"\r\nKeep-Alive: 5\r\n\r\n`,
];
const pieces = [
  "\r",
  "\n",
  "\r\n",
  "\r\n\r\n",
  " ",
  "\t",
  "\0",
  "\x0b",
  "\x7f",
  "\x80",
  "\xa0",
  "\xff",
  ":",
  ",",
  ";",
  "#",
  '"',
  "\\",
  "_",
  "<",
  ">",
  "{",
  "}",
  "|",
  "^",
  "`",
  "[",
  "%",
  "+",
  "~",
  "Content-Length: 4\r\n",
  "Content-Length: 3\r\n",
  "content-length : 4\r\n",
  "Content-Length: +4\r\n",
  "Content_Length: 1\r\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding: x\r\n",
  "Transfer-Encoding: chunked;x\r\n",
  "Transfer-Encoding:\r\n",
  "transfer-encoding\t: chunked\r\n",
  "Host: b\r\n",
  "Host\r\n",
  "Connection: close, x-a\r\n",
  "Connection:\r\n",
  "Connection: close\r\n",
  "Cookie: slipway_session=x\r\n",
  "Upgrade: h2c\r\n",
  "Expect: x\r\n",
  "Trailer: x\r\n",
  " HTTP/1.0",
  " HTTP/1.1",
  " HTTP/2.0",
  " HTTP/0.9",
  "GET ",
  "get ",
  "FOO ",
  "CONNECT ",
  "http://b/",
  "0\r\n\r\n",
  "5\r\nhello\r\n0\r\n\r\n",
  `GET ${path} HTTP/1.1\r\nHost: b\r\n\r\n`,
  "HTTP/1.1 200 OK\r\n\r\n",
  "Ä",
  "é",
  "x",
  "1",
  "4",
];

type Edit = { readonly at: number; readonly cut: number; readonly piece: string };

/** Places are mostly where lines begin and end, where it matters. */
function edited(text: string, edits: readonly Edit[]): string {
  let result = text;
  for (const { at, cut, piece } of edits) {
    const ends = [...result.matchAll(/\r\n|:| /g)].flatMap(({ index, 0: { length } }) => [
      index,
      index + length,
    ]);
    const place =
      at < 0.8
        ? (ends[Math.floor((at / 0.8) * ends.length)] ?? 0)
        : Math.floor((at - 0.8) * 5 * result.length);
    result = result.slice(0, place) + piece + result.slice(place + cut);
  }
  return result;
}

const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  cut: fc.constantFrom(0, 0, 0, 1, 2, 4),
  piece: fc.constantFrom("", ...pieces),
});
const requests = fc
  .tuple(fc.constantFrom(...whole), fc.array(edit, { minLength: 0, maxLength: 3 }))
  .map(([text, edits]) => edited(text, edits));

function describe({ method, url, fields, body }: PlainRequest | Exclude<Reading, string>): unknown {
  const { passed, cookieLines, authorization, host, contentLength, isChunked, refused, closes } =
    fields;
  // Node takes the blanks around values off, and ours passes them on as they are.
  const lines = passed.replaceAll(/:[ \t]*/g, ": ").replaceAll(/[ \t]+\r\n/g, "\r\n");
  return {
    method,
    url,
    lines,
    cookieLines,
    authorization,
    host,
    contentLength,
    isChunked,
    refused,
    closes,
    body,
  };
}

test("whatever is read as a plain call is exactly one call to node's server too, and the same", async () => {
  const node = new NodeReader();
  let plainCount = 0;
  let otherCount = 0;
  await fc.assert(
    fc.asyncProperty(requests, async (text) => {
      const bytes = Buffer.from(text, "latin1");
      const plain = new PlainReader().read(bytes);
      if (plain === null || plain === "unfinished") {
        otherCount++;
        return;
      }
      plainCount++;
      const readings = await node.read(bytes);
      assert.deepEqual(
        readings.map((reading) => (typeof reading === "string" ? reading : describe(reading))),
        [describe(plain)],
      );
    }),
    { numRuns: 4_000 },
  );
  assert.ok(
    plainCount > 300 && otherCount > 300,
    `the mixture says little: ${plainCount} plain, ${otherCount} others`,
  );
});
