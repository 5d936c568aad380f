// WebSockets through the proxy: the handshake is a call like any other, and after it nothing is
// kept back, changed or cut, however long it lasts.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { WebSocket, WebSocketServer } from "ws";
import type { CallAuthenticator } from "#proxy/authorize.ts";
import { VirtualClock } from "./support/virtual-clock.ts";
import {
  bedCaller,
  bedTokens,
  closedPort,
  Flood,
  helloPath,
  openProxyBed,
  rawReplica,
  replicaIdOf,
  type BedOptions,
  type ProxyBed,
  type RawClient,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const custom: BedOptions = { settings: { runtime: "custom" } };

/** A replica that speaks WebSocket; resolves with its port. */
async function socketReplica(
  t: TestContext,
  take: (socket: WebSocket, url: string) => void,
): Promise<number> {
  const http = createServer((_request, response) => response.end("plain"));
  const server = new WebSocketServer({ server: http, perMessageDeflate: true });
  server.on("connection", (socket, request) => take(socket, request.url ?? ""));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  t.after(() => {
    for (const client of server.clients) client.terminate();
    http.close();
    http.closeAllConnections();
  });
  return (http.address() as AddressInfo).port;
}

function openSocket(
  t: TestContext,
  bed: ProxyBed,
  path: string,
  token: string = bedTokens.project,
): WebSocket {
  const socket = new WebSocket(`ws://127.0.0.1:${bed.port}${helloPath}${path}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  socket.on("error", () => undefined);
  t.after(() => socket.terminate());
  return socket;
}

/** The status and body with which a handshake was refused. */
async function refusal(socket: WebSocket): Promise<{ status: number; text: string }> {
  const [, response] = (await once(socket, "unexpected-response", {
    signal: AbortSignal.timeout(30_000),
  })) as [unknown, AsyncIterable<Buffer> & { statusCode: number }];
  let text = "";
  for await (const chunk of response) text += chunk.toString();
  return { status: response.statusCode, text };
}

test("messages of all sizes pass both ways, and the socket counts as a running call until it is closed", async (t) => {
  const bed = await openProxyBed(t, custom);
  const urls: string[] = [];
  const port = await socketReplica(t, (socket, url) => {
    urls.push(url);
    socket.on("message", (data, isBinary) => socket.send(data as Buffer, { binary: isBinary }));
  });
  bed.setReplicas(port);
  const socket = openSocket(t, bed, "/chat?room=1");
  const [[upgrade]] = (await Promise.all([once(socket, "upgrade"), once(socket, "open")])) as [
    [{ headers: Record<string, string> }],
    unknown,
  ];
  assert.match(upgrade.headers["x-request-id"] ?? "", /^[0-9a-f-]{36}$/);
  assert.equal(bed.proxy.apps.running(replicaIdOf(port)), 1);
  for (const size of [0, 1, 1_000, 100_000, 3_000_000]) {
    const message = Buffer.alloc(size, size % 251);
    socket.send(message);
    const [answer] = (await once(socket, "message")) as [Buffer];
    assert.ok(message.equals(answer), `${size} bytes`);
  }
  assert.deepEqual(urls, ["/chat?room=1"]);
  socket.close(4001, "bye");
  const [code] = (await once(socket, "close")) as [number];
  assert.equal(code, 4001);
  await until("its place is free", () => bed.proxy.apps.running(replicaIdOf(port)) === 0);
  const [call] = bed.finished;
  assert.deepEqual(
    [call?.isWebSocket, call?.status, call?.outcome, call?.path],
    [true, 101, "answered", "/chat"],
  );
});

test("when either side breaks off, the other learns it", async (t) => {
  const bed = await openProxyBed(t, custom);
  const taken: WebSocket[] = [];
  bed.setReplicas(await socketReplica(t, (socket) => taken.push(socket)));
  const first = openSocket(t, bed, "/");
  await once(first, "open");
  await until("the app has it", () => taken.length === 1);
  taken[0]?.terminate();
  await once(first, "close");
  const second = openSocket(t, bed, "/");
  await once(second, "open");
  await until("the app has it", () => taken.length === 2);
  second.terminate();
  await once(taken[1] as WebSocket, "close");
  await until("no place is taken", () => bed.proxy.apps.demandOf(bed.appId).running === 0);
});

test("a socket waits in the line for a replica, and leaves it when its client goes away", async (t) => {
  const bed = await openProxyBed(t, custom);
  const waiting = openSocket(t, bed, "/");
  const leaving = openSocket(t, bed, "/");
  await until("both wait", () => bed.proxy.apps.demandOf(bed.appId).waiting === 2);
  leaving.terminate();
  await until("one waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
  assert.ok(bed.nudged.includes(bed.appId));
  bed.setReplicas(await socketReplica(t, (socket) => socket.send("hello")));
  const [message] = (await once(waiting, "message")) as [Buffer];
  assert.equal(message.toString(), "hello");
});

test("a socket whose replica cannot be reached waits for the next one", async (t) => {
  const bed = await openProxyBed(t, custom);
  bed.setReplicas(await closedPort(t));
  const socket = openSocket(t, bed, "/");
  await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
  bed.setReplicas(await socketReplica(t, (app) => app.send("hello")));
  const [message] = (await once(socket, "message", { signal: AbortSignal.timeout(30_000) })) as [
    Buffer,
  ];
  assert.equal(message.toString(), "hello");
  assert.equal(bed.proxy.apps.demandOf(bed.appId).running, 1);
});

test("refusals of a handshake say why", async (t) => {
  const bed = await openProxyBed(t, custom);
  assert.deepEqual((await refusal(openSocket(t, bed, "/", "wrong"))).status, 401);
  assert.equal((await refusal(openSocket(t, bed, "/", bedTokens.foreign))).status, 404);
  assert.equal((await refusal(openSocket(t, bed, "/?async=true"))).status, 400);
  bed.view.put(bed.appId, {
    ready: [],
    failure: { kind: "start_failed", reason: "no port", retryAtMs: null },
  });
  assert.deepEqual(await refusal(openSocket(t, bed, "/")), {
    status: 503,
    text: '{"message":"no port"}',
  });
});

test("an app of the cortex runtime has no WebSockets and says so", async (t) => {
  const bed = await openProxyBed(t);
  const { status, text } = await refusal(openSocket(t, bed, "/run"));
  assert.equal(status, 400);
  assert.match(text, /runtime \\"custom\\"/);
});

test("an app's own refusal of the handshake is handed on", async (t) => {
  const bed = await openProxyBed(t, custom);
  bed.setReplicas(
    await rawReplica(t, (socket) =>
      socket.once("data", () =>
        socket.write(
          "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nnot you\r\n0\r\n\r\n",
        ),
      ),
    ),
  );
  assert.deepEqual(await refusal(openSocket(t, bed, "/")), { status: 403, text: "not you" });
  await until("no place is taken", () => bed.proxy.apps.demandOf(bed.appId).running === 0);
});

test("an app that does not answer the handshake in time is a 504, an open socket has no such limit", async (t) => {
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, {
    clock,
    settings: { runtime: "custom", responseGracePeriodSeconds: 20 },
  });
  let hasCall = false;
  bed.setReplicas(await rawReplica(t, (socket) => socket.once("data", () => (hasCall = true))));
  const refused = refusal(openSocket(t, bed, "/"));
  await until("the app has the handshake", () => hasCall);
  await clock.advance(20_200);
  assert.equal((await refused).status, 504);
  bed.setReplicas(
    await socketReplica(t, (socket) => socket.on("message", (data) => socket.send(data as Buffer))),
  );
  const socket = openSocket(t, bed, "/");
  await once(socket, "open");
  await clock.advance(3_600_000);
  socket.send("still here");
  const [answer] = (await once(socket, "message")) as [Buffer];
  assert.equal(answer.toString(), "still here");
});

test("the record of a handshake that the platform refuses has the reason", async (t) => {
  const bed = await openProxyBed(t, custom);
  bed.setReplicas(await rawReplica(t, (socket) => socket.once("data", () => socket.destroy())));
  const { status, text } = await refusal(openSocket(t, bed, "/"));
  assert.equal(status, 502);
  await until("the call is recorded", () => bed.finished.length === 1);
  const [call] = bed.finished;
  assert.equal(call?.outcome, "refused");
  assert.equal(call?.reason, (JSON.parse(text) as { message: string }).message);
});

test("a handshake that the end of the platform breaks off is refused with that reason", async (t) => {
  const bed = await openProxyBed(t, custom);
  let hasCall = false;
  bed.setReplicas(await rawReplica(t, (socket) => socket.once("data", () => (hasCall = true))));
  const refused = refusal(openSocket(t, bed, "/"));
  await until("the app has the handshake", () => hasCall);
  bed.proxy.close();
  const { status, text } = await refused;
  assert.equal(status, 503);
  const [call] = bed.finished;
  assert.deepEqual(
    [call?.outcome, call?.reason],
    ["refused", (JSON.parse(text) as { message: string }).message],
  );
});

/** Has the app refuse a handshake with an answer that it never finishes. */
async function unfinishedRefusal(t: TestContext, bed: ProxyBed): Promise<RawClient> {
  bed.setReplicas(
    await rawReplica(t, (socket) =>
      socket.once("data", () =>
        socket.write("HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\nnot"),
      ),
    ),
  );
  const client = await bed.connect();
  client.ask(`GET ${helloPath}/`, [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    `Sec-WebSocket-Key: ${"x".repeat(22)}==`,
  ]);
  await client.sees("not");
  return client;
}

async function isCutOff(bed: ProxyBed, client: RawClient, why: RegExp): Promise<void> {
  await client.sawEnd();
  assert.deepEqual(client.text.match(/HTTP\/1.1 \d+/g), ["HTTP/1.1 403"]);
  const [call] = bed.finished;
  assert.deepEqual([call?.outcome, call?.status], ["cut", 403]);
  assert.match(call?.reason ?? "", why);
}

test("an app that refuses a handshake and does not finish its answer in time is cut off", async (t) => {
  const clock = new VirtualClock();
  const settings = { runtime: "custom", responseGracePeriodSeconds: 20 } as const;
  const bed = await openProxyBed(t, { clock, settings });
  const client = await unfinishedRefusal(t, bed);
  await clock.advance(20_200);
  await isCutOff(bed, client, /responseGracePeriodSeconds/);
});

test("an app's unfinished refusal of a handshake ends with the platform", async (t) => {
  const bed = await openProxyBed(t, custom);
  const client = await unfinishedRefusal(t, bed);
  bed.proxy.close();
  await isCutOff(bed, client, /^The platform is stopping/);
});

test("an app's unfinished refusal of a handshake ends with the sender's token", async (t) => {
  const { tokens, revoked } = changingTokens();
  const bed = await openProxyBed(t, { ...custom, options: { tokens } });
  const client = await unfinishedRefusal(t, bed);
  revoked.add(bedTokens.project);
  bed.proxy.tokensChanged();
  await isCutOff(bed, client, /revoked/);
});

test("what the app says together with its handshake is not lost", async (t) => {
  const bed = await openProxyBed(t, custom);
  const accept =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
  const sockets: Socket[] = [];
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      sockets.push(socket);
      socket.once("data", () => socket.write(`${accept}first words`));
    }),
  );
  const client = await bed.connect();
  client.ask(`GET ${helloPath}/`, ["Connection: Upgrade", "Upgrade: websocket"]);
  await client.sees("first words");
  assert.match(
    client.text,
    /^HTTP\/1\.1 101 .*\r\n(?:.*\r\n)*Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst words$/,
  );
  // The client ends its side; the app may still say goodbye.
  sockets[0]?.on("end", () => sockets[0]?.end("goodbye"));
  client.socket.end();
  await client.sees("goodbye");
  await client.sawEnd();
});

test("a slow reader holds the other side up instead of filling the memory", async (t) => {
  const bed = await openProxyBed(t, custom);
  const total = 64 * 1024 * 1024;
  let flood = null as Flood | null;
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      socket.once("data", () => {
        socket.write(
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        );
        flood = new Flood(socket, total);
      });
    }),
  );
  const client = await bed.connect();
  client.socket.pause();
  client.ask(`GET ${helloPath}/`, ["Connection: Upgrade", "Upgrade: websocket"]);
  await until("the app sends", () => flood !== null);
  await flood?.isStuck();
  const sentBytes = flood?.sentBytes ?? 0;
  assert.ok(sentBytes < total / 2, `${sentBytes} bytes left although nobody reads`);
  let received = 0;
  client.socket.removeAllListeners("data");
  client.socket.on("data", (chunk: Buffer) => (received += chunk.length));
  client.socket.resume();
  await until("the client has all of it", () => received >= total, { deadlineMs: 60_000 });
});

test("a slow app holds its client up instead of filling the memory", async (t) => {
  const bed = await openProxyBed(t, custom);
  const total = 64 * 1024 * 1024;
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      socket.once("data", () => {
        socket.pause();
        socket.write(
          "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        );
      });
    }),
  );
  const client = await bed.connect();
  client.ask(`GET ${helloPath}/`, ["Connection: Upgrade", "Upgrade: websocket"]);
  await client.sees("101");
  const flood = new Flood(client.socket, total);
  await flood.isStuck();
  assert.ok(
    flood.sentBytes < total / 2,
    `${flood.sentBytes} bytes left although the app does not read`,
  );
});

test("a request for another protocol is answered as a plain one", async (t) => {
  const bed = await openProxyBed(t, custom);
  bed.setReplicas(await socketReplica(t, () => undefined));
  const client = await bed.connect();
  client.ask(`GET ${helloPath}/`, [
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAA",
  ]);
  await client.sees("plain");
});

/** Sends back what it gets. */
async function echoReplica(t: TestContext): Promise<number> {
  return await socketReplica(t, (socket) => socket.on("message", (data) => socket.send(data)));
}

/** Tokens of which some are revoked, or cannot be checked, from some moment on. */
function changingTokens(): {
  readonly tokens: CallAuthenticator;
  readonly revoked: Set<string>;
  readonly unchecked: Set<string>;
} {
  const revoked = new Set<string>();
  const unchecked = new Set<string>();
  const tokens: CallAuthenticator = {
    cached: (token) => {
      if (unchecked.has(token)) return undefined;
      return revoked.has(token) ? null : bedCaller(bedTokens.project);
    },
    check: () => Promise.reject(new Error("the database does not answer")),
  };
  return { tokens, revoked, unchecked };
}

async function echoes(socket: WebSocket, text: string): Promise<void> {
  socket.send(text);
  const [data] = (await once(socket, "message")) as [Buffer];
  assert.equal(data.toString(), text);
}

test("a socket ends with the token that it was opened with, also while it waits; those of other tokens go on", async (t) => {
  const { tokens, revoked } = changingTokens();
  const bed = await openProxyBed(t, { ...custom, options: { tokens } });
  bed.setReplicas(await echoReplica(t));
  const bad = openSocket(t, bed, "/", "bad");
  const good = openSocket(t, bed, "/", "good");
  await Promise.all([once(bad, "open"), once(good, "open")]);
  const waiting = openSocket(t, bed, "/", "bad");
  await until(
    "the third waits for a place",
    () => bed.proxy.apps.demandOf(bed.appId).waiting === 1,
  );
  const refused = refusal(waiting);
  revoked.add("bad");
  bed.proxy.tokensChanged();
  await once(bad, "close");
  const { status, text } = await refused;
  assert.equal(status, 401);
  assert.match(text, /revoked/);
  await echoes(good, "still here");
  await until("places are free again", () => bed.proxy.apps.demandOf(bed.appId).running === 1);
  assert.deepEqual(
    bed.finished.map((call) => call.outcome),
    ["answered", "refused"],
  );
});

test("a socket whose token is revoked while it is let in ends too", async (t) => {
  let isRevoked = false;
  const tokens: CallAuthenticator = {
    cached: () => (isRevoked ? null : undefined),
    check: async () => {
      isRevoked = true;
      return bedCaller(bedTokens.project);
    },
  };
  const bed = await openProxyBed(t, { ...custom, options: { tokens } });
  bed.setReplicas(await echoReplica(t));
  assert.equal((await refusal(openSocket(t, bed, "/"))).status, 401);
});

test("while its token cannot be checked a socket goes on, and is looked at again", async (t) => {
  const { tokens, revoked, unchecked } = changingTokens();
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, { ...custom, options: { tokens }, clock });
  bed.setReplicas(await echoReplica(t));
  const socket = openSocket(t, bed, "/", "bad");
  await once(socket, "open");
  unchecked.add("bad");
  bed.proxy.tokensChanged();
  await clock.advance(1_000);
  await echoes(socket, "the database is away");
  unchecked.clear();
  revoked.add("bad");
  const closed = once(socket, "close");
  await clock.advance(5_000);
  await closed;
});
