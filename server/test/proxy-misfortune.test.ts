// What goes wrong around a call: clients that go away, replicas that break off, hang, or lie about
// their answers. The client always learns the truth, the other side is let go at once, and the
// replica's place is free again.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { test } from "node:test";
import { VirtualClock } from "./support/virtual-clock.ts";
import {
  answerWith,
  helloPath,
  httpReplica,
  bothWays,
  rawReplica,
  replicaIdOf,
  untilFree,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

test(
  "when a client goes away, its replica's connection is closed at once",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let isClosed = false;
    let hasCall = false;
    const port = await httpReplica(t, (_request, response) => {
      hasCall = true;
      response.write("begun");
      response.on("close", () => (isClosed = true));
    });
    bed.setReplicas(port);
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run`);
    await until("the app works on it", () => hasCall);
    assert.equal(bed.proxy.apps.running(replicaIdOf(port)), 1);
    client.socket.destroy();
    await until("the app sees that nobody waits", () => isClosed);
    await untilFree(bed);
    assert.equal(bed.finished[0]?.outcome, "client_gone");
  }),
);

test(
  "when a client goes away before the app has answered at all, its place is free for the next",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { settings: { replicaConcurrency: 1 } });
    const answers: ServerResponse[] = [];
    bed.setReplicas(await httpReplica(t, (_request, response) => answers.push(response)));
    const first = await bed.connect();
    first.ask(`POST ${helloPath}/run`, ["Content-Length: 10"], "half");
    await until("the app works on it", () => answers.length === 1);
    const second = await bed.connect();
    second.ask(`GET ${helloPath}/run`);
    await until("the second waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
    first.socket.destroy();
    await until("the second runs", () => answers.length === 2);
    answers[1]?.end("mine");
    await second.sees("mine");
  }),
);

test(
  "a client that goes away while it waits leaves the line",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const one = await bed.connect();
    const two = await bed.connect();
    one.ask(`GET ${helloPath}/one`);
    two.ask(`GET ${helloPath}/two`);
    await until("both wait", () => bed.proxy.apps.demandOf(bed.appId).waiting === 2);
    one.socket.destroy();
    await until("one waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
    const asked: string[] = [];
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        asked.push(request.url ?? "");
        response.end("done");
      }),
    );
    await two.sees("done");
    assert.deepEqual(asked, ["/two"]);
  }),
);

test(
  "a replica that breaks off in the middle of an answer leaves an answer that is visibly not whole",
  bothWays(async (t, openBed) => {
    for (const head of ["Content-Length: 100", "Transfer-Encoding: chunked"]) {
      const bed = await openBed(t);
      const body = head.startsWith("T") ? "4\r\npart\r\n" : "part";
      bed.setReplicas(
        await rawReplica(t, (socket) =>
          socket.once("data", () => socket.end(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${body}`)),
        ),
      );
      const client = await bed.connect();
      client.ask(`GET ${helloPath}/run`);
      await client.sees("part");
      await client.sawEnd();
      assert.ok(!client.text.endsWith("0\r\n\r\n"), "the end of a whole answer was made up");
      await untilFree(bed);
      assert.equal(bed.finished[0]?.outcome, "cut");
    }
  }),
);

test(
  "a replica that closes without an answer is a 502 that says so",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(await rawReplica(t, (socket) => socket.once("data", () => socket.destroy())));
    const response = await bed.call("/run", { method: "POST", body: "{}" });
    assert.equal(response.status, 502);
    assert.match(
      await response.text(),
      /The app's replica failed: the replica closed the connection\./,
    );
    assert.match(response.headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/);
    await untilFree(bed);
  }),
);

test(
  "answers that are not HTTP/1.1 are a 502, nothing of them reaches the client, and the connection is not used again",
  bothWays(async (t, openBed) => {
    const hostile = [
      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nevil",
      "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 8\r\n\r\nevil",
      "HTTP/1.1 200 OK\r\nX-Evil: a\r\n evil\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 200 OK\nContent-Length: 4\n\nevil",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: evil\r\n\r\n",
      `HTTP/1.1 200 OK\r\nX-Evil: ${"evil".repeat(20_000)}\r\n\r\n`,
      "evil",
    ];
    for (const answer of hostile) {
      const bed = await openBed(t);
      let connections = 0;
      bed.setReplicas(
        await rawReplica(t, (socket) => {
          connections++;
          if (connections === 1) socket.once("data", () => socket.write(answer, "latin1"));
          else answerWith(socket, good);
        }),
      );
      const response = await bed.call("/run");
      assert.equal(response.status, 502, answer.slice(0, 60));
      assert.doesNotMatch(
        `${JSON.stringify([...response.headers])}${await response.text()}`,
        /evil/i,
      );
      assert.equal(await (await bed.call("/run")).text(), "good");
      assert.equal(connections, 2);
    }
  }),
);

test(
  "bytes that a replica sends after an answer never become the answer to somebody else's call",
  bothWays(async (t, openBed) => {
    const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    for (const isSentLater of [false, true]) {
      const bed = await openBed(t, { settings: { replicaConcurrency: 1 } });
      const sockets: Socket[] = [];
      bed.setReplicas(
        await rawReplica(t, (socket) => {
          sockets.push(socket);
          answerWith(socket, isSentLater || sockets.length > 1 ? good : good + forged);
        }),
      );
      // The second call waits for the first, and so begins in the very moment in which that ends.
      const answers = await Promise.all(
        [bed.call("/one"), bed.call("/two")].map(async (call) => (await call).text()),
      );
      assert.deepEqual(answers, ["good", "good"]);
      if (isSentLater) {
        const before = sockets.length;
        const closed = sockets.map((socket) =>
          until("the proxy closes it", () => socket.destroyed || socket.readableEnded),
        );
        for (const socket of sockets) socket.write(forged);
        for (const socket of sockets) socket.resume();
        await Promise.all(closed);
        assert.equal(await (await bed.call("/three")).text(), "good");
        assert.equal(sockets.length, before + 1);
      }
    }
  }),
);

test(
  "a connection that the replica closes while a repeatable call is being sent is replaced without anybody noticing",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let connections = 0;
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        connections++;
        const isFirst = connections === 1;
        let calls = 0;
        socket.on("data", () => {
          calls++;
          if (isFirst && calls === 2) socket.destroy();
          else socket.write(good);
        });
      }),
    );
    assert.equal(await (await bed.call("/one")).text(), "good");
    assert.equal(await (await bed.call("/two")).text(), "good");
    assert.equal(connections, 2);
  }),
);

test(
  "a call that may not be repeated is sent once, whatever becomes of it",
  bothWays(async (t, openBed) => {
    // Neither one with an effect, nor one of whose body something was sent.
    for (const init of [
      { method: "POST" },
      { method: "POST", body: "{}" },
      { method: "PUT", body: "{}" },
    ]) {
      const bed = await openBed(t);
      let received = 0;
      bed.setReplicas(
        await rawReplica(t, (socket) => {
          let calls = 0;
          socket.on("data", (chunk: Buffer) => {
            if (chunk.includes(`${init.method} `)) received++;
            calls++;
            if (calls === 2) socket.destroy();
            else socket.write(good);
          });
        }),
      );
      await (await bed.call("/warm")).text();
      assert.equal((await bed.call("/pay", init)).status, 502);
      assert.equal(received, 1);
    }
  }),
);

test(
  "an app that does not answer in time is a 504, and its connection is closed",
  bothWays(async (t, openBed) => {
    const clock = new VirtualClock();
    const bed = await openBed(t, { clock, settings: { responseGracePeriodSeconds: 20 } });
    let isClosed = false;
    let hasCall = false;
    bed.setReplicas(
      await httpReplica(t, (request) => {
        hasCall = true;
        request.socket.on("close", () => (isClosed = true));
      }),
    );
    const answer = bed.call("/run");
    await until("the app works on it", () => hasCall);
    await clock.advance(19_900);
    assert.equal(bed.proxy.apps.demandOf(bed.appId).running, 1);
    await clock.advance(300);
    const response = await answer;
    assert.equal(response.status, 504);
    assert.match(await response.text(), /responseGracePeriodSeconds \(20 s\)/);
    await until("the app's connection is closed", () => isClosed);
  }),
);

test(
  "an answer that takes longer than a call may is cut where it is",
  bothWays(async (t, openBed) => {
    const clock = new VirtualClock();
    const bed = await openBed(t, { clock, settings: { responseGracePeriodSeconds: 20 } });
    bed.setReplicas(await httpReplica(t, (_request, response) => response.write("begun")));
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run`);
    await client.sees("begun");
    await clock.advance(20_200);
    await client.sawEnd();
    assert.equal(bed.finished[0]?.outcome, "cut");
  }),
);

test(
  "a call that waits too long is a 504 of its own",
  bothWays(async (t, openBed) => {
    const clock = new VirtualClock();
    const bed = await openBed(t, { clock, limits: { lineWaitMs: 5_000 } });
    const answer = bed.call("/run");
    await until("it waits", () => bed.proxy.apps.demandOf(bed.appId).waiting === 1);
    await clock.advance(5_200);
    const response = await answer;
    assert.equal(response.status, 504);
    assert.match(await response.text(), /No replica of the app had a free slot/);
    await untilFree(bed);
  }),
);

test(
  "an answer before the end of the body is handed on, and the connection is not used again",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let connections = 0;
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        connections++;
        socket.once("data", () =>
          socket.write("HTTP/1.1 429 Slow Down\r\nContent-Length: 5\r\n\r\nlater"),
        );
      }),
    );
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/run`, ["Content-Length: 100000"], "only a part");
    await client.sees("\r\n\r\nlater");
    await untilFree(bed);
    client.send("x".repeat(100_000 - 11));
    client.ask(`GET ${helloPath}/next`);
    await until("another connection is made", () => connections === 2);
  }),
);

test(
  "a client cannot make its body pass for another call of the app",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const lines: string[] = [];
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        lines.push(`${request.method} ${request.url}`);
        request.resume();
        request.on("end", () => response.end("ok"));
      }),
    );
    const smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    const attempts: [string[], string][] = [
      [["Content-Length: 5", "Transfer-Encoding: chunked"], `0\r\n\r\n${smuggled}`],
      [["Transfer-Encoding: chunked", "Transfer-Encoding: identity"], `0\r\n\r\n${smuggled}`],
      [["Transfer-Encoding: xchunked"], smuggled],
      [["Content-Length: 0", `Content-Length: ${smuggled.length}`], smuggled],
      [["Connection: content-length", `Content-Length: ${smuggled.length}`], smuggled],
      [["Content-Length : 3"], smuggled],
      [["X: y\nTransfer-Encoding: chunked"], smuggled],
    ];
    for (const [fields, body] of attempts) {
      const client = await bed.connect();
      client.ask(`POST ${helloPath}/honest`, fields, body);
      await client.sees("HTTP/1.1 ");
      client.socket.destroy();
    }
    await untilFree(bed);
    assert.deepEqual(
      lines.filter((line) => line.includes("smuggled")),
      [],
    );
  }),
);
