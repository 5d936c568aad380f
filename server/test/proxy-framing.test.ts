// Requests whose end or version could be read in two ways, and bytes behind a request that says it
// is the last one: each request is answered once or refused once, in its turn, and whatever cannot
// be read for sure ends the connection.
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import {
  bedTokens,
  bothWays,
  helloPath,
  httpReplica,
  type ProxyBed,
  type RawClient,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const token = `Authorization: Bearer ${bedTokens.project}`;
const head = (line: string, ...fields: string[]): string =>
  `${[line, "Host: test", token, ...fields].join("\r\n")}\r\n\r\n`;
const statuses = (text: string): string[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status ?? "");

/** What a client sees that sends the pieces one after the other, until the connection is closed. */
async function say(bed: ProxyBed, ...pieces: string[]): Promise<RawClient> {
  const client = await bed.connect();
  client.socket.setNoDelay(true);
  for (const piece of pieces) client.send(piece);
  await client.sawEnd();
  return client;
}

const lasts = [
  ["with Connection: close", head(`GET ${helloPath}/run HTTP/1.1`, "Connection: close")],
  ["of HTTP/1.0", head(`GET ${helloPath}/run HTTP/1.0`)],
  ["of HTTP/1.0 with a body", `${head(`POST ${helloPath}/run HTTP/1.0`, "Content-Length: 2")}hi`],
  [
    "with a body and Connection: close",
    `${head(`POST ${helloPath}/run HTTP/1.1`, "Content-Length: 2", "Connection: close")}hi`,
  ],
] as const;
const behind = [
  "\r\n\r\n",
  "x",
  "not http at all\r\n\r\n",
  head(`GET ${helloPath}/more HTTP/1.1`),
  "y".repeat(70_000),
];

for (const [what, request] of lasts) {
  test(
    `a request ${what} is answered, and bytes behind it are not read`,
    bothWays(async (t, openBed) => {
      const bed = await openBed(t);
      const seen: string[] = [];
      const waiting: ServerResponse[] = [];
      bed.setReplicas(
        await httpReplica(t, (asked, response) => {
          seen.push(asked.url ?? "");
          waiting.push(response);
        }),
      );
      for (const [index, rest] of behind.entries()) {
        const client = await bed.connect();
        client.send(request + rest);
        await until("the app has it", () => waiting.length === index + 1);
        client.send("and more");
        waiting[index]?.end("answer");
        await client.sawEnd();
        assert.deepEqual(statuses(client.text), ["200"], JSON.stringify(rest.slice(0, 30)));
        assert.match(client.text, /\r\nConnection: close\r\n.*answer/s);
      }
      assert.deepEqual(
        seen,
        behind.map(() => "/run"),
      );
    }),
  );
}

test(
  "a transfer coding that is not understood is refused once, and nothing is sent to the app",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let calls = 0;
    bed.setReplicas(await httpReplica(t, (_asked, response) => response.end(String(++calls))));
    for (const coding of [
      "chunked;x",
      "chunked;q=1",
      "gzip",
      "gzip, chunked",
      "identity",
      "chunked, identity",
      "xchunked",
    ]) {
      for (const method of ["GET", "POST"]) {
        const request = head(`${method} ${helloPath}/run HTTP/1.1`, `Transfer-Encoding: ${coding}`);
        const client = await say(bed, `${request}0\r\n\r\n`);
        const [status, ...more] = statuses(client.text);
        assert.match(status ?? "none", /^(?:400|501)$/, coding);
        assert.deepEqual(more, [], coding);
      }
    }
    assert.equal(calls, 0);
  }),
);

test(
  "a request of HTTP/1.0 with a transfer coding is refused, and its connection closed",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let calls = 0;
    bed.setReplicas(await httpReplica(t, (_asked, response) => response.end(String(++calls))));
    for (const path of [`${helloPath}/run`, "/v2/x"]) {
      for (const fields of [[], ["Connection: keep-alive"], ["Expect: 100-continue"]]) {
        const request = head(`POST ${path} HTTP/1.0`, "Transfer-Encoding: chunked", ...fields);
        const client = await say(
          bed,
          `${request}2\r\nhi\r\n0\r\n\r\n${head(`GET ${path} HTTP/1.0`)}`,
        );
        assert.deepEqual(statuses(client.text), ["400"]);
        assert.match(client.text, /"message":"HTTP\/1\.0 does not support Transfer-Encoding/);
      }
    }
    assert.equal(calls, 0);
  }),
);

test(
  "versions other than HTTP/1.0 and HTTP/1.1 are refused with 505",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let calls = 0;
    bed.setReplicas(await httpReplica(t, (_asked, response) => response.end(String(++calls))));
    for (const version of ["0.9", "2.0", "1.2", "3.0"]) {
      for (const path of [`${helloPath}/run`, "/v2/x"]) {
        const client = await say(
          bed,
          head(`GET ${path} HTTP/${version}`, "Connection: keep-alive"),
        );
        assert.match(client.text, /^HTTP\/1\.1 505 HTTP Version Not Supported\r\n/, version);
        assert.deepEqual(statuses(client.text), ["505"]);
      }
      const upgrade = ["Connection: Upgrade", "Upgrade: websocket"];
      const client = await say(bed, head(`GET ${helloPath}/run HTTP/${version}`, ...upgrade));
      assert.match(client.text, /^HTTP\/1\.1 505 /, version);
    }
    assert.equal(calls, 0);
  }),
);

test(
  "what cannot be read behind a request is refused after that has its answer",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const waiting: ServerResponse[] = [];
    bed.setReplicas(await httpReplica(t, (_asked, response) => waiting.push(response)));
    const bodies = [
      "garbage\r\n\r\n",
      `${head(`POST ${helloPath}/two HTTP/1.1`, "Transfer-Encoding: chunked")}zz\r\n`,
    ];
    for (const rest of bodies) {
      waiting.length = 0;
      const client = await bed.connect();
      client.send(head(`GET ${helloPath}/run HTTP/1.1`) + rest);
      await until("the app has it", () => waiting.length > 0);
      waiting[0]?.end("first answer");
      await client.sawEnd();
      assert.deepEqual(statuses(client.text), ["200", "400"]);
      assert.match(client.text, /first answer.*HTTP\/1\.1 400 Bad Request.*is not HTTP\/1\.1/s);
    }
  }),
);

test(
  "a body that breaks off into nonsense while it is answered is not answered a second time",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, (_asked, response) => {
        response.writeHead(200);
        response.write("begun");
      }),
    );
    const client = await bed.connect();
    client.send(
      `${head(`POST ${helloPath}/run HTTP/1.1`, "Transfer-Encoding: chunked")}2\r\nhi\r\n`,
    );
    await client.sees("begun");
    client.send("zz\r\n");
    await client.sawEnd();
    assert.deepEqual(statuses(client.text), ["200"]);
    assert.doesNotMatch(client.text, /\r\n0\r\n\r\n/, "nor does it look complete");
    await until("its place is given back", () => bed.proxy.apps.demandOf(bed.appId).running === 0);
  }),
);

test(
  "the reason phrase of a refusal is the one of its status",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { settings: { runtime: "custom" } });
    const request = (...fields: string[]) =>
      `GET ${helloPath}/run HTTP/1.1\r\n${["Host: test", ...fields].join("\r\n")}\r\n\r\n`;
    for (const fields of [["Connection: close"], ["Connection: Upgrade", "Upgrade: websocket"]]) {
      const { text } = await say(bed, request(...fields));
      assert.match(text, /^HTTP\/1\.1 401 Unauthorized\r\n/);
    }
  }),
);
