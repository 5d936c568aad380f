// The one listener of the platform: who gets which request, what strangers may not do to it, and
// how it stops.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { promisify } from "node:util";
import { WebSocket } from "ws";
import { bedTokens, helloPath, httpReplica, openProxyBed } from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

test("calls go to the proxy, everything else to the fallback", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(await httpReplica(t, (request, response) => response.end(`app ${request.url}`)));
  const ask = async (path: string): Promise<string> => {
    const client = await bed.connect();
    client.ask(`GET ${path}`);
    await client.sees("\r\n\r\n");
    await until("the body is there", () => /\r\n\r\n./.test(client.text));
    return client.text.split("\r\n\r\n")[1] ?? "";
  };
  assert.match(await ask("/v2/projects"), /fallback \/v2\/projects/);
  assert.match(await ask("/"), /fallback \//);
  assert.match(await ask("/v40/x"), /fallback/);
  assert.match(await ask(`${helloPath}/run`), /app \/run/);
  assert.match(await ask(`//${helloPath.slice(1)}//run`), /app \/run/);
  assert.match(await ask(`http://test${helloPath}/run`), /app \/run/);
});

test("a body that is announced with Expect reaches the fallback too", async (t) => {
  const bed = await openProxyBed(t);
  const client = await bed.connect();
  client.ask("POST /v2/x", ["Expect: 100-continue", "Content-Length: 4"]);
  await client.sees("HTTP/1.1 100 Continue");
  client.send("body");
  await client.sees("fallback /v2/x");
});

test("an expectation that nobody meets is refused, and a body that never ends holds no connection by it", async (t) => {
  const bed = await openProxyBed(t);
  for (const path of ["/v2/x", `${helloPath}/run`]) {
    const client = await bed.connect();
    client.ask(`POST ${path}`, ["Expect: 200-ok", "Transfer-Encoding: chunked"], "1\r\nx\r\n");
    await client.sees('"message":"The only expectation that is supported');
    assert.match(client.text, /^HTTP\/1\.1 417 [^{]*\r\nConnection: close\r\n/);
    await client.sawEnd();
  }
});

test("what is not HTTP is answered with a reason and closed", async (t) => {
  const bed = await openProxyBed(t);
  const asked: [string, RegExp][] = [
    ["not http at all\r\n\r\n", /^HTTP\/1\.1 400 .*"message":"The request is not HTTP\/1\.1\."/s],
    [`GET / HTTP/1.1\r\nHost: x\r\nX: ${"y".repeat(40_000)}\r\n\r\n`, /^HTTP\/1\.1 431 /],
    ["GET / HTTP/1.1\r\n\r\n", /^HTTP\/1\.1 400 .*"message":"The request has no Host header: /s],
    [
      `GET ${helloPath}/run HTTP/1.1\r\n\r\n`,
      /^HTTP\/1\.1 400 .*"message":"The request has no Host header: /s,
    ],
    [
      "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
      /^HTTP\/1\.1 400 .*"message":"The request is not HTTP\/1\.1\."/s,
    ],
    [
      "get / HTTP/1.1\r\nHost: x\r\n\r\n",
      /^HTTP\/1\.1 405 .*Allow: GET, .*"message":"The method get is not allowed\. .*capitals: GET/s,
    ],
    [
      `FETCH ${helloPath}/run HTTP/1.1\r\nHost: x\r\n\r\n`,
      /^HTTP\/1\.1 405 .*Allow: GET, .*The method FETCH is not allowed/s,
    ],
    [
      "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n",
      /^HTTP\/1\.1 405 .*Allow: GET, .*The method CONNECT is not allowed/s,
    ],
    ["GET / HTTP/1.1\r\nHost: x\r\nA: b\n\r\n\r\n", /^HTTP\/1\.1 400 /],
  ];
  for (const [bytes, answer] of asked) {
    const client = await bed.connect();
    client.send(bytes);
    await client.sawEnd();
    assert.match(client.text, answer);
  }
});

test("a browser that goes to a page of the platform with too many cookies is told so, and to remove them", async (t) => {
  const bed = await openProxyBed(t);
  const cookie = `Cookie: a=${"y".repeat(20_000)}; b=${"y".repeat(20_000)}`;
  const navigates = "Sec-Fetch-Mode: navigate";
  const long = `X: ${"y".repeat(40_000)}`;
  const ask = async (path: string, ...fields: string[]): Promise<string> => {
    const client = await bed.connect();
    client.send(`GET ${path} HTTP/1.1\r\nHost: x\r\n${fields.join("\r\n")}\r\n\r\n`);
    await client.sawEnd();
    assert.match(
      client.text,
      /^HTTP\/1\.1 431 .*"message":"The head of the request is longer than 32768 bytes/s,
    );
    return client.text;
  };
  const cleared = await ask("/dashboard", navigates, cookie);
  assert.match(
    cleared,
    /\r\nClear-Site-Data: "cookies"\r\n.*The browser was told to delete the cookies/s,
  );
  const kept = [
    await ask("/dashboard", cookie),
    await ask("/dashboard", "Sec-Fetch-Mode: no-cors", cookie),
    await ask("/dashboard", navigates, long),
    await ask(`/dashboard?${"y".repeat(40_000)}`, navigates, "Cookie: a=b"),
    await ask(`/dashboard?${"y".repeat(9_000)}`, navigates, cookie),
    await ask(`${helloPath}/page`, navigates, cookie),
  ];
  for (const text of kept) assert.doesNotMatch(text, /Clear-Site-Data|cookies/);
});

test("connections that say nothing are closed, those with a call are not", async (t) => {
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, { listenerClock: clock });
  const answers: ServerResponse[] = [];
  bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
  const silent = await bed.connect();
  const client = await bed.connect();
  client.ask(`GET ${helloPath}/run`);
  await until("the app works on it", () => answers.length === 1);
  await clock.advance(31_000);
  await silent.sawEnd();
  await clock.advance(600_000);
  answers[0]?.end("done");
  await client.sees("done");
  assert.equal(client.isEnded || client.isClosed, false);
  await clock.advance(151_000);
  await client.sawEnd();
});

test("a stop lets running calls end, answers new ones 503, and closes what is idle", async (t) => {
  const bed = await openProxyBed(t);
  const answers: ServerResponse[] = [];
  bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
  const idle = await bed.connect();
  idle.send("GET /fallback HTTP/1.1\r\nHost: x\r\n\r\n");
  await idle.sees("fallback /fallback");
  const running = await bed.connect();
  running.ask(`GET ${helloPath}/run`);
  await until("the app works on it", () => answers.length === 1);
  let isClosed = false;
  const drained = bed.listener.drain({ drainMs: 60_000 }).then(() => (isClosed = true));
  await idle.sawEnd();
  const stopping = async (): Promise<void> => {
    const refused: [string, string[]][] = [
      [`GET ${helloPath}/run`, []],
      [`POST ${helloPath}/run?async=true`, ["Content-Length: 2", "Expect: 100-continue"]],
      ["POST /v2/projects", ["Content-Length: 200000"]],
      ["GET /readyz", []],
      [`GET ${helloPath}/`, ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: x"]],
    ];
    for (const [line, fields] of refused) {
      const client = await bed.connect();
      client.ask(line, fields);
      await client.sees('{"message":"The platform is stopping."}');
      assert.match(
        client.text,
        /^HTTP\/1\.1 503 .*\r\nRetry-After: \d+\r\n.*Connection: close\r\n/s,
      );
      client.socket.destroy();
    }
  };
  await stopping();
  assert.equal(isClosed, false);
  answers[0]?.end("done");
  await running.sees("done");
  await running.sawEnd();
  await drained;
  await stopping();
  await bed.listener.close();
  await assert.rejects(bed.connect());
});

test("whoever connects during a stop has a second until the request, and is told", async (t) => {
  const clock = new VirtualClock();
  const bed = await openProxyBed(t, { listenerClock: clock });
  let calls = 0;
  bed.setReplicas(await httpReplica(t, () => calls++));
  const running = await bed.connect();
  running.ask(`GET ${helloPath}/run`);
  await until("the app works on it", () => calls === 1);
  const drained = bed.listener.drain({ drainMs: 60_000 });
  const late = [await bed.connect(), await bed.connect(), await bed.connect()];
  const connections = promisify(bed.listener.server.getConnections.bind(bed.listener.server));
  await until("all are there", async () => (await connections()) === 4);
  await clock.advance(900);
  for (const [index, path] of [`${helloPath}/run`, "/readyz"].entries()) {
    late[index]?.ask(`GET ${path}`);
    await late[index]?.sees('{"message":"The platform is stopping."}');
    await late[index]?.sawEnd();
  }
  await clock.advance(200);
  await late[2]?.sawEnd();
  running.socket.destroy();
  await until("the stop goes on", async () => (await connections()) === 0);
  await clock.advance(100);
  await drained;
});

test("the answer to a call that runs during a stop says that it is the last on its connection", async (t) => {
  for (const takesPlain of [true, false]) {
    const bed = await openProxyBed(t, { takesPlain });
    const answers: ServerResponse[] = [];
    bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/one`);
    await until("the app works on it", () => answers.length === 1);
    const drained = bed.listener.drain({ drainMs: 60_000 });
    if (!takesPlain) {
      // Node's server has read this one already when it learns of the stop.
      client.ask(`GET ${helloPath}/two`);
      await until("the app works on both", () => answers.length === 2);
    }
    for (const answer of answers) answer.end("last");
    await client.sawEnd();
    assert.match(client.text, /Connection: close\r\n(?:.*\r\n)*\r\n(?:.*\r\n)?last/);
    await drained;
  }
});

test("a stop with no time left ends calls and WebSockets", async (t) => {
  const bed = await openProxyBed(t, { settings: { runtime: "custom" } });
  let calls = 0;
  bed.setReplicas(await httpReplica(t, () => calls++));
  const client = await bed.connect();
  client.ask(`GET ${helloPath}/run`);
  const socket = new WebSocket(`ws://127.0.0.1:${bed.port}${helloPath}/`, {
    headers: { authorization: `Bearer ${bedTokens.project}` },
  });
  socket.on("error", () => undefined);
  t.after(() => socket.terminate());
  await until("both run", () => calls === 2);
  assert.equal(bed.proxy.apps.demandOf(bed.appId).running, 2);
  await bed.listener.drain({ drainMs: 0 });
  await client.sawEnd();
  await until("no place is taken", () => bed.proxy.apps.demandOf(bed.appId).running === 0);
});

test("once the proxy is closed, who waits and who comes is told that the platform is stopping", async (t) => {
  const bed = await openProxyBed(t);
  const waiting = bed.call("/run");
  await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
  bed.proxy.close();
  assert.equal((await waiting).status, 503);
  const response = await bed.call("/run");
  assert.equal(response.status, 503);
  assert.match(await response.text(), /stopping/);
});

test("a client that wants its connection closed after the answer gets that", async (t) => {
  for (const takesPlain of [true, false]) {
    const bed = await openProxyBed(t, { takesPlain });
    bed.setReplicas(await httpReplica(t, (_request, response) => response.end("answer")));
    for (const token of ["good", "bad"]) {
      const client = await bed.connect();
      const fields = [
        "Host: test",
        `Authorization: Bearer ${token === "good" ? bedTokens.project : "x"}`,
      ];
      client.send(
        `GET ${helloPath}/run HTTP/1.1\r\n${fields.join("\r\n")}\r\nConnection: close\r\n\r\n`,
      );
      await client.sawEnd();
      assert.match(
        client.text,
        /^HTTP\/1\.1 (?:200|401) .*\r\nConnection: close\r\n.*(?:answer|token).*/s,
      );
    }
  }
});
