// Calls that come over HTTP/2: an app cannot tell them from others, each stream ends by itself, and
// no client can hold or smuggle more than over HTTP/1.1.
import assert from "node:assert/strict";
import type { IncomingMessage, ServerResponse } from "node:http";
import { constants } from "node:http2";
import { test } from "node:test";
import { Fault } from "#lib/fault.ts";
import type { AsyncAccept } from "#proxy/async-accept.ts";
import {
  bedTokens,
  helloPath,
  httpReplica,
  rawReplica,
  answerWith,
  untilFree,
} from "./support/proxy-bed.ts";
import { connectRawHttp2, fieldBlock, flags, frame, frameTypes } from "./support/raw-http2.ts";
import { beginCall, openTlsBed, StreamAnswer, type TlsBed } from "./support/tls-bed.ts";
import { noOpenssl } from "./support/tls-files.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const skip = noOpenssl;

/** A replica that reads each request, and answers what the test says. */
async function readingReplica(
  t: Parameters<typeof httpReplica>[0],
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
): Promise<number> {
  return httpReplica(t, async (request, response) => {
    let body = "";
    request.setEncoding("latin1");
    for await (const chunk of request) body += String(chunk);
    answer(request, response, body);
  });
}

test("an app gets a call of HTTP/2 as any other call", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  const heads: string[] = [];
  bed.setReplicas(
    await readingReplica(t, (request, response, body) => {
      heads.push(request.rawHeaders.join("|"));
      response.setHeader("Set-Cookie", ["a=1", "b=2"]);
      response.setHeader("Vary", ["one", "two"]);
      response.end(`${request.method} ${request.url} ${body}`);
    }),
  );
  const session = bed.session();
  const asked = { ":method": "POST", cookie: ["one=1", "two=2"], "x-latin": "caf\u00e9" };
  const answer = await beginCall(session, "/run?x=1", {
    ...asked,
    "content-length": 4,
    body: "body",
  }).closed();
  assert.equal(answer.text, "POST /run?x=1 body");
  assert.deepEqual(answer.headers["set-cookie"], [
    `a=1; Path=${helloPath}`,
    `b=2; Path=${helloPath}`,
  ]);
  assert.equal(answer.headers.vary, "one, two, Authorization");
  const host = `localhost:${bed.tlsPort}`;
  assert.match(
    heads[0] ?? "",
    new RegExp(
      `^host\\|${host}\\|x-latin\\|caf\u00e9\\|cookie\\|one=1; two=2\\|X-Forwarded-For\\|127.0.0.1\\|X-Forwarded-Proto\\|https\\|X-Forwarded-Host\\|${host}\\|`,
    ),
  );
  assert.match(heads[0] ?? "", /\|Content-Length\|4$/);
  const chunked = await beginCall(session, "/run", { ...asked, body: "parts" }).closed();
  assert.equal(chunked.text, "POST /run parts");
  assert.match(heads[1] ?? "", /\|Transfer-Encoding\|chunked$/);
  await until("both calls are recorded", () => bed.finished.length === 2);
});

test("answers without a body, informational ones and trailers pass", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  bed.setReplicas(
    await readingReplica(t, (request, response, body) => {
      if (request.url === "/empty") response.writeHead(204).end();
      else if (request.url === "/same") response.writeHead(304, { etag: "x" }).end();
      else if (request.url === "/odd") response.writeHead(799).end("odd");
      else {
        response.writeEarlyHints({ link: "</a.css>; rel=preload" });
        response.writeHead(200, { trailer: "X-End" });
        response.write(body);
        response.addTrailers({ "X-End": `after ${request.trailers["x-up"]}` });
        response.end();
      }
    }),
  );
  const session = bed.session();
  const statusOf = async (path: string, method = "GET"): Promise<string> => {
    const { status, text, isComplete } = await beginCall(session, path, {
      ":method": method,
    }).closed();
    return `${status} ${text} ${isComplete}`;
  };
  assert.equal(await statusOf("/empty"), "204  true");
  assert.equal(await statusOf("/same"), "304  true");
  assert.equal(await statusOf("/odd"), "500 odd true", "as RFC 9110, 15 has it");
  assert.equal(await statusOf("/odd", "HEAD"), "500  true");
  const stream = session.request(
    {
      ":method": "POST",
      ":path": `${helloPath}/trailers`,
      authorization: `Bearer ${bedTokens.project}`,
      te: "trailers",
    },
    { waitForTrailers: true },
  );
  const answer = new StreamAnswer(stream);
  stream.on("wantTrailers", () => stream.sendTrailers({ "x-up": "up" }));
  stream.end("body");
  await answer.closed();
  assert.deepEqual(
    [answer.text, answer.trailers["x-end"], answer.informations[0]?.[":status"]],
    ["body", "after up", 103],
  );
});

test(
  "what an app says for one connection of HTTP/1.1 is left out, also in trailers",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t);
    bed.setReplicas(
      await readingReplica(t, (_request, response) => {
        response.writeHead(200, { TE: "gzip", "HTTP2-Settings": "AAMAAABk", "X-App": "kept" });
        response.write("body");
        response.addTrailers({ TE: "gzip", "HTTP2-Settings": "AAMAAABk", "X-End": "kept" });
        response.end();
      }),
    );
    const stream = bed.session().request({
      ":path": `${helloPath}/run`,
      authorization: `Bearer ${bedTokens.project}`,
      te: "trailers",
    });
    const answer = await new StreamAnswer(stream).closed();
    const { headers } = answer;
    assert.deepEqual([answer.status, answer.text, answer.isComplete], [200, "body", true]);
    assert.deepEqual([headers["x-app"], answer.trailers["x-end"]], ["kept", "kept"]);
    assert.deepEqual([headers["te"], headers["http2-settings"]], [undefined, undefined]);
  },
);

test("a body that is announced with Expect waits for the app's permission", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  const waiting: ServerResponse[] = [];
  bed.setReplicas(
    await httpReplica(t, (request, response) => {
      waiting.push(response);
      request.on("end", () => response.end("done"));
      request.resume();
    }),
  );
  const call = beginCall(bed.session(), "/run", {
    ":method": "POST",
    expect: "100-continue",
    body: null,
  });
  let mayContinue = false;
  call.stream.on("continue", () => {
    mayContinue = true;
    call.stream.end("body");
  });
  await until("the app has the head", () => waiting.length === 1);
  assert.equal(mayContinue, false);
  waiting[0]?.writeContinue();
  await call.closed();
  assert.deepEqual([mayContinue, call.text], [true, "done"]);
});

test(
  "an answer arrives as the app writes it, and a client that does not read holds the app up",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t);
    const answers: ServerResponse[] = [];
    bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
    const session = bed.session();
    const slow = beginCall(session, "/stream");
    const answer = await until("the app has the call", () => answers[0]);
    answer.write("first");
    await until("the first bytes are there", () => slow.text === "first");
    slow.stream.pause();
    const piece = Buffer.alloc(65_536, "x");
    let written = 0;
    await until("the app is held up", () => {
      while (written < 100_000_000 && answer.write(piece)) written += piece.length;
      return answer.writableNeedDrain && slow.stream.isPaused();
    });
    assert.ok(written < 50_000_000, `${written} bytes were taken`);
    const other = beginCall(session, "/other");
    const second = await until("another call runs beside it", () => answers[1]);
    second.end("other");
    assert.equal((await other.closed()).text, "other");
    answer.end();
    slow.stream.resume();
    assert.equal((await slow.closed()).isComplete, true);
  },
);

test(
  "a stream that its client ends leaves the app, whether its body is waiting or not",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t);
    const requests: IncomingMessage[] = [];
    bed.setReplicas(await httpReplica(t, (request) => requests.push(request)));
    const session = bed.session();
    const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR } = constants;
    for (const [body, code] of [
      ["", NGHTTP2_CANCEL],
      [null, NGHTTP2_CANCEL],
      [null, NGHTTP2_NO_ERROR],
    ] as const) {
      const before = requests.length;
      const call = beginCall(session, "/run", { ":method": "POST", body });
      if (body === null) call.stream.write(Buffer.alloc(1_000_000));
      const request = await until("the app has the call", () => requests[before]);
      call.stream.close(code);
      await untilFree(bed);
      // An app that does not read does not see the end of its connection either.
      request.resume();
      await until("the app's connection is closed", () => request.socket.destroyed);
    }
    const last = bed.session();
    beginCall(last, "/run");
    await until("the app has the call", () => requests.length === 4);
    last.destroy();
    await untilFree(bed);
    assert.equal(beginCall(session, "/run").stream.closed, false, "others go on");
  },
);

test("a body whose stream is reset is not accepted for a later run", { skip }, async (t) => {
  const bodies: Promise<unknown>[] = [];
  const accept: AsyncAccept = { accept: (call) => bodies.push(call.readBody(1_000_000)) };
  const bed = await openTlsBed(t, { options: { asyncAccept: accept } });
  const block = fieldBlock(headOf({ ":path": `${helloPath}/run?async=true` }));
  for (const code of [constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL]) {
    const before = bodies.length;
    const client = await connectRawHttp2(t, bed.tlsPort, bed.authority.certificate);
    client.send(
      frame(frameTypes.headers, flags.endHeaders, 1, block),
      frame(frameTypes.data, 0, 1, Buffer.from("half")),
    );
    await until("the body is read", () => bodies.length > before);
    client.send(frame(frameTypes.reset, 0, 1, Buffer.from([0, 0, 0, code])));
    const body = await bodies[before];
    assert.match(body instanceof Fault ? body.message : "", /The body is incomplete/);
  }
});

test("an answer that breaks off never looks complete", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      answerWith(socket, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
      socket.once("data", () => setImmediate(() => socket.end()));
    }),
  );
  const call = await beginCall(bed.session(), "/run").closed();
  assert.deepEqual([call.status, call.text, call.isComplete], [200, "half", false]);
  assert.match(call.error?.message ?? "", /NGHTTP2_/);
});

test("an answer before the end of the body stops only that body", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  bed.setReplicas(
    await httpReplica(t, (_request, response) => response.writeHead(413).end("too much")),
  );
  const session = bed.session();
  for (const [token, status] of [
    [bedTokens.project, 413],
    ["wrong", 401],
  ] as const) {
    const call = beginCall(session, "/run", {
      ":method": "POST",
      authorization: `Bearer ${token}`,
      body: null,
    });
    call.stream.write(Buffer.alloc(5_000_000));
    await call.closed();
    const { rstCode } = call.stream;
    assert.deepEqual([call.status, call.isComplete, rstCode], [status, true, 0]);
  }
  assert.equal((await beginCall(session, "/run").closed()).status, 413);
});

test("trailers of an answer before the end of the body arrive", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  bed.setReplicas(
    await httpReplica(t, (_request, response) => {
      response.writeHead(200, { trailer: "X-End" });
      response.write("enough");
      response.addTrailers({ "X-End": "after" });
      response.end();
    }),
  );
  const call = beginCall(bed.session(), "/run", { ":method": "POST", te: "trailers", body: null });
  call.stream.write(Buffer.alloc(5_000_000));
  await call.closed();
  const { rstCode } = call.stream;
  assert.deepEqual([call.text, call.trailers["x-end"], rstCode], ["enough", "after", 0]);
});

type Fields = readonly (readonly [string, string])[];
const token = ["authorization", `Bearer ${bedTokens.project}`] as const;
const headOf = (changes: Readonly<Record<string, string>>): Fields => [
  ...Object.entries({
    ":method": "POST",
    ":scheme": "https",
    ":authority": "localhost",
    ":path": `${helloPath}/run`,
    ...changes,
  }),
  token,
];

/** What becomes of a request: a status, or `reset`. */
async function fate(t: Parameters<typeof connectRawHttp2>[0], bed: TlsBed, frames: Buffer[]) {
  const client = await connectRawHttp2(t, bed.tlsPort, bed.authority.certificate);
  client.send(...frames);
  return until("the request is answered or reset", () => {
    if (client.resetCode(1) !== undefined || client.isClosed) return "reset";
    const body = client.frames.find(({ type }) => type === frameTypes.data);
    return body === undefined ? undefined : body.payload.toString();
  });
}

test("what HTTP/1.1 could read differently reaches no app", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  const heads: string[] = [];
  bed.setReplicas(
    await readingReplica(t, (request, response) => {
      heads.push(request.rawHeaders.join("|"));
      response.end("app");
    }),
  );
  const ended = flags.endHeaders + flags.endStream;
  const ask = (changes: Readonly<Record<string, string>>, more: Fields = []) => {
    const block = fieldBlock([...headOf(changes), ...more]);
    return fate(t, bed, [frame(frameTypes.headers, ended, 1, block)]);
  };
  const path = ":path";
  for (const [changes, more] of [
    [{}, [["transfer-encoding", "chunked"]]],
    [{}, [["connection", "keep-alive"]]],
    [{}, [["X-Upper", "a"]]],
    [{}, [["content-length", "5"]]],
    [{}, [[path, "/other"]]],
    [{}, [["te", "gzip"]]],
    [{ [path]: `${helloPath}/x y` }, []],
    [{ [path]: `${helloPath}/x HTTP/1.1\r\nX: y` }, []],
    [{ ":method": "GET /x" }, []],
    [{ ":method": "CONNECT", ":protocol": "websocket" }, []],
  ] satisfies [Readonly<Record<string, string>>, Fields][]) {
    assert.equal(await ask(changes, more), "reset", JSON.stringify([changes, more]));
  }
  assert.match(await ask({}, [["host", "other"]]), /Host and :authority are not the same/);
  assert.match(await ask({ ":method": "FETCH" }), /The method FETCH is not allowed/);
  assert.match(await ask({ ":method": "OPTIONS", [path]: "*" }), /must begin with a slash/);
  assert.match(await ask({}, [["expect", "200-ok"]]), /The only expectation/);
  assert.equal(heads.length, 0);
  // The library drops such fields.
  const odd: Fields = [
    ["x-a", "b\r\nX-Evil: 1"],
    ["x-b", "b\nX-Evil: 1"],
    ["x c", "b"],
  ];
  assert.equal(await ask({}, [...odd, ["__proto__", "kept"]]), "app");
  assert.match(heads[0] ?? "", /\|__proto__\|kept\|/);
  assert.doesNotMatch(heads[0] ?? "", /evil|x c|x-a|x-b/i);
});

test(
  "a body that is longer or shorter than its length is never taken for a whole one",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t);
    const bodies: string[] = [];
    bed.setReplicas(
      await readingReplica(t, (_request, response, body) => {
        bodies.push(body);
        response.end("app");
      }),
    );
    for (const [length, body] of [
      ["5", "abc"],
      ["3", "abcGET / HTTP/1.1\r\n\r\n"],
    ] as const) {
      const block = fieldBlock([...headOf({}), ["content-length", length]]);
      const frames = [
        frame(frameTypes.headers, flags.endHeaders, 1, block),
        frame(frameTypes.data, flags.endStream, 1, Buffer.from(body)),
      ];
      assert.equal(await fate(t, bed, frames), "reset");
      await untilFree(bed);
    }
    assert.deepEqual(bodies, []);
  },
);

test(
  "floods of resets and of endless heads end the connection, and leave no call behind",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t);
    bed.setReplicas(await httpReplica(t, () => undefined));
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    const resetting = await connectRawHttp2(t, bed.tlsPort, bed.authority.certificate);
    const block = fieldBlock(headOf({}));
    for (let stream = 1; stream < 40_000 && !resetting.isClosed; stream += 2) {
      resetting.send(
        frame(frameTypes.headers, flags.endHeaders + flags.endStream, stream, block),
        frame(frameTypes.reset, 0, stream, Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL])),
      );
      if (stream % 100 === 1) await turn();
    }
    await until("the connection is closed", () => resetting.isClosed);
    await untilFree(bed);
    const endless = await connectRawHttp2(t, bed.tlsPort, bed.authority.certificate);
    endless.send(frame(frameTypes.headers, 0, 1, block));
    const more = fieldBlock([["x-more", "y".repeat(1_000)]]);
    for (let count = 0; count < 10_000 && !endless.isClosed; count++) {
      endless.send(frame(frameTypes.continuation, 0, 1, more));
      if (count % 20 === 0) await turn();
    }
    await until("the connection is closed", () => endless.isClosed);
  },
);

test(
  "a head that is too long is answered, and a browser's cookies are cleared",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t);
    const session = bed.session();
    const long = Object.fromEntries(
      Array.from({ length: 4 }, (_, index) => [`x-${index}`, "y".repeat(9_000)]),
    );
    const call = await beginCall(session, "/run", long).closed();
    assert.equal(call.status, 431);
    assert.match(call.text, /longer than 32768 bytes/);
    const cookie = Array.from({ length: 4 }, (_, index) => `c${index}=${"y".repeat(9_000)}`);
    const page = { ":path": "/dashboard", "sec-fetch-mode": "navigate", cookie };
    const cleared = await beginCall(session, "", page).closed();
    assert.equal(cleared.headers["clear-site-data"], '"cookies"');
    assert.equal((await beginCall(session, "", { ":path": "/v2/x" }).closed()).status, 200);
  },
);

test("connections without a request are closed, those with a call are not", { skip }, async (t) => {
  const clock = new VirtualClock();
  const bed = await openTlsBed(t, { listenerClock: clock });
  const answers: ServerResponse[] = [];
  bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
  const silent = bed.session();
  await until("it is connected", () => silent.remoteSettings.maxConcurrentStreams === 100);
  const session = bed.session();
  const call = beginCall(session, "/run");
  await until("the app works on it", () => answers.length === 1);
  await clock.advance(31_000);
  await until("the silent one is closed", () => silent.destroyed);
  await clock.advance(600_000);
  answers[0]?.end("done");
  assert.equal((await call.closed()).text, "done");
  assert.equal(session.destroyed, false);
  await clock.advance(151_000);
  await until("the other one is closed", () => session.destroyed);
});

test("a client that reads nothing of its answer is disconnected from it", { skip }, async (t) => {
  const bed = await openTlsBed(t, {
    times: { stalledMs: 200 },
    fallback: (_request, response) => response.end(Buffer.alloc(3_000_000)),
  });
  bed.setReplicas(await readingReplica(t, (_request, response) => response.end(Buffer.alloc(8e6))));
  const session = bed.session();
  for (const path of [`${helloPath}/run`, "/v2/x"]) {
    const call = beginCall(session, "", { ":path": path });
    call.stream.pause();
    await call.closed();
    assert.equal(call.stream.rstCode, constants.NGHTTP2_CANCEL);
  }
  await untilFree(bed);
});

test("a stop lets running calls end, and clients send others elsewhere", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  const answers: ServerResponse[] = [];
  bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
  const idle = bed.session();
  assert.equal((await beginCall(idle, "", { ":path": "/v2/x" }).closed()).status, 200);
  const session = bed.session();
  const call = beginCall(session, "/run");
  await until("the app works on it", () => answers.length === 1);
  const drained = bed.listener.drain({ drainMs: 60_000 });
  await until("the idle one is closed", () => idle.destroyed);
  await until("the client knows", () => session.closed);
  const late = await beginCall(bed.session(), "/run").closed();
  assert.deepEqual([late.status, late.text.includes("stopping")], [503, true]);
  answers[0]?.end("done");
  assert.equal((await call.closed()).text, "done");
  await drained;
});

test("other requests reach the API as they do over HTTP/1.1", { skip }, async (t) => {
  const uploads: IncomingMessage[] = [];
  const bed = await openTlsBed(t, {
    times: { bodyMs: 300 },
    fallback: (request, response) => {
      request.on("error", () => undefined);
      if (request.url === "/v2/upload") return void uploads.push(request);
      if (request.url === "/v2/no-body")
        return void response.end(request.headers.trailer ?? "no trailer");
      if (request.url === "/v2/cut") {
        response.writeHead(200, { "content-length": 9 }).write("x");
        setImmediate(() => response.destroy());
        return;
      }
      let body = "";
      request.on("data", (chunk: Buffer) => (body += chunk.toString()));
      request.on("end", () => {
        const { httpVersion, headers, socket } = request;
        response.setHeader("set-cookie", ["a=1", "b=2"]);
        response.end(`${httpVersion} ${headers.host} ${socket.remoteAddress} ${body}`);
      });
    },
  });
  const session = bed.session();
  const ask = (path: string, body: string | null) =>
    beginCall(session, "", { ":path": path, ":method": "POST", body });
  for (const method of ["GET", "POST"]) {
    const fields = { ":path": "/v2/no-body", ":method": method, trailer: "x-end" };
    assert.equal((await beginCall(session, "", fields).closed()).text, "no trailer");
  }
  const posted = await ask("/v2/x", "body").closed();
  assert.equal(posted.text, `1.1 localhost:${bed.tlsPort} 127.0.0.1 body`);
  assert.deepEqual(posted.headers["set-cookie"], ["a=1", "b=2"]);
  assert.equal(posted.headers["transfer-encoding"], undefined);
  const cut = await ask("/v2/cut", "body").closed();
  assert.deepEqual([cut.text, cut.isComplete], ["x", false]);
  const client = await connectRawHttp2(t, bed.tlsPort, bed.authority.certificate);
  client.send(
    frame(frameTypes.headers, flags.endHeaders, 1, fieldBlock(headOf({ ":path": "/v2/upload" }))),
    frame(frameTypes.data, 0, 1, Buffer.from("half")),
  );
  const request = await until("the upload has begun", () => uploads[0]);
  client.send(frame(frameTypes.reset, 0, 1, Buffer.from([0, 0, 0, constants.NGHTTP2_NO_ERROR])));
  await until("the upload is broken off", () => request.destroyed);
  assert.equal(request.complete, false);
  const slow = ask("/v2/slow", null);
  slow.stream.write("x");
  await slow.closed();
  assert.equal(slow.status, 408);
  assert.match(slow.text, /took too long/);
});
