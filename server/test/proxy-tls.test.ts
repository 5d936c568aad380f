// The encrypted port of the listener: with whom it agrees on what, which certificate it shows, and
// what becomes of those who come without encryption.
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync, copyFileSync } from "node:fs";
import { Agent, get, type RequestOptions } from "node:https";
import { test, type TestContext } from "node:test";
import { connect, type ConnectionOptions, type PeerCertificate } from "node:tls";
import { WebSocket, WebSocketServer } from "ws";
import { CannotStart } from "#lib/cannot-start.ts";
import { silentLog, type Log } from "#lib/log.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { Certificates } from "#proxy/certificates.ts";
import { HttpsRedirect } from "#proxy/https-redirect.ts";
import { temporaryFolder } from "./support/folder.ts";
import { bedTokens, helloPath, httpReplica, openProxyBed } from "./support/proxy-bed.ts";
import { beginCall, openTlsBed, type TlsBed } from "./support/tls-bed.ts";
import { noOpenssl, TestAuthority } from "./support/tls-files.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const skip = noOpenssl;
const authorization = `Bearer ${bedTokens.project}`;

type Agreed = { readonly protocol: string | null; readonly alpn: string | false | null };

/** What a client agrees on with the encrypted port, or the code of the error. */
async function agree(bed: TlsBed, options: ConnectionOptions): Promise<Agreed | string> {
  const ca = bed.authority.certificate;
  const servername = "localhost";
  const socket = connect({ host: "127.0.0.1", port: bed.tlsPort, ca, servername, ...options });
  try {
    await once(socket, "secureConnect");
    return { protocol: socket.getProtocol(), alpn: socket.alpnProtocol };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "";
  } finally {
    socket.destroy();
  }
}

test("clients agree on HTTP/2 or HTTP/1.1, and on TLS 1.2 or newer", { skip }, async (t) => {
  const bed = await openTlsBed(t);
  const h2 = ["h2", "http/1.1"];
  assert.deepEqual(await agree(bed, { ALPNProtocols: h2 }), { protocol: "TLSv1.3", alpn: "h2" });
  assert.deepEqual(await agree(bed, { ALPNProtocols: ["http/1.1"], maxVersion: "TLSv1.2" }), {
    protocol: "TLSv1.2",
    alpn: "http/1.1",
  });
  assert.deepEqual(await agree(bed, {}), { protocol: "TLSv1.3", alpn: false });
  const old = {
    minVersion: "TLSv1",
    maxVersion: "TLSv1.1",
    ciphers: "DEFAULT@SECLEVEL=0",
  } as const;
  assert.equal(await agree(bed, old), "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION");
  const weak = { maxVersion: "TLSv1.2", ciphers: "AES128-SHA:ECDHE-ECDSA-AES128-SHA" } as const;
  assert.match(JSON.stringify(await agree(bed, weak)), /HANDSHAKE_FAILURE/);
  assert.match(
    JSON.stringify(await agree(bed, { ALPNProtocols: ["h3"] })),
    /NO_APPLICATION_PROTOCOL/,
  );
});

async function ask(
  options: RequestOptions,
): Promise<{ status?: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    get(options, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => (text += chunk.toString()));
      response.on("end", () => resolve({ status: response.statusCode, text }));
    }).on("error", reject);
  });
}

test(
  "an encrypted connection of HTTP/1.1 makes plain calls, others and WebSockets",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t, { settings: { runtime: "custom" } });
    const sockets = new WebSocketServer({ noServer: true });
    const protos: unknown[] = [];
    const port = await httpReplica(t, (request, response) => {
      protos.push(request.headers["x-forwarded-proto"]);
      response.end(`app ${request.url}`);
    });
    bed.setReplicas(port);
    const ca = bed.authority.certificate;
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca });
    t.after(() => agent.destroy());
    const local = { host: "localhost", port: bed.tlsPort, agent, headers: { authorization } };
    for (const [path, text] of [
      [`${helloPath}/one`, "app /one"],
      ["/v2/x", "fallback /v2/x"],
      [`${helloPath}/two`, "app /two"],
    ] as const)
      assert.deepEqual(await ask({ ...local, path }), { status: 200, text });
    assert.deepEqual(protos, ["https", "https"]);
    const echo = await socketPort(t, sockets);
    bed.setReplicas(echo);
    const url = `wss://localhost:${bed.tlsPort}${helloPath}/socket`;
    const socket = new WebSocket(url, { ca, headers: { authorization } });
    t.after(() => socket.terminate());
    await once(socket, "open");
    socket.send("hello");
    const [message] = (await once(socket, "message")) as [Buffer];
    assert.equal(message.toString(), "hello https");
  },
);

/** A replica that sends back each message, with the protocol that it was told. */
async function socketPort(t: TestContext, sockets: WebSocketServer): Promise<number> {
  sockets.on("connection", (socket, request) =>
    socket.on("message", (data: Buffer) =>
      socket.send(`${data.toString()} ${String(request.headers["x-forwarded-proto"])}`),
    ),
  );
  const server = await import("node:http").then(({ createServer }) => createServer());
  server.on("upgrade", (request, socket, head) =>
    sockets.handleUpgrade(request, socket, head, (client) =>
      sockets.emit("connection", client, request),
    ),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const client of sockets.clients) client.terminate();
    server.close();
  });
  return (server.address() as { port: number }).port;
}

test(
  "encrypted answers of apps tell browsers to stay encrypted, if the setting says so",
  { skip },
  async (t) => {
    const bed = await openTlsBed(t, { options: { hstsSeconds: 600 } });
    bed.setReplicas(await httpReplica(t, (_request, response) => response.end("app")));
    const name = "strict-transport-security";
    const encrypted = await beginCall(bed.session(), "/run").closed();
    assert.equal(encrypted.headers[name], "max-age=600");
    const refused = await beginCall(bed.session(), "/run", { authorization: "Bearer x" }).closed();
    assert.deepEqual([refused.status, refused.headers[name]], [401, "max-age=600"]);
    assert.equal((await bed.call("/run")).headers.get(name), null);
  },
);

/** The certificate that a client for this host name is shown. */
async function shownTo(port: number, ca: string, servername: string): Promise<PeerCertificate> {
  const options = { host: "127.0.0.1", port, ca, servername, rejectUnauthorized: false };
  const socket = connect(options);
  await once(socket, "secureConnect");
  const certificate = socket.getPeerCertificate();
  socket.destroy();
  return certificate;
}

type LogLine = { readonly level: string; readonly text: string; readonly about: unknown };

function keepingLog(lines: LogLine[]): Log {
  const keep = (level: string) => (about: unknown, text: string) =>
    void lines.push({ level, text, about });
  return { ...silentLog, info: keep("info"), warn: keep("warn"), error: keep("error") } as Log;
}

test(
  "changed files count for new connections, and bad ones change nothing",
  { skip },
  async (t) => {
    const authority = new TestAuthority(temporaryFolder(t, "tls"));
    const first = authority.sign("first", ["localhost"]);
    const apps = authority.sign("apps", ["*.apps.test"]);
    const next = authority.sign("next", ["localhost", "more.test"]);
    const clock = new VirtualClock();
    const lines: LogLine[] = [];
    const certificates = new Certificates([first, apps], { log: keepingLog(lines), clock });
    const bed = await openProxyBed(t, { tls: { certificates, redirect: null } });
    const ca = authority.certificate;
    const commonName = async (name: string): Promise<unknown> =>
      (await shownTo(bed.tlsPort, ca, name)).subject.CN;
    assert.deepEqual(
      [
        await commonName("localhost"),
        await commonName("a.apps.test"),
        await commonName("else.test"),
      ],
      ["first", "apps", "first"],
    );
    // The key is still the old one: half of a change.
    copyFileSync(next.certificateFile, first.certificateFile);
    await certificates.look();
    assert.equal(lines.filter(({ level }) => level === "error").length, 0);
    await certificates.look();
    await certificates.look();
    const told = lines.filter(({ level }) => level === "error");
    assert.equal(told.length, 1, "it is told once");
    assert.match(JSON.stringify(told), /the key belongs to another certificate/);
    assert.equal(await commonName("localhost"), "first");
    copyFileSync(next.keyFile, first.keyFile);
    await certificates.look();
    assert.equal(await commonName("localhost"), "first");
    await certificates.look();
    assert.deepEqual(
      [await commonName("localhost"), await commonName("more.test")],
      ["next", "next"],
    );
    assert.equal(await commonName("b.apps.test"), "apps");
    writeFileSync(first.certificateFile, "no certificate");
    await certificates.look();
    await certificates.look();
    assert.equal(await commonName("localhost"), "next");
    assert.doesNotMatch(JSON.stringify(lines), /PRIVATE KEY/);
  },
);

test("the log tells every day of a certificate that ends soon", { skip }, async (t) => {
  const authority = new TestAuthority(temporaryFolder(t, "tls"));
  const files = authority.sign("own", ["localhost"], 90);
  const clock = new VirtualClock();
  const lines: LogLine[] = [];
  const certificates = new Certificates([files], { log: keepingLog(lines), clock });
  const dayMs = 86_400_000;
  const tellAfter = async (days: number): Promise<string> => {
    lines.length = 0;
    await clock.advance((certificates.endsAtMs ?? 0) - clock.now() + days * dayMs);
    await certificates.look();
    await certificates.look();
    return lines.map(({ level }) => level).join(" ");
  };
  assert.equal(await tellAfter(-22), "");
  assert.equal(await tellAfter(-20.5), "warn");
  assert.equal(await tellAfter(-19.5), "warn");
  assert.equal(await tellAfter(0.5), "error");
});

test("a platform does not start with certificates that it cannot use", { skip }, (t) => {
  const authority = new TestAuthority(temporaryFolder(t, "tls"));
  const one = authority.sign("one", ["localhost"]);
  const other = authority.sign("other", ["localhost"]);
  const { clock, log } = { clock: new VirtualClock(), log: silentLog };
  const cases = [
    [{ ...one, keyFile: other.keyFile }, /the key belongs to another certificate/],
    [{ ...one, keyFile: one.certificateFile }, /the file of the key holds none in PEM/],
    [{ ...one, certificateFile: one.keyFile }, /the file of the certificate holds none in PEM/],
    [{ ...one, certificateFile: "/no/file" }, /SLIPWAY_TLS_CERTIFICATE \(\/no\/file\).*ENOENT/],
  ] as const;
  for (const [files, message] of cases)
    assert.throws(
      () => new Certificates([files], { clock, log }),
      (error) => error instanceof CannotStart && message.test(error.message),
    );
});

test(
  "pages that strangers ask for without encryption are redirected, and tokens refused",
  { skip },
  async (t) => {
    const publicUrl = "https://slipway.test:8443";
    // Connections of the test come from this machine, which is answered: here they are strangers.
    class Redirect extends HttpsRedirect {
      override concerns(connection: Parameters<HttpsRedirect["concerns"]>[0]): boolean {
        return !("encrypted" in connection);
      }
    }
    const redirect = new Redirect({ publicUrl, trustedProxies: new TrustedProxies([]) });
    const bed = await openTlsBed(t, { tls: { redirect } });
    bed.setReplicas(await httpReplica(t, (_request, response) => response.end("app")));
    const answerTo = async (...lines: string[]): Promise<string> => {
      const client = await bed.connect();
      client.send(`${lines.join("\r\n")}\r\n\r\n`);
      await until("it is answered", () => /\r\n\r\n/.test(client.text));
      return client.text;
    };
    const page = await answerTo("GET //dashboard?a=b HTTP/1.1", "Host: own.slipway.test:80");
    assert.match(
      page,
      /^HTTP\/1\.1 308 .*\r\nlocation: https:\/\/own\.slipway\.test:8443\/dashboard\?a=b\r\n/s,
    );
    const evil = await answerTo("GET / HTTP/1.1", "Host: evil.test/x?");
    assert.match(evil, /\r\nlocation: https:\/\/slipway\.test:8443\/\r\n/);
    const refused = /^HTTP\/1\.1 403 .*Connection: close.*send the request to https:\/\/x:8443/s;
    const host = "Host: x";
    const token = `Authorization: ${authorization}`;
    assert.match(await answerTo(`GET ${helloPath}/run HTTP/1.1`, host, token), refused);
    // The rest of the body is not waited for.
    const slow = await bed.connect();
    slow.send("GET /dashboard HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    await slow.sawEnd();
    assert.match(slow.text, /^HTTP\/1\.1 308 .*\r\nconnection: close\r\n/is);
    const post = [`POST ${helloPath}/run HTTP/1.1`, host, "Content-Length: 0"];
    assert.match(await answerTo(...post), refused);
    const upgrade = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: a"];
    assert.match(
      await answerTo(`GET ${helloPath}/ws HTTP/1.1`, host, ...upgrade),
      /^HTTP\/1\.1 308 /,
    );
    assert.equal((await beginCall(bed.session(), "/run").closed()).text, "app");
  },
);

test("this machine and trusted proxies are answered without encryption", () => {
  const trustedProxies = new TrustedProxies(["10.0.0.1"]);
  const redirect = new HttpsRedirect({ publicUrl: "https://slipway.test", trustedProxies });
  const concerns = (remoteAddress: string, more: object = {}): boolean =>
    redirect.concerns({ remoteAddress, ...more } as never);
  assert.deepEqual(
    ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "10.0.0.2", "2001:db8::1"].map((one) =>
      concerns(one),
    ),
    [false, false, false, false, true, true],
  );
  assert.equal(concerns("10.0.0.2", { encrypted: true }), false);
});
