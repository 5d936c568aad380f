// Bodies, streams and all that comes in parts, through the proxy over real sockets: passed on as it
// comes, held up when the other side is slow, and never changed.
import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import {
  answerWith,
  helloPath,
  httpReplica,
  bothWays,
  Flood,
  openProxyBed,
  rawReplica,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

/**
 * Resolves once the number has begun to grow and does not grow any more. Client, proxy and app are
 * in this process: where anything can move, the next turns of the event loop move it, however slow
 * the machine is.
 */
async function untilStill(what: string, count: () => number): Promise<void> {
  await until(what, async () => {
    const before = count();
    for (let turn = 0; turn < 500; turn++) await new Promise((resolve) => setImmediate(resolve));
    return before > 0 && count() === before;
  });
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

test(
  "the first bytes of a stream arrive while the app is still working on the rest",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const steps: (() => void)[] = [];
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.flushHeaders();
        steps.push(
          () => response.write("data: one\n\n"),
          () => response.end("data: two\n\n"),
        );
      }),
    );
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/stream`);
    await client.sees("text/event-stream");
    assert.ok(!client.text.includes("data:"));
    steps[0]?.();
    await client.sees("data: one");
    assert.ok(!client.text.includes("data: two"));
    steps[1]?.();
    await client.sees("data: two");
    await client.sees("0\r\n\r\n");
  }),
);

test(
  "the app gets the first part of a body while the client is still sending the rest",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let got = "";
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        request.on("data", (chunk: Buffer) => (got += chunk.toString()));
        request.on("end", () => response.end(`got ${got}`));
      }),
    );
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/run`, ["Transfer-Encoding: chunked"], "5\r\nfirst\r\n");
    await until("the app has the first part", () => got === "first");
    client.send("7\r\n,second\r\n0\r\n\r\n");
    await client.sees("got first,second");
  }),
);

test(
  "a long answer waits for a slow client instead of filling the memory",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const total = 64 * 1024 * 1024;
    let sent = 0;
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        response.writeHead(200, { "content-length": total });
        const more = (): void => {
          while (sent < total && response.write(Buffer.alloc(65_536))) sent += 65_536;
          if (sent < total) {
            sent += 65_536;
            response.once("drain", more);
          } else response.end();
        };
        more();
      }),
    );
    const client = await bed.connect();
    client.socket.pause();
    client.ask(`GET ${helloPath}/big`);
    await untilStill("the app can send no more", () => sent);
    assert.ok(sent < total / 2, `${sent} bytes went out although nobody reads`);
    let received = 0;
    client.socket.removeAllListeners("data");
    client.socket.on("data", (chunk: Buffer) => (received += chunk.length));
    client.socket.resume();
    await until("the client has all of it", () => received > total, { deadlineMs: 60_000 });
  }),
);

test(
  "a long body waits for a slow app instead of filling the memory",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { limits: { bodyBytesMax: 200_000_000 } });
    const total = 64 * 1024 * 1024;
    let resume: () => void = () => undefined;
    let received = 0;
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        request.pause();
        resume = () => {
          request.on("data", (chunk: Buffer) => (received += chunk.length));
          request.on("end", () => response.end(`got ${received}`));
          request.resume();
        };
      }),
    );
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/big`, [`Content-Length: ${total}`]);
    const flood = new Flood(client.socket, total);
    await flood.isStuck();
    assert.ok(
      flood.sentBytes < total / 2,
      `${flood.sentBytes} bytes left although the app does not read`,
    );
    resume();
    await client.sees(`got ${total}`);
  }),
);

test(
  "trailers reach a client that takes them",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, (_request, response) => {
        response.writeHead(200, { trailer: "X-Sum" });
        response.write("body");
        response.addTrailers({ "X-Sum": "1" });
        response.end();
      }),
    );
    const taking = await bed.connect();
    taking.ask(`GET ${helloPath}/run`, ["TE: trailers"]);
    await taking.sees("0\r\nX-Sum: 1\r\n\r\n");
    assert.match(taking.text, /\r\nTrailer: X-Sum\r\n/);
    const other = await bed.connect();
    other.ask(`GET ${helloPath}/run`);
    await other.sees("0\r\n\r\n");
    assert.doesNotMatch(other.text, /X-Sum/);
  }),
);

test(
  "trailers of a chunked body reach the app",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, async (request, response) => {
        await bodyOf(request);
        response.end(JSON.stringify(request.trailers));
      }),
    );
    const client = await bed.connect();
    client.ask(
      `POST ${helloPath}/run`,
      ["Transfer-Encoding: chunked"],
      "4\r\nbody\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    await client.sees('{"x-sum":"1"}');
  }),
);

test(
  "a client that waits for leave to send its body gets it from the app",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, async (request, response) => {
        if (request.url === "/no") {
          response.writeHead(413).end("not that much");
          return;
        }
        response.writeContinue();
        response.end(`got ${await bodyOf(request)}`);
      }),
    );
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/yes`, ["Expect: 100-continue", "Content-Length: 4"]);
    await client.sees("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    await client.sees("got body");
    const refused = await bed.connect();
    refused.ask(`POST ${helloPath}/no`, ["Expect: 100-continue", "Content-Length: 4"]);
    await refused.sees("not that much");
    assert.doesNotMatch(refused.text, /100 Continue/);
    await refused.sawEnd();
  }),
);

test(
  "early hints of the app are handed on before its answer",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await rawReplica(t, (socket) =>
        answerWith(
          socket,
          "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        ),
      ),
    );
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run`);
    await client.sees("\r\n\r\nok");
    assert.match(
      client.text,
      /^HTTP\/1\.1 103 Early Hints\r\nLink: <\/a>\r\n\r\nHTTP\/1\.1 200 OK\r\n/,
    );
  }),
);

test(
  "several calls that are sent at once on one connection are answered in their order",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { settings: { replicaConcurrency: 10 } });
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        if (request.url === "/first") setImmediate(() => setImmediate(() => response.end("first")));
        else response.end(request.url?.slice(1));
      }),
    );
    const client = await bed.connect();
    for (const name of ["first", "second", "third"]) client.ask(`GET ${helloPath}/${name}`);
    await client.sees("third");
    assert.ok(client.text.indexOf("first") < client.text.indexOf("second"));
    assert.ok(client.text.indexOf("second") < client.text.indexOf("third"));
  }),
);

test(
  "bytes that are not text pass both ways unchanged",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        response.writeHead(200, {
          "content-disposition": Buffer.from("attachment; filename=é").toString("latin1"),
        });
        request.pipe(response);
      }),
    );
    for (const size of [1, 256, 5_000, 20_000, 300_000]) {
      const bytes = Buffer.from(Array.from({ length: size }, (_, index) => (index * 7) % 256));
      const response = await bed.call("/echo", { method: "POST", body: bytes });
      assert.ok(bytes.equals(Buffer.from(await response.arrayBuffer())), `${size} bytes`);
      assert.equal(
        Buffer.from(response.headers.get("content-disposition") ?? "", "latin1").toString(),
        "attachment; filename=é",
      );
    }
  }),
);

test("a small body that comes right after its head is sent on whole, a slow one as it comes", async (t) => {
  const bed = await openProxyBed(t);
  let got = "";
  const parts: string[] = [];
  bed.setReplicas(
    await httpReplica(t, (request, response) => {
      got = "";
      request.on("data", (chunk: Buffer) => {
        got += chunk.toString();
        parts.push(chunk.toString());
      });
      request.on("end", () => response.end(`got ${got}`));
    }),
  );
  const client = await bed.connect();
  client.ask(`POST ${helloPath}/run`, ["Content-Length: 4"]);
  client.send("body");
  await client.sees("got body");
  assert.deepEqual(parts, ["body"]);
  client.ask(`POST ${helloPath}/run`, ["Content-Length: 8"], "half");
  await until("the app has the first half", () => got === "half");
  client.send("done");
  await client.sees("got halfdone");
  client.ask(`GET ${helloPath}/run`);
  await until("the connection serves on", () => client.text.split("got ").length === 4);
});

test(
  "what a client sends before its answer waits until then instead of filling the memory",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const answers: (() => void)[] = [];
    bed.setReplicas(
      await httpReplica(t, (_request, response) => answers.push(() => response.end("answer"))),
    );
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/run`);
    await until("the app works on it", () => answers.length === 1);
    const early = `POST ${helloPath}/early HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000000\r\n\r\n`;
    client.send(early);
    const flood = new Flood(client.socket, 64 * 1024 * 1024);
    await flood.isStuck();
    assert.ok(
      flood.sentBytes < 32 * 1024 * 1024,
      `${flood.sentBytes} bytes left although nobody wants them`,
    );
    answers[0]?.();
    await client.sees("HTTP/1.1 401 ");
    assert.ok(client.text.indexOf("answer") < client.text.indexOf("HTTP/1.1 401 "), client.text);
  }),
);
