// Calls out to names: what DNS answers is checked where the connection is made. Also certificates,
// which are checked against names, and the environment, which must not send calls another way.
import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer as createHttpsServer } from "node:https";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { OutwardGuard, type OutwardTarget } from "#lib/outward-guard.ts";
import { makeNameLookup } from "#lib/outward-names.ts";
import type { OutwardAnswer } from "#lib/outward-request.ts";
import { startDnsServer } from "./support/dns-server.ts";
import { temporaryFolder } from "./support/folder.ts";
import {
  httpReceiver,
  outwardClient,
  rawReceiver,
  receiver,
  smallPost,
} from "./support/outward-bed.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const notAllowed = /^its name resolves to an address that is not allowed .*SLIPWAY_WEBHOOK_ALLOW/;

function seen(answer: OutwardAnswer): string {
  return answer.kind === "answered"
    ? `${answer.status} ${answer.firstBytes.toString()}`
    : answer.reason;
}

/**
 * A receiver on loopback, and a client whose name server gives `answers` in turn, the last one for
 * ever.
 */
async function named(t: TestContext, ...answers: (readonly string[])[]) {
  const to = await httpReceiver(
    t,
    (request, response) => void request.resume().on("end", () => response.end("ok")),
  );
  const asked: string[] = [];
  const client = outwardClient(t, {
    lookup: (name) => {
      asked.push(name);
      return Promise.resolve(answers[Math.min(asked.length, answers.length) - 1] ?? []);
    },
  });
  return {
    to,
    asked,
    post: async () => seen(await client.post(`http://name.test:${to.port}/`, smallPost())),
  };
}

test("a name that leads to a forbidden address is refused, without telling which", async (t) => {
  for (const address of [
    "127.0.0.2",
    "10.0.0.1",
    "169.254.169.254",
    "::1",
    "::ffff:127.0.0.2",
    "64:ff9b::7f00:1",
    "0.0.0.0",
  ]) {
    const { to, post } = await named(t, [address]);
    const reason = await post();
    assert.match(reason, notAllowed);
    assert.ok(!reason.includes(address));
    assert.equal(to.connections, 0);
  }
});

test("an answer with one forbidden address is refused whole, wherever in it that is", async (t) => {
  for (const answer of [
    ["127.0.0.1", "127.0.0.2"],
    ["127.0.0.2", "127.0.0.1"],
    ["127.0.0.1", "127.0.0.1", "::1"],
    [...Array.from({ length: 50 }, () => "127.0.0.1"), "10.0.0.1"],
  ]) {
    const { to, post } = await named(t, answer);
    assert.match(await post(), notAllowed);
    assert.equal(to.connections, 0);
  }
});

test("the address that was checked is the one that is dialled: the name is asked for once", async (t) => {
  const { to, asked, post } = await named(t, ["127.0.0.1"], ["127.0.0.2"]);
  assert.equal(await post(), "200 ok");
  assert.deepEqual([asked, to.connections], [["name.test"], 1]);
});

test("a name that leads elsewhere the next time is refused on the next connection", async (t) => {
  const { to, asked, post } = await named(t, ["127.0.0.1"], ["127.0.0.2"]);
  assert.equal(await post(), "200 ok");
  for (const socket of to.sockets) socket.destroy();
  await until("the kept connection is gone", () => to.sockets.size === 0);
  // The end of the connection may be seen only when it is used again; the second try resolves the
  // name again.
  assert.match(await post(), notAllowed);
  assert.deepEqual([asked.length, to.connections], [2, 1]);
});

test("a name without an address, and one that is not known, are told apart", async (t) => {
  const { post } = await named(t, []);
  assert.equal(await post(), "its name has no address");
  const unknown = Object.assign(new Error("getaddrinfo ENOTFOUND secret.internal"), {
    code: "ENOTFOUND",
  });
  const client = outwardClient(t, { lookup: () => Promise.reject(unknown) });
  assert.equal(seen(await client.post("http://name.test/", smallPost())), "its name is unknown");
});

test("when one of a name's addresses does not answer, the next is tried", async (t) => {
  const to = await httpReceiver(
    t,
    (request, response) => void request.resume().on("end", () => response.end("ok")),
  );
  const guard = new OutwardGuard({ allow: ["127.0.0.0/8", "::1"] });
  const client = outwardClient(t, {
    guard,
    lookup: () => Promise.resolve(["::1", "127.0.0.3", "127.0.0.1"]),
  });
  assert.equal(seen(await client.post(`http://name.test:${to.port}/`, smallPost())), "200 ok");
});

test("a name server that keeps silent costs ten seconds, and only its own call", async (t) => {
  const clock = new VirtualClock();
  let isAsked = false;
  const client = outwardClient(t, {
    clock,
    lookup(name) {
      isAsked ||= name === "silent.test";
      return name === "silent.test" ? new Promise(() => undefined) : Promise.resolve(["127.0.0.1"]);
    },
  });
  const silent = client.post("http://silent.test/", smallPost());
  await until("the name is asked for", () => isAsked);
  const to = await httpReceiver(
    t,
    (request, response) => void request.resume().on("end", () => response.end("ok")),
  );
  assert.equal(seen(await client.post(`http://name.test:${to.port}/`, smallPost())), "200 ok");
  await clock.advance(10_000);
  assert.deepEqual(await silent, {
    kind: "failed",
    reason: "no connection within 10000 ms",
    durationMs: 10_000,
  });
});

test("a literal address is checked by the connector too, not only where the URL is read", async (t) => {
  class Careless extends OutwardGuard {
    override read(text: string): OutwardTarget {
      const url = new URL(text);
      return { url, host: url.hostname.replace(/[[\]]/g, ""), port: Number(url.port) };
    }
  }
  const to = await rawReceiver(t, () => undefined);
  const client = outwardClient(t, { guard: new Careless({ allow: [] }) });
  for (const host of ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"]) {
    const answer = await client.post(`http://${host}:${to.port}/`, smallPost());
    assert.match(seen(answer), /^its address is not allowed/);
  }
  assert.equal(to.connections, 0);
});

test("the platform's own place is refused also by a name that leads there", async (t) => {
  const { to } = await named(t, []);
  const guard = new OutwardGuard({ allow: [], ownListeners: [{ host: "9.9.9.9", port: to.port }] });
  const client = outwardClient(t, { guard, lookup: () => Promise.resolve(["9.9.9.9"]) });
  assert.match(seen(await client.post(`http://name.test:${to.port}/`, smallPost())), notAllowed);
});

test("proxies of the environment are not used", async (t) => {
  const { to } = await named(t, []);
  const proxy = await httpReceiver(t, (_, response) => response.writeHead(502).end("by the proxy"));
  const proxyUrl = `http://127.0.0.1:${proxy.port}`;
  const script = `
    import { systemClock } from "#lib/clock.ts";
    import { OutwardGuard } from "#lib/outward-guard.ts";
    import { OutwardClient } from "#lib/outward-request.ts";
    const guard = new OutwardGuard({ allow: ["127.0.0.1"] });
    const lookup = () => Promise.resolve(["127.0.0.1"]);
    const client = new OutwardClient({ guard, clock: systemClock, userAgent: "test", lookup });
    const post = { headers: {}, body: Buffer.from("x"), timeoutMs: 10_000, answerBytesMax: 100 };
    const answer = await client.post("http://name.test:${to.port}/", post);
    const secure = await client.post("https://name.test:${to.port}/", post);
    client.close();
    console.log(answer.status, String(answer.firstBytes), secure.reason);`;
  const variables = {
    NODE_USE_ENV_PROXY: "1",
    HTTP_PROXY: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    ALL_PROXY: proxyUrl,
  };
  const lower = { http_proxy: proxyUrl, https_proxy: proxyUrl, NO_PROXY: "", no_proxy: "" };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "-e", script],
    {
      cwd: fileURLToPath(new URL("..", import.meta.url)),
      env: { ...process.env, ...variables, ...lower },
      timeout: 30_000,
    },
  );
  assert.equal(stdout, "200 ok no TLS connection could be made\n");
  assert.equal(proxy.connections, 0);
});

const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;
const needsOpenssl = {
  skip: hasOpenssl ? false : "openssl, which makes the certificate, is not installed",
};

test(
  "a certificate must be of a known authority and for the name that was called",
  needsOpenssl,
  async (t) => {
    const { key, cert } = makeCertificate(t);
    const to = await receiver(
      t,
      createHttpsServer(
        { key, cert },
        (request, response) => void request.resume().on("end", () => response.end("ok")),
      ),
    );
    const knowing = outwardClient(t, { authorities: [cert] });
    const post = async (client: typeof knowing, host: string): Promise<string> =>
      seen(await client.post(`https://${host}:${to.port}/`, smallPost()));
    assert.equal(await post(knowing, "receiver.test"), "200 ok");
    assert.equal(await post(knowing, "RECEIVER.test."), "200 ok");
    assert.equal(to.connections, 1);
    assert.equal(await post(knowing, "127.0.0.1"), "200 ok");
    assert.equal(await post(knowing, "other.test"), "its certificate is for another name");
    assert.equal(await post(outwardClient(t), "receiver.test"), "its certificate is self-signed");
  },
);

test("the environment cannot switch the check of certificates off", needsOpenssl, async (t) => {
  const to = await receiver(
    t,
    createHttpsServer(makeCertificate(t), (_, response) => response.end("ok")),
  );
  const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  t.after(() => {
    if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
  });
  const answer = await outwardClient(t).post(`https://receiver.test:${to.port}/`, smallPost());
  assert.equal(seen(answer), "its certificate is self-signed");
});

test("a handshake that never ends is given up on in time", async (t) => {
  const clock = new VirtualClock();
  let hasCome = false;
  const to = await rawReceiver(t, () => (hasCome = true));
  const answer = outwardClient(t, { clock }).post(`https://receiver.test:${to.port}/`, smallPost());
  await until("the handshake has begun", () => hasCome);
  await clock.advance(10_000);
  assert.equal(seen(await answer), "no connection within 10000 ms");
});

test("names are asked of DNS, and of the system when DNS does not know them", async (t) => {
  const names = { "both.test": { A: "192.0.2.7" }, "silent.test": null };
  const { address: dns, asked: questions } = await startDnsServer(t, names);
  const asked: string[] = [];
  const lookupWithin = (waitMs: number) =>
    makeNameLookup({
      servers: [dns],
      waitMs,
      system: (name) => {
        asked.push(name);
        return Promise.resolve(["192.0.2.99"]);
      },
    });
  const lookup = lookupWithin(10_000);
  assert.deepEqual(await lookup("both.test"), ["192.0.2.7"]);
  assert.deepEqual(asked, []);
  assert.deepEqual(await lookup("unknown.test"), ["192.0.2.99"]);
  assert.deepEqual(await lookup("container"), ["192.0.2.99"]);
  await assert.rejects(lookupWithin(50)("silent.test"), {
    message: "its name could not be looked up",
  });
  assert.deepEqual(asked, ["unknown.test", "container"]);
  assert.deepEqual([...questions], ["both.test", "unknown.test", "silent.test"]);
});

test("of the system few names are asked at the same time, whatever becomes of them", async () => {
  const answers: (() => void)[] = [];
  const lookup = makeNameLookup({
    system: (name) =>
      new Promise((resolve, reject) => {
        answers.push(() => (name === "bad" ? reject(new Error("no")) : resolve(["192.0.2.1"])));
      }),
  });
  const found = Promise.allSettled(["bad", "a", "b", "c", "d"].map((name) => lookup(name)));
  for (let count = 1; count <= 5; count++) {
    await until("the next name is asked for", () => answers.length >= Math.min(count + 1, 5));
    assert.equal(answers.length, Math.min(count + 1, 5));
    answers[count - 1]?.();
  }
  assert.deepEqual(
    (await found).map(({ status }) => status),
    ["rejected", ...Array.from({ length: 4 }, () => "fulfilled")],
  );
  const later = ["e", "f"].map((name) => lookup(name));
  await until("there is room again", () => answers.length === 7);
  for (const answer of answers.slice(5)) answer();
  await Promise.all(later);
});

test("the system knows this machine's own name", async () => {
  const addresses = await makeNameLookup()("localhost");
  assert.ok(
    addresses.length > 0 &&
      addresses.every((address) => address === "127.0.0.1" || address === "::1"),
  );
});

/** For receiver.test and 127.0.0.1, signed by itself. */
function makeCertificate(t: TestContext): { readonly key: string; readonly cert: string } {
  const folder = temporaryFolder(t, "certificate");
  const keyFile = join(folder, "key.pem");
  const certFile = join(folder, "cert.pem");
  const subject = [
    "-subj",
    "/CN=receiver.test",
    "-addext",
    "subjectAltName=DNS:receiver.test,IP:127.0.0.1",
  ];
  const made = spawnSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-days",
      "2",
      ...subject,
    ].concat(["-keyout", keyFile, "-out", certFile]),
    { timeout: 30_000, encoding: "utf8" },
  );
  assert.equal(made.status, 0, made.stderr);
  return { key: readFileSync(keyFile, "utf8"), cert: readFileSync(certFile, "utf8") };
}
