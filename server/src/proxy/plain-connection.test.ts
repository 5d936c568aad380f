// How a connection of plain calls hands itself over, and how it ends.
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { duplexPair, type Duplex } from "node:stream";
import { test } from "node:test";
import { until } from "#test/support/until.ts";
import { systemClock } from "#lib/clock.ts";
import { newRunId } from "#lib/ids.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { AnswerParser } from "./answer-parser.ts";
import { Deadlines } from "./deadlines.ts";
import { PlainConnection } from "./plain-connection.ts";

type Stage = {
  readonly client: Duplex;
  /** The connection's own end. */
  readonly socket: Duplex;
  readonly taken: string[];
  readonly handedOver: string[];
  readonly connection: PlainConnection;
  /** Writes these bytes, and returns when the connection has seen them. */
  say(text: string): Promise<void>;
};

function openStage(): Stage {
  const [client, socket] = duplexPair();
  Object.assign(socket, { setTimeout: () => socket });
  const taken: string[] = [];
  const handedOver: string[] = [];
  const deadlines = new Deadlines(systemClock);
  const connection = new PlainConnection(socket as Socket, {
    deadlines,
    monotonicMs: () => systemClock.monotonicMs(),
    dateLine: () => "",
    take: (_client, { method, url }) => taken.push(`${method} ${url}`),
    handOver: (_connection, _socket, bytes) => {
      deadlines.stop();
      handedOver.push(bytes.toString("latin1"));
    },
    onClose: () => deadlines.stop(),
    trustedProxies: new TrustedProxies([]),
    firstMs: 60_000,
    idleMs: 60_000,
    stalledMs: 60_000,
  });
  const say = async (text: string): Promise<void> => {
    await new Promise((resolve) => client.write(text, "latin1", resolve));
  };
  return { client, socket, taken, handedOver, connection, say };
}

function head(lines: string): string {
  return `POST /v4/p-1/hello/run HTTP/1.1\r\nHost: a\r\n${lines}\r\n`;
}

/** Answers with a body of so many bytes. */
function answer(connection: PlainConnection, bytes: number): void {
  const parser = new AnswerParser();
  const text = Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Length: ${bytes}\r\n\r\n${"x".repeat(bytes)}`,
  );
  parser.expect(
    { isHead: false, isUpgrade: false },
    {
      onInformation: () => assert.fail("none was sent"),
      onHead: (one) =>
        connection.head(one, newRunId(), { sendsTrailers: false, cookies: [], location: null }),
      onPiece: (piece, isLast) => void connection.piece(piece, isLast),
      onEnd: () => undefined,
    },
  );
  parser.push(text, text.length);
}

test("what comes behind a request that was the last one is not carried out, however slowly its answer is read", async (t) => {
  const { client, connection, taken, handedOver, say } = openStage();
  t.after(() => connection.destroy());
  await say(head("Connection: close\r\n"));
  answer(connection, 1_000_000);
  await say(head(""));
  await say(head("Connection: close\r\n"));
  assert.deepEqual(taken, ["POST /v4/p-1/hello/run"]);
  assert.equal(handedOver.length, 0);
  let bytes = 0;
  for await (const chunk of client) bytes += (chunk as Buffer).length;
  assert.ok(bytes > 1_000_000, "the answer arrives whole all the same");
});

test("a client that has said its last word still gets the whole answer that was written for it", async (t) => {
  const { client, connection, taken, say } = openStage();
  t.after(() => connection.destroy());
  await say(head(""));
  answer(connection, 1_000_000);
  client.end();
  let bytes = 0;
  for await (const chunk of client) bytes += (chunk as Buffer).length;
  assert.ok(bytes > 1_000_000);
  assert.equal(taken.length, 1);
});

test("a client that does not read its answers is not asked for more until it has", async (t) => {
  const { client, socket, connection, taken, say } = openStage();
  t.after(() => connection.destroy());
  await say(head(""));
  answer(connection, 10);
  assert.equal(socket.isPaused(), false, "a small answer is no reason to wait");
  await say(head(""));
  answer(connection, 100_000);
  assert.ok(socket.isPaused());
  client.write(head(""));
  assert.equal(taken.length, 2);
  client.resume();
  await until("the next call is taken", () => taken.length === 3);
  assert.equal(socket.isPaused(), false);
});

test("a body that comes in many small pieces is left to node's server, with all of its bytes", async (t) => {
  const { connection, taken, handedOver, say } = openStage();
  t.after(() => connection.destroy());
  const begin = head("Content-Length: 60000\r\n");
  await say(begin);
  for (const piece of ["1", "2", "3"]) {
    assert.equal(handedOver.length, 0);
    await say(piece);
  }
  assert.deepEqual(handedOver, [`${begin}123`]);
  assert.equal(taken.length, 0);
});

test("a body that comes right behind its head is read at once, each time anew", async (t) => {
  const { connection, taken, handedOver, say } = openStage();
  t.after(() => connection.destroy());
  for (let call = 1; call <= 5; call++) {
    for (const piece of [head("Content-Length: 3\r\n"), "1", "23"]) await say(piece);
    assert.equal(taken.length, call);
    assert.deepEqual(await connection.readBody(), Buffer.from("123"));
    answer(connection, 1);
  }
  assert.equal(handedOver.length, 0);
});
