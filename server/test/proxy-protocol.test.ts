// Load balancers that begin each connection with a header of the PROXY protocol: whose address
// counts, on the plain port and on the encrypted one, and what becomes of connections without it.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { duplexPair } from "node:stream";
import { test, type TestContext } from "node:test";
import { connect as connectTls } from "node:tls";
import { silentLog, type Log } from "#lib/log.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import {
  bedTokens,
  bothWays,
  helloPath,
  httpReplica,
  RawClient,
  type BedOptions,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { beginCall, openTlsBed, StreamAnswer } from "./support/tls-bed.ts";
import { noOpenssl } from "./support/tls-files.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

/** Balancers connect from this address of this machine, everybody else from 127.0.0.1. */
const balancer = "127.0.0.2";
const stranger = "127.0.0.1";
const fallback: RequestListener = ({ socket, url }, response) =>
  response.end(`${url} of ${socket.remoteAddress}`);
const withHeaders: BedOptions = {
  trustedProxies: [balancer],
  announcements: { log: silentLog },
  fallback,
};

/** Both name 192.0.2.1; the second one has an extension. */
const headerLine = "PROXY TCP4 192.0.2.1 198.51.100.5 56324 443\r\n";
const signature = "0d0a0d0a000d0a515549540a";
const binaryHeader = bytes(signature, "21110013", "c0000201c6336405dc0401bb", "04000400000000");
/** What a balancer sends for its own health check. */
const ownHeader = bytes(signature, "20000000");
const unknownHeader = "PROXY UNKNOWN\r\n";

function bytes(...hex: readonly string[]): string {
  return Buffer.from(hex.join(""), "hex").toString("latin1");
}

/** Asks on a connection of its own what address the app is told; its own word is not believed. */
const ask = [
  `GET ${helloPath}/run HTTP/1.1`,
  "Host: test",
  `Authorization: Bearer ${bedTokens.project}`,
  "X-Forwarded-For: 203.0.113.9",
  "Connection: close",
  "\r\n",
].join("\r\n");

async function connectFrom(t: TestContext, localAddress: string, port: number): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port, localAddress, noDelay: true });
  t.after(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

async function clientFrom(t: TestContext, address: string, port: number): Promise<RawClient> {
  return new RawClient(await connectFrom(t, address, port));
}

/** The address that the app is told, and the one that is recorded. */
async function toldAddress(bed: ProxyBed, client: RawClient): Promise<readonly unknown[]> {
  await client.sawEnd();
  await until("the call is recorded", () => bed.finished.length > 0);
  return [/for=(.*)$/.exec(client.text)?.[1], bed.finished.pop()?.clientAddress];
}

function tellingReplica(t: TestContext): Promise<number> {
  return httpReplica(t, ({ headers }, response) =>
    response.end(`for=${String(headers["x-forwarded-for"])}`),
  );
}

test(
  "calls of a balancer's connection come from the client that its header names",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, withHeaders);
    bed.setReplicas(await tellingReplica(t));
    const rows = [
      [headerLine, "192.0.2.1", "192.0.2.1"],
      [binaryHeader, "192.0.2.1", "192.0.2.1"],
      [unknownHeader, "unknown", "unknown"],
      [ownHeader, `203.0.113.9, ${balancer}`, "203.0.113.9"],
    ] as const;
    for (const [header, ...told] of rows) {
      const client = await clientFrom(t, balancer, bed.port);
      client.send(`${header}${ask}`);
      assert.deepEqual(await toldAddress(bed, client), told, header);
    }
    const other = await clientFrom(t, balancer, bed.port);
    other.send(`${binaryHeader}GET /v2/x HTTP/1.1\r\nHost: test\r\n\r\n`);
    await other.sees("/v2/x of 192.0.2.1");
  }),
);

test(
  "a header may come in single bytes, and the request long after it",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, withHeaders);
    bed.setReplicas(await tellingReplica(t));
    for (const header of [headerLine, binaryHeader]) {
      const client = await clientFrom(t, balancer, bed.port);
      for (const byte of header) {
        client.send(byte);
        await new Promise((resolve) => setImmediate(resolve));
      }
      const { socket } = client;
      await until("the header has left", () => socket.writableLength === 0);
      client.send(ask);
      assert.deepEqual(await toldAddress(bed, client), ["192.0.2.1", "192.0.2.1"]);
    }
  }),
);

test(
  "others need no header, and theirs is not believed",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, withHeaders);
    bed.setReplicas(await tellingReplica(t));
    const direct = await clientFrom(t, stranger, bed.port);
    direct.send(ask);
    assert.deepEqual(await toldAddress(bed, direct), [stranger, stranger]);
    for (const header of [headerLine, binaryHeader]) {
      const client = await clientFrom(t, stranger, bed.port);
      client.send(`${header}${ask}`);
      await client.sees("HTTP/1.1 400 ");
      await client.sawEnd();
    }
    assert.equal(bed.finished.length, 0);
  }),
);

test(
  "a balancer's connection without a header is closed, and the log tells once a minute",
  bothWays(async (t, openBed) => {
    const warnings: unknown[] = [];
    const log = { ...silentLog, warn: (about: unknown) => warnings.push(about) } as unknown as Log;
    const clock = new VirtualClock();
    const bed = await openBed(t, { ...withHeaders, announcements: { log }, listenerClock: clock });
    for (const text of [ask, "\r\n\r\n\0\r\nEXIT", `PROXY TCP4 ${"1".repeat(110)}`]) {
      const client = await clientFrom(t, balancer, bed.port);
      client.send(text);
      await client.sawEnd();
      assert.equal(client.text, "");
    }
    assert.deepEqual(warnings, [{ address: balancer }]);
    const silent = await clientFrom(t, balancer, bed.port);
    const begun = await clientFrom(t, balancer, bed.port);
    begun.send("PROXY ");
    await until("both are late", async () => {
      await clock.advance(10_000);
      return silent.isClosed && begun.isClosed;
    });
    assert.equal(warnings.length, 1);
  }),
);

test("a listener that ends does not wait for headers", { skip: noOpenssl }, async (t) => {
  const bed = await openTlsBed(t, withHeaders);
  const silent = await clientFrom(t, balancer, bed.port);
  await until("it is open", async () => (await openConnections(bed)) === 1);
  await bed.listener.drain({ drainMs: 600_000 });
  await silent.sawEnd();
});

function openConnections({ listener }: ProxyBed): Promise<number> {
  return new Promise((resolve) =>
    listener.server.getConnections((_error, count) => resolve(count)),
  );
}

test(
  "on the encrypted port, the header is before the encryption",
  { skip: noOpenssl },
  async (t) => {
    const bed = await openTlsBed(t, withHeaders);
    bed.setReplicas(await tellingReplica(t));
    const ca = bed.authority.certificate;
    for (const header of [headerLine, binaryHeader]) {
      const below = await connectFrom(t, balancer, bed.tlsPort);
      below.write(header, "latin1");
      const socket = connectTls({ socket: below, ca, servername: "localhost" });
      const client = new RawClient(socket);
      client.send(ask);
      assert.deepEqual(await toldAddress(bed, client), ["192.0.2.1", "192.0.2.1"]);
    }
    // The beginning of the encryption is in the packet of the header.
    const below = await connectFrom(t, balancer, bed.tlsPort);
    const [near, far] = duplexPair();
    far.once("data", (hello: Buffer) => {
      below.write(Buffer.concat([Buffer.from(binaryHeader, "latin1"), hello]));
      far.pipe(below).pipe(far);
    });
    const ALPNProtocols = ["h2"];
    const encrypted = connectTls({ socket: near, ca, servername: "localhost", ALPNProtocols });
    const session = connectHttp2("https://localhost", { createConnection: () => encrypted });
    t.after(() => session.destroy());
    const call = await beginCall(session, "/run", { "x-forwarded-for": "203.0.113.9" }).closed();
    assert.equal(call.text, "for=192.0.2.1");
    const other = await new StreamAnswer(session.request({ ":path": "/v2/x" })).closed();
    assert.equal(other.text, "/v2/x of 192.0.2.1");
    const spoofing = await connectFrom(t, stranger, bed.tlsPort);
    spoofing.write(headerLine);
    const refused = connectTls({ socket: spoofing, ca, servername: "localhost" });
    await assert.rejects(once(refused, "secureConnect"));
    const bare = await connectFrom(t, balancer, bed.tlsPort);
    const unannounced = connectTls({ socket: bare, ca, servername: "localhost" });
    await assert.rejects(once(unannounced, "secureConnect"));
  },
);

const noHaproxy =
  spawnSync("haproxy", ["-v"], { timeout: 10_000 }).status === 0
    ? noOpenssl
    : "haproxy is not installed here";

test(
  "HAProxy passes connections on to both ports, in both versions of the header",
  { skip: noHaproxy },
  async (t) => {
    const bed = await openTlsBed(t, withHeaders);
    bed.setReplicas(await tellingReplica(t));
    const ca = bed.authority.certificate;
    const [plain = "", encrypted = ""] = await startHaproxy(t, bed);
    // HAProxy is asked from an address that nobody else has here.
    const client = await clientFrom(t, "127.0.0.3", Number(plain));
    client.send(ask);
    assert.deepEqual(await toldAddress(bed, client), ["127.0.0.3", "127.0.0.3"]);
    const below = await connectFrom(t, "127.0.0.3", Number(encrypted));
    const over = new RawClient(connectTls({ socket: below, ca, servername: "localhost" }));
    over.send(ask);
    assert.deepEqual(await toldAddress(bed, over), ["127.0.0.3", "127.0.0.3"]);
  },
);

/** HAProxy before both ports; resolves with its own ones. */
async function startHaproxy(t: TestContext, bed: { port: number; tlsPort: number }) {
  const ports = await freePorts(2);
  const [plain, encrypted] = ports;
  const file = join(temporaryFolder(t, "haproxy"), "haproxy.cfg");
  const lines = [
    "defaults",
    "mode tcp",
    ...["connect", "client", "server"].map((one) => `timeout ${one} 60s`),
    "listen plain",
    `bind 127.0.0.1:${plain}`,
    `server slipway 127.0.0.1:${bed.port} source ${balancer} send-proxy check`,
    "listen encrypted",
    `bind 127.0.0.1:${encrypted}`,
    `server slipway 127.0.0.1:${bed.tlsPort} source ${balancer} send-proxy-v2 check`,
  ];
  writeFileSync(file, `${lines.join("\n")}\n`);
  const haproxy = spawn("haproxy", ["-db", "-f", file], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  haproxy.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  t.after(async () => {
    haproxy.kill();
    await until("HAProxy ends", () => haproxy.exitCode !== null || haproxy.signalCode !== null);
  });
  for (const port of ports)
    await until(`HAProxy listens: ${said}`, async () => {
      const socket = connect(Number(port), "127.0.0.1");
      return await once(socket, "connect").then(
        () => !socket.destroy().connecting,
        () => false,
      );
    });
  return ports;
}
