// Calls out to receivers that behave, and to many that do not, over real sockets.
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import type { OutwardAnswer } from "#lib/outward-request.ts";
import { httpReceiver, outwardClient, rawReceiver, smallPost } from "./support/outward-bed.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/** What a test looks at. */
function seen(answer: OutwardAnswer): string {
  return answer.kind === "answered"
    ? `${answer.status} ${answer.firstBytes.toString("latin1")}`
    : answer.reason;
}

test("a post arrives as it was given, and its connection is kept for the next", async (t) => {
  const requests: unknown[] = [];
  const to = await httpReceiver(t, (request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      const {
        host,
        "content-type": type,
        "user-agent": agent,
        "content-length": length,
      } = request.headers;
      requests.push([
        request.method,
        request.url,
        Buffer.concat(pieces).toString(),
        { host, type, agent, length },
      ]);
      response.writeHead(202, { "Retry-After": "7" }).end("thanks");
    });
  });
  const client = outwardClient(t);
  const post = smallPost({ headers: { "Content-Type": "text/plain" } });
  const answers = [
    await client.post(`http://receiver.test:${to.port}/hook/a?b=c%20d`, post),
    await client.post(`http://receiver.test:${to.port}/`, post),
  ];
  const fields = {
    host: `receiver.test:${to.port}`,
    type: "text/plain",
    agent: "Slipway-Test",
    length: "5",
  };
  assert.deepEqual(requests, [
    ["POST", "/hook/a?b=c%20d", "hello", fields],
    ["POST", "/", "hello", fields],
  ]);
  for (const answer of answers) {
    assert.ok(answer.kind === "answered" && answer.durationMs >= 0);
    const { status, retryAfter, firstBytes } = answer;
    assert.deepEqual([status, retryAfter, firstBytes.toString()], [202, "7", "thanks"]);
  }
  assert.equal(to.connections, 1);
});

test("a redirect is an answer and is not followed", async (t) => {
  const paths: unknown[] = [];
  const to = await httpReceiver(t, (request, response) => {
    paths.push(request.url);
    response.writeHead(307, { Location: "/other" }).end();
  });
  const answer = await outwardClient(t).post(`http://127.0.0.1:${to.port}/hook`, smallPost());
  assert.equal(seen(answer), "307 ");
  assert.deepEqual(paths, ["/hook"]);
});

test("a refused connection is told as such, without an address", async (t) => {
  const client = outwardClient(t);
  // Port 2 is nobody's; the port of a receiver that is gone may be somebody's again.
  for (const url of ["http://receiver.test:2/", "http://127.0.0.1:2/"]) {
    assert.equal(
      seen(await client.post(url, smallPost())),
      "nothing listens there: the connection was refused",
    );
  }
});

test("a connection that is reset on its first use is not tried again", async (t) => {
  const to = await rawReceiver(t, (socket) => socket.resetAndDestroy());
  const answer = await outwardClient(t).post(`http://127.0.0.1:${to.port}/`, smallPost());
  assert.equal(seen(answer), "the receiver closed the connection without an answer");
  assert.equal(to.connections, 1);
});

for (const [name, end] of [
  ["closed", "destroy"],
  ["reset", "resetAndDestroy"],
] as const) {
  test(`a kept connection that is ${name} as it is used again leads to one more try, on a new one although more are kept`, async (t) => {
    const served = new Set<Socket>();
    const held: Socket[] = [];
    const to = await rawReceiver(t, (socket) => {
      if (served.has(socket)) return void socket[end]();
      served.add(socket);
      if (held.push(socket) >= 3) for (const one of held) one.write(ok);
    });
    const client = outwardClient(t);
    const url = `http://127.0.0.1:${to.port}/`;
    const first = await Promise.all([1, 2, 3].map(() => client.post(url, smallPost())));
    assert.deepEqual([...first.map(seen), to.connections], ["200 ok", "200 ok", "200 ok", 3]);
    assert.equal(seen(await client.post(url, smallPost())), "200 ok");
    assert.equal(to.connections, 4);
  });
}

test("a kept connection that breaks off within the answer is not tried again", async (t) => {
  const to = await rawReceiver(t, (socket, requests) => {
    if (requests === 1) socket.write(ok);
    else socket.end("HTTP/1.1 200 OK\r\nContent-");
  });
  const client = outwardClient(t);
  const url = `http://127.0.0.1:${to.port}/`;
  await client.post(url, smallPost());
  assert.equal(
    seen(await client.post(url, smallPost())),
    "the receiver closed the connection without an answer",
  );
  assert.equal(to.connections, 1);
});

test("a receiver that always closes kept connections is asked once more, not for ever", async (t) => {
  const to = await rawReceiver(t, (socket, requests) => {
    if (requests === 1) socket.write(ok);
    else socket.resetAndDestroy();
  });
  const client = outwardClient(t);
  const url = `http://127.0.0.1:${to.port}/`;
  await client.post(url, smallPost());
  assert.equal(
    seen(await client.post(url, smallPost())),
    "the receiver closed the connection without an answer",
  );
  assert.equal(to.connections, 2);
});

test("what is not HTTP/1.1 is no answer", async (t) => {
  for (const garbage of [
    "<html>hello</html>",
    "HTTP/0.9 200 OK\r\n\r\n",
    "HTTP/2.0 200 OK\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "\0\0\0\0",
  ]) {
    const to = await rawReceiver(t, (socket) => void socket.write(garbage));
    const answer = await outwardClient(t).post(`http://127.0.0.1:${to.port}/`, smallPost());
    assert.equal(seen(answer), "its answer is not HTTP/1.1", JSON.stringify(garbage));
  }
});

test("informational answers are passed over, but not without end", async (t) => {
  const early = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
  const some = await rawReceiver(
    t,
    (socket) => void socket.write(`HTTP/1.1 100 Continue\r\n\r\n${early}${ok}`),
  );
  const client = outwardClient(t);
  assert.equal(seen(await client.post(`http://127.0.0.1:${some.port}/`, smallPost())), "200 ok");
  const endless = await rawReceiver(t, (socket) => {
    const more = (): void => {
      let hasRoom = true;
      while (hasRoom && !socket.destroyed) hasRoom = socket.write(early);
    };
    socket.on("drain", more);
    more();
  });
  const answer = await client.post(`http://127.0.0.1:${endless.port}/`, smallPost());
  assert.equal(seen(answer), "it sent too many informational answers (1xx)");
  await until("the connection is closed", () => endless.sockets.size === 0);
});

test("a switch of protocols is no answer", async (t) => {
  const head =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
  const to = await rawReceiver(t, (socket) => void socket.write(head));
  const answer = await outwardClient(t).post(`http://127.0.0.1:${to.port}/`, smallPost());
  assert.equal(seen(answer), "it switched to another protocol without being asked");
  await until("the connection is closed", () => to.sockets.size === 0);
});

test("an endless head ends the call", async (t) => {
  const to = await rawReceiver(t, (socket) => {
    const more = (): void => {
      let hasRoom = true;
      while (hasRoom && !socket.destroyed) hasRoom = socket.write("X-More: and more of it\r\n");
    };
    socket.on("drain", more);
    socket.write("HTTP/1.1 200 OK\r\n");
    more();
  });
  const answer = await outwardClient(t).post(`http://127.0.0.1:${to.port}/`, smallPost());
  assert.equal(seen(answer), "the head of its answer is too long");
  await until("the connection is closed", () => to.sockets.size === 0);
});

test("of an endless body the beginning is kept, and the connection is closed", async (t) => {
  const to = await httpReceiver(t, (request, response) => {
    const more = (): void => {
      let hasRoom = true;
      while (hasRoom && !response.destroyed) hasRoom = response.write("x".repeat(1_000));
    };
    request.resume();
    response.on("drain", more);
    more();
  });
  // The client's clock stands still: the call ends because of what came.
  const client = outwardClient(t, { clock: new VirtualClock() });
  const answer = await client.post(
    `http://127.0.0.1:${to.port}/`,
    smallPost({ answerBytesMax: 1_500 }),
  );
  assert.equal(seen(answer), `200 ${"x".repeat(1_500)}`);
  await until("the connection is closed", () => to.sockets.size === 0);
});

test("a body somewhat longer than what is kept does not cost the connection", async (t) => {
  const to = await httpReceiver(t, (request, response) => {
    request.resume();
    // In pieces, so that what is kept is long complete when the rest comes.
    let pieces = 20;
    const more = (): void => {
      response.write("x".repeat(2_500));
      if (--pieces > 0) setImmediate(more);
      else response.end();
    };
    more();
  });
  const client = outwardClient(t);
  const post = smallPost({ answerBytesMax: 10 });
  for (let count = 0; count < 3; count++) {
    assert.equal(seen(await client.post(`http://127.0.0.1:${to.port}/`, post)), "200 xxxxxxxxxx");
  }
  assert.equal(to.connections, 1);
});

test("a head counts although its body breaks off", async (t) => {
  const to = await rawReceiver(
    t,
    (socket) =>
      void socket.end("HTTP/1.1 503 Busy\r\nRetry-After: 9\r\nContent-Length: 100\r\n\r\nhalf"),
  );
  const answer = await outwardClient(t).post(`http://127.0.0.1:${to.port}/`, smallPost());
  assert.ok(answer.kind === "answered");
  assert.deepEqual([seen(answer), answer.retryAfter], ["503 half", "9"]);
});

test("a receiver that never answers, or drips its head, is given up on in time", async (t) => {
  for (const beginning of ["", "HTTP/1.1 200 OK\r\nX-Slow: "]) {
    const clock = new VirtualClock();
    let hasCome = false;
    const to = await rawReceiver(t, (socket) => {
      hasCome = true;
      socket.write(beginning);
    });
    const answer = outwardClient(t, { clock }).post(`http://127.0.0.1:${to.port}/`, smallPost());
    await until("the request has come", () => hasCome);
    let isOver = false;
    void answer.then(() => (isOver = true));
    // A byte now and then extends nothing.
    for (let second = 0; second < 19; second++) {
      for (const socket of to.sockets) if (beginning !== "") socket.write("x");
      await clock.advance(1_000);
    }
    assert.equal(isOver, false);
    await clock.advance(1_000);
    assert.deepEqual(await answer, {
      kind: "failed",
      reason: "no answer within 20000 ms",
      durationMs: 20_000,
    });
    await until("the connection is closed", () => to.sockets.size === 0);
  }
});

test("a head counts when its body is slow, after a while that is short", async (t) => {
  const clock = new VirtualClock();
  let hasCome = false;
  const to = await httpReceiver(t, (request, response) => {
    request.resume();
    response.write("slow");
    hasCome = true;
  });
  const answer = outwardClient(t, { clock }).post(`http://127.0.0.1:${to.port}/`, smallPost());
  let over: OutwardAnswer | undefined;
  void answer.then((ended) => (over = ended));
  await until("the request has come", () => hasCome);
  await until("the body's deadline is over", async () => {
    await clock.advance(1_000);
    return over;
  });
  assert.ok(over !== undefined && over.durationMs < 20_000);
  assert.equal(seen(over), "200 slow");
  await until("the connection is closed", () => to.sockets.size === 0);
});

test("a receiver that does not read the request is given up on in time", async (t) => {
  const clock = new VirtualClock();
  const to = await rawReceiver(t, (socket) => void socket.pause());
  const answer = outwardClient(t, { clock }).post(
    `http://127.0.0.1:${to.port}/`,
    smallPost({ body: Buffer.alloc(50_000_000) }),
  );
  await until("it is connected", () => to.connections === 1);
  await clock.advance(20_000);
  assert.equal(seen(await answer), "no answer within 20000 ms");
});

test("an answer that comes before the request was read counts, and the connection is not used again", async (t) => {
  const to = await rawReceiver(t, (socket) => {
    socket.pause();
    socket.write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
  });
  const client = outwardClient(t);
  const post = smallPost({ body: Buffer.alloc(50_000_000) });
  assert.equal(seen(await client.post(`http://127.0.0.1:${to.port}/`, post)), "413 ");
  // The end of the connection is seen behind what has been sent; the rest of the body is not.
  for (const socket of to.sockets) socket.removeAllListeners("data").resume();
  await until("the connection is closed", () => to.sockets.size === 0);
});

test("a field that cannot be sent fails the call instead of throwing", async (t) => {
  const answer = await outwardClient(t).post(
    "http://receiver.test/",
    smallPost({ headers: { "X-A": "b\r\nX-C: d" } }),
  );
  assert.equal(seen(answer), "a header field has a character that may not be sent");
});

test("closing ends calls under way and refuses new ones", async (t) => {
  let hasCome = false;
  const to = await rawReceiver(t, () => (hasCome = true));
  const client = outwardClient(t, { perReceiverMax: 1 });
  const url = `http://127.0.0.1:${to.port}/`;
  const answers = [client.post(url, smallPost()), client.post(url, smallPost())];
  await until("the request has come", () => hasCome);
  client.close();
  answers.push(client.post(url, smallPost()));
  for (const answer of await Promise.all(answers)) {
    assert.equal(seen(answer), "the platform is stopping");
  }
  await until("the connection is closed", () => to.sockets.size === 0);
});

test("a receiver that does not answer holds up only calls to itself, and not too many of them", async (t) => {
  let waiting = 0;
  const slow = await rawReceiver(t, () => waiting++);
  const fast = await httpReceiver(
    t,
    (request, response) => void request.resume().on("end", () => response.end("ok")),
  );
  const clock = new VirtualClock();
  const client = outwardClient(t, { clock, perReceiverMax: 2, totalMax: 3 });
  const held = Array.from({ length: 10 }, () =>
    client.post(`http://127.0.0.1:${slow.port}/`, smallPost()),
  );
  await until("two calls are under way", () => waiting === 2);
  for (let count = 0; count < 5; count++) {
    assert.equal(seen(await client.post(`http://127.0.0.1:${fast.port}/`, smallPost())), "200 ok");
  }
  assert.equal(slow.connections, 2);
  await clock.advance(20_000);
  const reasons = (await Promise.all(held)).map(seen);
  assert.deepEqual(
    [reasons.filter((one) => one.startsWith("no answer")).length, new Set(reasons).size],
    [2, 2],
  );
  assert.equal(reasons.at(-1), "too many calls were under way for 20000 ms");
});

test("waiting calls are sent in their order as soon as there is room", async (t) => {
  const bodies: string[] = [];
  const to = await httpReceiver(t, (request, response) => {
    request.on("data", (piece: Buffer) => bodies.push(piece.toString()));
    request.on("end", () => response.end("ok"));
  });
  const client = outwardClient(t, { perReceiverMax: 1 });
  const sent = Array.from({ length: 20 }, (_, index) => String(index));
  const posts = sent.map((text) =>
    client.post(`http://127.0.0.1:${to.port}/`, smallPost({ body: Buffer.from(text) })),
  );
  for (const answer of await Promise.all(posts)) assert.equal(seen(answer), "200 ok");
  assert.deepEqual([bodies, to.connections], [sent, 1]);
});

test("idle connections to many receivers are bounded", async (t) => {
  const to = await httpReceiver(
    t,
    (request, response) => void request.resume().on("end", () => response.end("ok")),
  );
  const client = outwardClient(t);
  const post = (index: number) => client.post(`http://r${index}.test:${to.port}/`, smallPost());
  // Many at once: what is idle for 15 s is closed anyway.
  for (let first = 0; first < 600; first += 50)
    await Promise.all(Array.from({ length: 50 }, (_, at) => post(first + at)));
  assert.equal(to.connections, 600);
  await until("the oldest are closed", () => to.sockets.size === 512);
  await post(599);
  assert.equal(to.connections, 600);
});
