// Calls that come through proxies before the platform: what the app is told of its client, and
// whose address is recorded and counted. Only what proxies of SLIPWAY_TRUSTED_PROXIES say is
// believed.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AsyncCall } from "#proxy/async-accept.ts";
import {
  answerWith,
  bothWays,
  helloPath,
  httpReplica,
  openProxyBed,
  rawReplica,
  type BedOptions,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

/** The peer of each call here is 127.0.0.1. */
const loopback = ["127.0.0.0/8", "10.0.0.0/8"];
const strangers = ["192.0.2.0/24"];

/** What the app saw of the fields that proxies write. */
type Seen = { readonly for: string; readonly proto: string; readonly host: string };

/**
 * One after the other on one connection; each in the fields of one request. Returns what the app
 * saw, and what was recorded.
 */
async function ask(
  bed: ProxyBed,
  requests: readonly (readonly string[])[],
): Promise<[Seen, string][]> {
  const client = await bed.connect();
  const all: [Seen, string][] = [];
  for (const fields of requests) {
    client.text = "";
    client.ask(`GET ${helloPath}/run`, fields);
    await client.sees("}");
    const count = all.length + 1;
    await until("the call is recorded", () => bed.finished.length >= count);
    const record = bed.finished.at(-1);
    all.push([
      JSON.parse(client.text.slice(client.text.indexOf("{"))) as Seen,
      record?.clientAddress ?? "none",
    ]);
  }
  return all;
}

function echo(t: Parameters<typeof httpReplica>[0]): Promise<number> {
  return httpReplica(t, ({ headersDistinct: all }, response) => {
    const one = (name: string): string => all[name]?.join(" & ") ?? "";
    const seen: Seen = {
      for: one("x-forwarded-for"),
      proto: one("x-forwarded-proto"),
      host: one("x-forwarded-host"),
    };
    assert.equal(all["forwarded"], undefined);
    response.end(JSON.stringify(seen));
  });
}

type Row = readonly [
  fields: readonly string[],
  seen: readonly [string, string, string],
  client: string,
];

const direct: Row = [[], ["127.0.0.1", "http", "test"], "127.0.0.1"];

const throughProxies: readonly Row[] = [
  direct,
  [
    ["X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: app.example"],
    ["198.51.100.1, 127.0.0.1", "https", "app.example"],
    "198.51.100.1",
  ],
  // The same lines once more, which are remembered for the connection; then another client's over
  // it.
  [
    ["X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: app.example"],
    ["198.51.100.1, 127.0.0.1", "https", "app.example"],
    "198.51.100.1",
  ],
  [["X-Forwarded-For: 198.51.100.2"], ["198.51.100.2, 127.0.0.1", "http", "test"], "198.51.100.2"],
  // The client's own values stand before those of the proxy, in one field or in several.
  [
    [
      "X-Forwarded-For: 203.0.113.9, 198.51.100.1",
      "X-Forwarded-Proto: http, https",
      "X-Forwarded-Host: evil, good:8443",
    ],
    ["203.0.113.9, 198.51.100.1, 127.0.0.1", "https", "good:8443"],
    "198.51.100.1",
  ],
  [
    [
      "X-Forwarded-For: 203.0.113.9",
      "x-forwarded-for: 198.51.100.1",
      "X-Forwarded-Proto: https",
      "X-FORWARDED-PROTO: http",
    ],
    ["203.0.113.9, 198.51.100.1, 127.0.0.1", "http", "test"],
    "198.51.100.1",
  ],
  // Two proxies that are trusted: the first of them has the client.
  [
    ["X-Forwarded-For: 203.0.113.9, 2001:db8::7, 10.1.1.1", "X-Forwarded-Proto: http, https, http"],
    ["203.0.113.9, 2001:db8::7, 10.1.1.1, 127.0.0.1", "https", "test"],
    "2001:db8::7",
  ],
  [
    ["X-Forwarded-For: [2001:db8::7]:4711", "X-Forwarded-Proto: WSS"],
    ["[2001:db8::7]:4711, 127.0.0.1", "wss", "test"],
    "2001:db8::7",
  ],
  // Nonsense is nobody's address; a proxy that only says how it was reached is believed.
  [
    [
      "X-Forwarded-For: 198.51.100.1, unknown",
      "X-Forwarded-Proto: gopher",
      "X-Forwarded-Host: a/b",
    ],
    ["198.51.100.1, unknown, 127.0.0.1", "http", "test"],
    "127.0.0.1",
  ],
  [
    ["X-Forwarded-For:", "X-Forwarded-Proto:", "X-Forwarded-Host:"],
    ["127.0.0.1", "http", "test"],
    "127.0.0.1",
  ],
  [
    ["X-Forwarded-Proto: https", "Forwarded: for=9.9.9.9;proto=http"],
    ["127.0.0.1", "https", "test"],
    "127.0.0.1",
  ],
];

for (const bed of ["trusted", "not trusted"] as const) {
  const rows: readonly Row[] =
    bed === "trusted"
      ? throughProxies
      : throughProxies.map(([fields]) => [fields, direct[1], direct[2]]);
  const trustedProxies = bed === "trusted" ? loopback : strangers;
  test(
    `the app and the records have what proxies say of the client when they are ${bed === "trusted" ? "" : "not "}trusted`,
    bothWays(async (t, openBed) => {
      const opened = await openBed(t, { trustedProxies });
      opened.setReplicas(await echo(t));
      const all = await ask(
        opened,
        rows.map(([fields]) => fields),
      );
      const expected = rows.map(([, [chain, proto, host], client]) => [
        { for: chain, proto, host },
        client,
      ]);
      assert.deepEqual(all, expected);
    }),
  );
}

test("a WebSocket's app and record have its client as a trusted proxy says", async (t) => {
  for (const [trustedProxies, chain, proto, client] of [
    [loopback, "198.51.100.1, 127.0.0.1", "https", "198.51.100.1"],
    [strangers, "127.0.0.1", "http", "127.0.0.1"],
  ] as const) {
    const bed = await openProxyBed(t, { trustedProxies, settings: { runtime: "custom" } });
    let head = "";
    bed.setReplicas(
      await rawReplica(t, (socket) => {
        socket.on("data", (chunk: Buffer) => (head += chunk.toString("latin1")));
        answerWith(socket, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
      }),
    );
    const forwarded = ["X-Forwarded-For: 198.51.100.1", "X-Forwarded-Proto: https"];
    const socket = await bed.connect();
    socket.ask(`GET ${helloPath}/`, ["Connection: Upgrade", "Upgrade: websocket", ...forwarded]);
    await socket.sees("403 Forbidden");
    assert.ok(
      head.includes(`\r\nX-Forwarded-For: ${chain}\r\nX-Forwarded-Proto: ${proto}\r\n`),
      head,
    );
    await until("it is recorded", () => bed.finished.length === 1);
    assert.equal(bed.finished[0]?.clientAddress, client);
  }
});

test(
  "a run that is accepted has its client as a trusted proxy says, and so have the lines for its replica",
  bothWays(async (t, openBed) => {
    for (const [trustedProxies, client, chain] of [
      [loopback, "198.51.100.1", "198.51.100.1, 127.0.0.1"],
      [strangers, "127.0.0.1", "127.0.0.1"],
    ] as const) {
      const calls: AsyncCall[] = [];
      const accept = (call: AsyncCall): void => {
        calls.push(call);
        call.accepted(call.runId);
      };
      const bed = await openBed(t, { trustedProxies, options: { asyncAccept: { accept } } });
      await bed.call("/run?async=true", { headers: { "x-forwarded-for": "198.51.100.1" } });
      assert.equal(calls[0]?.clientAddress, client);
      assert.ok(calls[0]?.lines.includes(`X-Forwarded-For: ${chain}\r\n`));
    }
  }),
);

test(
  "bad tokens are counted by the client that a trusted proxy names, all others by who is there",
  bothWays(async (t, openBed) => {
    const asked: string[] = [];
    const tokens = {
      cached: (_token: string, address: string) => {
        asked.push(address);
        return null;
      },
      check: () => Promise.resolve(null),
    };
    const forwarded = {
      authorization: "Bearer bad",
      "x-forwarded-for": "203.0.113.9, 198.51.100.1",
    };
    for (const trustedProxies of [loopback, strangers, []]) {
      const options: BedOptions = { trustedProxies, options: { tokens } };
      const bed = await openBed(t, options);
      assert.equal((await bed.call("/run", { headers: forwarded })).status, 401);
      assert.equal(
        (await bed.call("/run", { headers: { authorization: "Bearer bad" } })).status,
        401,
      );
    }
    assert.deepEqual(asked, ["198.51.100.1", ...Array<string>(5).fill("127.0.0.1")]);
  }),
);
