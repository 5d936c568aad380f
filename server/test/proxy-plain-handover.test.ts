// One connection, many calls, in whatever pieces they arrive: some are read by our own reader, with
// the first that is not plain node's server takes over. No call may be lost, carried out twice, or
// get another one's answer.
import assert from "node:assert/strict";
import { duplexPair, type Duplex } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import { bedTokens, helloPath, httpReplica, openProxyBed } from "./support/proxy-bed.ts";

type Ask = {
  readonly method: "GET" | "POST" | "PUT";
  /** The length of the body. */
  readonly bytes: number;
  readonly framing: "length" | "chunked";
  /** A field that makes it no plain call. */
  readonly isOdd: boolean;
};

const asks = fc.array(
  fc.record<Ask>({
    method: fc.constantFrom("GET", "POST", "PUT"),
    bytes: fc.constantFrom(0, 0, 1, 50, 5_000, 70_000),
    framing: fc.constantFrom("length", "length", "length", "chunked"),
    isOdd: fc.constantFrom(false, false, false, true),
  }),
  { minLength: 1, maxLength: 6 },
);
type Cuts = "calls" | "crumbs" | readonly number[];

/**
 * Where the bytes are cut: call by call, bodies in crumbs behind their heads, or anywhere, as parts
 * of the whole.
 */
const cuts: fc.Arbitrary<Cuts> = fc.oneof(
  fc.constantFrom("calls" as const, "crumbs" as const),
  fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 }),
);

function bodyOf(ask: Ask, index: number): string {
  return String(index).repeat(ask.bytes);
}

function textOf(ask: Ask, index: number, isLast: boolean): string {
  const body = bodyOf(ask, index);
  const fields = [`Host: test`, `Authorization: Bearer ${bedTokens.project}`];
  if (ask.isOdd) fields.push("TE: trailers");
  if (isLast) fields.push("Connection: close");
  if (ask.framing === "chunked") fields.push("Transfer-Encoding: chunked");
  else if (body !== "" || ask.method !== "GET") fields.push(`Content-Length: ${body.length}`);
  const chunk = body === "" ? "" : `${body.length.toString(16)}\r\n${body}\r\n`;
  const sent = ask.framing === "chunked" ? `${chunk}0\r\n\r\n` : body;
  return `${ask.method} ${helloPath}/${index} HTTP/1.1\r\n${fields.join("\r\n")}\r\n\r\n${sent}`;
}

function piecesOf(texts: readonly string[], at: Cuts): readonly string[] {
  if (at === "calls") return texts;
  if (at === "crumbs") return texts.flatMap(crumbsOf);
  const whole = texts.join("");
  const places = [
    0,
    ...at.map((part) => Math.floor(part * whole.length)).sort((a, b) => a - b),
    whole.length,
  ];
  return places.slice(1).map((place, index) => whole.slice(places[index], place));
}

function crumbsOf(text: string): readonly string[] {
  const headEnd = text.indexOf("\r\n\r\n") + 4;
  const step = Math.ceil(Math.max(1, text.length - headEnd) / 6);
  const crumbs = Array.from({ length: 6 }, (_, index) =>
    text.slice(headEnd + index * step, headEnd + (index + 1) * step),
  );
  return [text.slice(0, headEnd), ...crumbs];
}

/** All that the server says until it closes. */
async function readAll(client: Duplex): Promise<string> {
  let text = "";
  for await (const chunk of client) text += (chunk as Buffer).toString("latin1");
  return text;
}

test("however the bytes of a connection are cut, each call is carried out once and answered in its turn", async (t) => {
  const bed = await openProxyBed(t, { settings: { replicaConcurrency: 100 } });
  let seen: string[] = [];
  bed.setReplicas(
    await httpReplica(t, async (request, response) => {
      const body = Buffer.concat((await request.toArray()) as Buffer[]);
      seen.push(`${request.method} ${request.url} ${body.length} ${body.toString("latin1", 0, 1)}`);
      response.end(`answer ${request.url};`);
    }),
  );
  await fc.assert(
    fc.asyncProperty(asks, cuts, async (given, at) => {
      seen = [];
      const [client, socket] = duplexPair();
      bed.listener.server.emit("connection", socket);
      const texts = given.map((ask, index) => textOf(ask, index, index === given.length - 1));
      for (const piece of piecesOf(texts, at)) if (piece !== "") client.write(piece, "latin1");
      const text = await readAll(client);
      const expected = given.map(
        (ask, index) => `${ask.method} /${index} ${ask.bytes} ${bodyOf(ask, index).slice(0, 1)}`,
      );
      assert.deepEqual(seen.toSorted(), expected.toSorted());
      assert.deepEqual(
        [...text.matchAll(/answer \/(\d);/g)].map(([, index]) => Number(index)),
        given.map((_, index) => index),
      );
    }),
    { numRuns: 400 },
  );
});
