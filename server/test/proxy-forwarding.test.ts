// Plain calls that name a `webhookEndpoint`: the caller is served exactly as without it, and what
// the caller got - the app's answer or the platform's fault - is handed over once, when it is
// complete.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";
import { Fault } from "#lib/fault.ts";
import { appIdOf } from "#lib/ids.ts";
import type { ForwardedAnswer } from "#proxy/forwarding.ts";
import {
  answerWith,
  bothWays,
  bedTokens,
  Flood,
  helloPath,
  httpReplica,
  projectId,
  rawReplica,
  type BedOptions,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const url = "https://hook.test/a?b=c";
const query = `webhookEndpoint=${encodeURIComponent(url)}`;

type OpenBed = (t: TestContext, bed?: BedOptions) => Promise<ProxyBed>;
type Forwarding = { readonly bed: ProxyBed; readonly forwarded: ForwardedAnswer[] };

async function openForwarding(
  t: TestContext,
  openBed: OpenBed,
  given: BedOptions = {},
): Promise<Forwarding> {
  const forwarded: ForwardedAnswer[] = [];
  const forwarding = {
    check: (asked: string) =>
      asked === url ? null : new Fault("invalid", `webhookEndpoint is not ${url}: ${asked}`),
    forward: (answer: ForwardedAnswer): void => void forwarded.push(answer),
    bytesMax: 100_000,
  };
  const bed = await openBed(t, { ...given, options: { forwarding, ...given.options } });
  return { bed, forwarded };
}

/** What was forwarded, in few words. */
function inShort({ status, contentType, body, bodyBytes }: ForwardedAnswer): string {
  return `${status} ${contentType} ${body === null ? `${bodyBytes} bytes` : body.toString()}`;
}

test(
  "the caller gets the answer as always, and the same bytes are forwarded with all that their delivery needs",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    const seen: (string | undefined)[][] = [];
    bed.setReplicas(
      await httpReplica(t, async (request, response) => {
        const { "x-webhook-secret": secret, "idempotency-key": key } = request.headers;
        seen.push([request.url, secret as string | undefined, key as string | undefined]);
        const body = Buffer.concat((await request.toArray()) as Buffer[]);
        response
          .writeHead(418, { "Content-Type": "text/plain" })
          .end(Buffer.concat([body, Buffer.from([0, 255])]));
      }),
    );
    const response = await bed.call(`/run?x=1&${query}`, {
      method: "POST",
      body: "tea",
      headers: { "x-webhook-secret": "s3cret", "idempotency-key": "the app's" },
    });
    assert.equal(response.status, 418);
    const bytes = Buffer.from(await response.arrayBuffer());
    assert.equal(bytes.toString("latin1"), "tea\x00\xff");
    assert.deepEqual(seen, [["/run?x=1", undefined, "the app's"]]);
    const runId = response.headers.get("x-request-id");
    assert.deepEqual(forwarded, [
      {
        runId,
        projectId,
        appId: appIdOf(projectId, "hello"),
        url,
        secret: "s3cret",
        status: 418,
        contentType: "text/plain",
        contentFields: null,
        body: bytes,
        bodyBytes: 5,
      },
    ]);
    const [finished] = bed.finished;
    assert.equal(finished?.webhookEndpoint, url);
    assert.equal(finished?.projectId, projectId);
    assert.equal(finished?.runId, runId);
    await bed.call("/run", { method: "POST", body: "tea" });
    await until("both are told", () => bed.finished.length === 2);
    assert.equal(bed.finished[1]?.webhookEndpoint, null);
    assert.equal(forwarded.length, 1, "a call without webhook forwards nothing");
  }),
);

test(
  "a stream reaches its caller piece by piece, and is forwarded whole at its end",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    const answers: ServerResponse[] = [];
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        response.writeHead(200, { "Content-Type": "text/event-stream" }).write("data: 1\n\n");
        answers.push(response);
      }),
    );
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run?${query}`);
    await client.sees("data: 1\n\n");
    assert.equal(forwarded.length, 0);
    answers[0]?.write("data: 2\n\n");
    await client.sees("data: 2\n\n");
    assert.equal(forwarded.length, 0);
    answers[0]?.end();
    await client.sees("\r\n0\r\n\r\n");
    assert.deepEqual(forwarded.map(inShort), ["200 text/event-stream data: 1\n\ndata: 2\n\n"]);
  }),
);

test(
  "answers of every framing are forwarded whole, and an empty one is forwarded empty",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    const answers = [
      ["HTTP/1.1 204 No Content\r\n\r\n", "204 null "],
      ["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200 null "],
      ["HTTP/1.1 200 OK\r\ncontent-TYPE:\tx/y \r\nContent-Length: 2\r\n\r\nok", "200 x/y ok"],
      [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
        "200 null abc",
      ],
    ] as const;
    for (const [answer, expected] of answers) {
      forwarded.length = 0;
      bed.setReplicas(await rawReplica(t, (socket) => answerWith(socket, answer)));
      await (await bed.call(`/run?${query}`)).arrayBuffer();
      await until("it is forwarded", () => forwarded.length === 1);
      assert.equal(forwarded.map(inShort)[0], expected);
    }
    bed.setReplicas(
      await rawReplica(t, (socket) =>
        socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\n\r\nto the end")),
      ),
    );
    assert.equal(await (await bed.call(`/run?${query}`)).text(), "to the end");
    assert.equal(forwarded.map(inShort)[1], "200 null to the end");
  }),
);

test(
  "of an answer that is too long to be delivered the length is told, and its caller gets all of it",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    const length = 3_000_000;
    bed.setReplicas(
      await httpReplica(t, (_request, response) => response.end(Buffer.alloc(length))),
    );
    const response = await bed.call(`/run?${query}`);
    assert.equal((await response.arrayBuffer()).byteLength, length);
    assert.deepEqual(forwarded.map(inShort), [`200 null ${length} bytes`]);
  }),
);

test(
  "a caller that reads slowly holds the replica back as always",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    const floods: Flood[] = [];
    const total = 50_000_000;
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        socket.once("data", () => {
          socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${total}\r\n\r\n`);
          floods.push(new Flood(socket, total));
        });
      }),
    );
    const client = await bed.connect();
    client.socket.pause();
    client.ask(`GET ${helloPath}/run?${query}`);
    const flood = await until("the replica sends", () => floods[0]);
    await flood.isStuck();
    assert.ok(flood.sentBytes < total);
    client.socket.resume();
    await until("all has left", () => flood.sentBytes >= total - 65_536);
    await until("it is forwarded", () => forwarded.length === 1, { deadlineMs: 60_000 });
    assert.equal(forwarded.map(inShort)[0], `200 null ${total} bytes`);
  }),
);

test(
  "a caller that goes away before the answer is complete forwards nothing, and ends the call as always",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    let isClosed = false;
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        response.write("begun");
        response.on("close", () => (isClosed = true));
      }),
    );
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run?${query}`);
    await client.sees("begun");
    client.socket.destroy();
    await until("the app sees that nobody waits", () => isClosed);
    await until("the call is told", () => bed.finished.length === 1);
    assert.equal(bed.finished[0]?.outcome, "client_gone");
    assert.equal(forwarded.length, 0);
  }),
);

test(
  "a fault of the platform is forwarded as the caller got it",
  bothWays(async (t, openBed) => {
    const clock = new VirtualClock();
    const limits = { lineLengthMax: 1, lineWaitMs: 5_000, bodyBytesMax: 100 };
    const { bed, forwarded } = await openForwarding(t, openBed, { clock, limits });
    const waiting = bed.call(`/run?${query}`);
    await until("one waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
    const full = await bed.call(`/run?${query}`);
    assert.equal(full.status, 503);
    assert.deepEqual(forwarded.map(inShort), [`503 application/json ${await full.text()}`]);
    const large = await bed.call(`/run?${query}`, { method: "POST", body: "x".repeat(101) });
    assert.equal(forwarded.map(inShort)[1], `413 application/json ${await large.text()}`);
    await clock.advance(5_100);
    const timedOut = await waiting;
    assert.equal(forwarded.map(inShort)[2], `504 application/json ${await timedOut.text()}`);
    bed.setRoute({ live: null });
    const none = await bed.call(`/run?${query}`);
    assert.equal(forwarded.map(inShort)[3], `503 application/json ${await none.text()}`);
  }),
);

test(
  "an answer that breaks off is forwarded as the fault that it is",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        socket.on("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"));
      }),
    );
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run?${query}`);
    await client.sawEnd();
    assert.match(client.text, /half$/);
    assert.equal(forwarded.length, 1);
    assert.match(
      forwarded.map(inShort)[0] ?? "",
      /^502 application\/json \{"message":"The app's replica failed/,
    );
  }),
);

test(
  "who may not call the app, or names a bad webhook, makes the platform post nothing",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    bed.setReplicas(await httpReplica(t, () => assert.fail("the app is not to be asked")));
    const headers = { authorization: `Bearer ${bedTokens.foreign}` };
    assert.equal((await bed.call(`/run?${query}`, { headers })).status, 404);
    assert.equal(
      (await bed.call(`/run?${query}`, { headers: { authorization: "Bearer none" } })).status,
      401,
    );
    const bad = await bed.call("/run?webhookEndpoint=http%3A%2F%2F10.0.0.1");
    assert.equal(bad.status, 400);
    assert.match(await bad.text(), /webhookEndpoint is not/);
    const twice = await bed.connect();
    twice.ask(`GET ${helloPath}/run?${query}`, ["X-Webhook-Secret: a", "X-Webhook-Secret: b"]);
    await twice.sees("400 ");
    assert.equal(forwarded.length, 0);
  }),
);

test(
  "answers to HEAD are forwarded without a body, and a body that the client is asked for first arrives",
  bothWays(async (t, openBed) => {
    const { bed, forwarded } = await openForwarding(t, openBed);
    bed.setReplicas(
      await httpReplica(t, async (request, response) => {
        if (request.headers.expect !== undefined) response.writeContinue();
        const body = Buffer.concat((await request.toArray()) as Buffer[]);
        response.end(body.length === 0 ? "hidden" : body);
      }),
    );
    await bed.call(`/run?${query}`, { method: "HEAD" });
    assert.equal(forwarded.map(inShort)[0], "200 null ");
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/run?${query}`, ["Content-Length: 4", "Expect: 100-continue"]);
    await client.sees("100 Continue");
    client.send("body");
    await client.sees("200 OK");
    await until("it is forwarded", () => forwarded.length === 2);
    assert.equal(forwarded.map(inShort)[1], "200 null body");
  }),
);
