// What is gathered of answers that are forwarded is bounded over all calls; their callers get all
// of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { newRunId, type AppId, type ProjectId } from "#lib/ids.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Client, ClientUser } from "./client.ts";
import { ForwardingClient, GatheredBytes, type ForwardedAnswer } from "./forwarding.ts";

const head = {
  status: 200,
  lines: "Content-Type: text/plain\r\n",
  body: "chunked",
} as unknown as AnswerHead;

function bed(bytesMax: number) {
  const gathered = new GatheredBytes(bytesMax);
  const forwarded: ForwardedAnswer[] = [];
  const users: ClientUser[] = [];
  let handedBytes = 0;
  const ignore = (): void => undefined;
  const client = {
    use: (user: ClientUser) => users.push(user),
    head: ignore,
    end: ignore,
    piece: (piece: Buffer) => (handedBytes += piece.length) > 0,
  } as unknown as Client;
  const begin = (): ForwardingClient => {
    const ids = {
      runId: newRunId(),
      projectId: "p-00000001" as ProjectId,
      appId: "p-00000001-app" as AppId,
    };
    const forwarding = {
      check: () => null,
      forward: (answer: ForwardedAnswer) => void forwarded.push(answer),
      bytesMax: 1_000,
    };
    const one = new ForwardingClient(
      client,
      { ...ids, url: "http://x/", secret: null },
      forwarding,
      gathered,
    );
    one.use({ onClientGone: ignore, onClientDrain: ignore });
    one.head(head, ids.runId, { sendsTrailers: false, cookies: [], location: null });
    return one;
  };
  return { begin, forwarded, users, gathered, handedBytes: () => handedBytes };
}

function inShort({ body, bodyBytes }: ForwardedAnswer): [number | null, number] {
  return [body?.length ?? null, bodyBytes];
}

test("an answer that there is no room for reaches its caller, and only its length is forwarded", () => {
  const { begin, forwarded, handedBytes } = bed(1_000);
  const calls = [begin(), begin(), begin()];
  for (const call of calls)
    for (let count = 0; count < 4; count++) call.piece(Buffer.alloc(100), false);
  for (const call of calls) call.end([]);
  assert.deepEqual(forwarded.map(inShort), [
    [400, 400],
    [400, 400],
    [null, 400],
  ]);
  assert.equal(handedBytes(), 1_200);
});

test("the room is given back at the end, when the client goes, and when an answer is too long by itself", () => {
  const { begin, forwarded, users, gathered } = bed(1_200);
  const gone = begin();
  const long = begin();
  const whole = begin();
  gone.piece(Buffer.alloc(500), false);
  users[0]?.onClientGone();
  for (let count = 0; count < 11; count++) long.piece(Buffer.alloc(100), false);
  whole.piece(Buffer.alloc(900), true);
  long.end([]);
  assert.deepEqual(forwarded.map(inShort), [
    [900, 900],
    [null, 1_100],
  ]);
  assert.ok(gathered.take(1_200), "nothing is counted any more");
});
