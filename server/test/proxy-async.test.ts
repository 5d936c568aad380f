// Calls with `async=true` as the proxy hands them over: with their fields read and checked, their
// body still to come, and an answer that is given once. What a replica is asked for later is what a
// plain call would have asked for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { promisify } from "node:util";
import { Fault } from "#lib/fault.ts";
import { newRunId } from "#lib/ids.ts";
import type { AsyncAccept, AsyncCall } from "#proxy/async-accept.ts";
import {
  bothWays,
  helloPath,
  httpReplica,
  openProxyBed,
  projectId,
  type BedOptions,
  type ProxyBed,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

type Accepting = { readonly bed: ProxyBed; readonly calls: AsyncCall[] };

const forwarding = {
  check: (url: string) =>
    url.startsWith("https://") ? null : new Fault("invalid", `webhookEndpoint: ${url}`),
  forward: () => assert.fail("an async call's answer is not the proxy's to forward"),
  bytesMax: 100,
};

/** A bed whose async calls are noted; `take` does something with each. */
async function openAccepting(
  openBed: (bed?: BedOptions) => Promise<ProxyBed>,
  take: AsyncAccept["accept"],
  options: BedOptions = {},
): Promise<Accepting> {
  const calls: AsyncCall[] = [];
  const asyncAccept = {
    accept: (call: AsyncCall): void => {
      calls.push(call);
      take(call);
    },
  };
  const bed = await openBed({ ...options, options: { asyncAccept, forwarding } });
  return { bed, calls };
}

function acceptWhole(call: AsyncCall): void {
  void call
    .readBody(1_000)
    .then((body) => (body instanceof Fault ? call.refuse(body) : call.accepted(call.runId)));
}

test(
  "an accepted call is answered 202 with nothing but its run id, which X-Request-Id has too",
  bothWays(async (t, openBed) => {
    const { bed, calls } = await openAccepting((options) => openBed(t, options), acceptWhole);
    const response = await bed.call("/run?async=true", { method: "POST", body: "{}" });
    assert.equal(response.status, 202);
    assert.equal(response.headers.get("content-type"), "application/json");
    const runId = calls[0]?.runId;
    assert.deepEqual(await response.json(), { run_id: runId });
    assert.equal(response.headers.get("x-request-id"), runId);
  }),
);

test(
  "a call may be answered with the id of an earlier run",
  bothWays(async (t, openBed) => {
    const earlier = newRunId();
    const { bed } = await openAccepting(
      (options) => openBed(t, options),
      (call) => call.accepted(earlier),
    );
    const response = await bed.call("/run?async=true");
    assert.deepEqual(await response.json(), { run_id: earlier });
    assert.equal(response.headers.get("x-request-id"), earlier);
  }),
);

test(
  "only the first answer counts",
  bothWays(async (t, openBed) => {
    let isThrough = false;
    const { bed } = await openAccepting(
      (options) => openBed(t, options),
      (call) => {
        call.refuse(new Fault("unavailable", "not now", { retryAfterSeconds: 5 }));
        call.accepted(call.runId);
        call.refuse(new Fault("internal", "once more"));
        isThrough = true;
      },
    );
    const response = await bed.call("/run?async=true");
    assert.equal(response.status, 503);
    assert.deepEqual(await response.json(), { message: "not now" });
    assert.ok(isThrough, "and the others are no mistake");
  }),
);

test(
  "the lines for the replica are those of a plain call, without the fields that the platform reads",
  bothWays(async (t, openBed) => {
    const { bed, calls } = await openAccepting((options) => openBed(t, options), acceptWhole);
    const seen: string[][] = [];
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        seen.push(request.rawHeaders);
        response.end();
      }),
    );
    const headers = [
      "X-One:  1 ",
      "X-Request-Id: mine",
      "Connection: keep-alive",
      "Slipway-Held: 1",
      "cookie: a=é",
    ];
    const own = [
      "x-webhook-secret: s e c r e t",
      "IDEMPOTENCY-KEY: order-1",
      "Slipway-Retries: 10",
    ];
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/run?x=1`, ["Content-Length: 2", ...headers], "{}");
    await client.sees("200 OK");
    const query = "x=1&async=true&webhookEndpoint=https%3A%2F%2Fhook.test%2Fa%3Fb";
    client.ask(`POST ${helloPath}/run?${query}`, ["Content-Length: 2", ...headers, ...own], "{}");
    await client.sees("202 Accepted");
    const [call] = calls;
    assert.ok(call !== undefined);
    const framing = new Set(["X-Request-Id", "Content-Length"]);
    const plain: string[] = [];
    const [rawHeaders = []] = seen;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = rawHeaders[index] ?? "";
      if (!framing.has(name)) plain.push(`${name}: ${rawHeaders[index + 1]}`);
    }
    const lines = call.lines.split("\r\n").map((line) => line.replace(/: +/, ": ").trimEnd());
    // What is stored and forwarded has to be readable for whoever gets it.
    assert.deepEqual(lines, ["Accept-Encoding: identity", ...plain, ""]);
    assert.ok(!call.lines.includes("Authorization") && !call.lines.includes("Slipway"));
    assert.deepEqual(
      {
        method: call.method,
        path: call.path,
        app: call.route.appName,
        address: call.clientAddress,
      },
      { method: "POST", path: "/run?x=1", app: "hello", address: "127.0.0.1" },
    );
    assert.deepEqual(
      {
        url: call.webhookEndpoint,
        secret: call.webhookSecret,
        key: call.idempotencyKey,
        retries: call.retries,
      },
      { url: "https://hook.test/a?b", secret: "s e c r e t", key: "order-1", retries: 10 },
    );
  }),
);

test(
  "fields that the platform does not read in a call are the app's",
  bothWays(async (t, openBed) => {
    const { bed, calls } = await openAccepting((options) => openBed(t, options), acceptWhole);
    const seen: string[] = [];
    bed.setReplicas(
      await httpReplica(t, (request, response) => {
        seen.push(
          Object.keys(request.headers)
            .filter((name) => /secret|key|retries/.test(name))
            .join(" "),
        );
        response.end();
      }),
    );
    const headers = {
      "x-webhook-secret": "s",
      "idempotency-key": "not a valid key",
      "slipway-retries": "99",
    };
    assert.equal((await bed.call("/run", { headers })).status, 200);
    assert.deepEqual(seen, ["x-webhook-secret idempotency-key slipway-retries"]);
    const own = { "x-webhook-secret": "s", "idempotency-key": "k", "slipway-retries": "0" };
    assert.equal((await bed.call("/run?async=true", { headers: own })).status, 202);
    assert.match(calls[0]?.lines ?? "", /x-webhook-secret: s\r\n/);
    assert.deepEqual(
      [calls[0]?.webhookSecret, calls[0]?.idempotencyKey, calls[0]?.retries],
      [null, "k", 0],
    );
  }),
);

test(
  "fields and parameters with wrong values are refused before anybody is asked, and name what is allowed",
  bothWays(async (t, openBed) => {
    const { bed, calls } = await openAccepting((options) => openBed(t, options), acceptWhole);
    const hook = "&webhookEndpoint=https%3A%2F%2Fx";
    const wrong: readonly (readonly [string, string, readonly string[], RegExp])[] = [
      ["a bad webhookEndpoint", "&webhookEndpoint=ftp%3A%2F%2Fx", [], /webhookEndpoint: ftp:/],
      ["an empty webhookEndpoint", "&webhookEndpoint=", [], /webhookEndpoint: /],
      [
        "an empty key",
        "",
        ["Idempotency-Key:"],
        /Idempotency-Key must have 1 to 255 visible ASCII characters; it has 0/,
      ],
      ["a long key", "", [`Idempotency-Key: ${"k".repeat(256)}`], /1 to 255 .* it has 256/],
      ["a key with a blank", "", ["Idempotency-Key: a b"], /visible ASCII/],
      ["a key that is not ASCII", "", ["Idempotency-Key: k\xa0"], /visible ASCII/],
      [
        "two keys",
        "",
        ["Idempotency-Key: a", "idempotency-key: a"],
        /Idempotency-Key is given twice/,
      ],
      [
        "retries that are no number",
        "",
        ["Slipway-Retries: many"],
        /Slipway-Retries .* 0 to 10; given: \\"many\\"/,
      ],
      ["too many retries", "", ["Slipway-Retries: 11"], /0 to 10; given: \\"11\\"/],
      ["negative retries", "", ["Slipway-Retries: -1"], /0 to 10; given: \\"-1\\"/],
      [
        "an empty secret",
        hook,
        ["X-Webhook-Secret:"],
        /X-Webhook-Secret must have 1 to 512 printable/,
      ],
      ["a long secret", hook, [`X-Webhook-Secret: ${"s".repeat(513)}`], /1 to 512/],
      [
        "two secrets",
        hook,
        ["X-Webhook-Secret: hidden", "X-Webhook-Secret: hidden"],
        /X-Webhook-Secret is given twice/,
      ],
      ["a secret that is not ASCII", hook, ["X-Webhook-Secret: hidden\x80"], /printable ASCII/],
    ];
    for (const [what, query, fields, message] of wrong) {
      const client = await bed.connect();
      client.ask(
        `POST ${helloPath}/run?async=true${query}`,
        ["Content-Length: 2", "Connection: close", ...fields],
        "{}",
      );
      await client.sawEnd();
      assert.match(client.text, /^HTTP\/1\.1 400 /, what);
      assert.match(client.text, message, what);
      assert.doesNotMatch(client.text, /hidden/, what);
    }
    assert.equal(calls.length, 0);
  }),
);

test("an app without a release and a proxy that is closed take no async calls", async (t) => {
  const { bed, calls } = await openAccepting((options) => openProxyBed(t, options), acceptWhole, {
    route: { live: null },
  });
  assert.equal((await bed.call("/run?async=true")).status, 503);
  const other = await openAccepting((options) => openProxyBed(t, options), acceptWhole);
  other.bed.proxy.close();
  assert.match(await (await other.bed.call("/run?async=true")).text(), /stopping/);
  assert.equal(calls.length + other.calls.length, 0);
});

test(
  "bodies are read whole, announced or not, in pieces of any size",
  bothWays(async (t, openBed) => {
    const bodies: Buffer[] = [];
    const { bed, calls } = await openAccepting(
      (options) => openBed(t, options),
      (call) => {
        void call.readBody(200_000).then((body) => {
          assert.ok(body instanceof Buffer);
          bodies.push(body);
          call.accepted(call.runId);
        });
      },
    );
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/?async=true`, ["Content-Length: 150000"], "a".repeat(70_000));
    await until("it is being read", () => calls.length === 1);
    client.send("b".repeat(80_000));
    await until("it is read", () => bodies.length === 1);
    assert.equal(bodies[0]?.toString("latin1"), "a".repeat(70_000) + "b".repeat(80_000));
    client.ask(
      `POST ${helloPath}/?async=true`,
      ["Transfer-Encoding: chunked"],
      `${"1\r\nx\r\n".repeat(3_000)}0\r\n\r\n`,
    );
    await until("the chunks are read", () => bodies.length === 2);
    assert.equal(bodies[1]?.toString("latin1"), "x".repeat(3_000));
    client.ask(`GET ${helloPath}/?async=true`);
    await until("the empty one is read", () => bodies.length === 3);
    assert.equal(bodies[2]?.length, 0);
    assert.deepEqual(
      calls.map((call) => call.contentLength),
      [150_000, -1, 0],
    );
  }),
);

test("a client that asks first is told to go on once its body is read", async (t) => {
  const { bed, calls } = await openAccepting(
    (options) => openProxyBed(t, options),
    () => undefined,
  );
  const client = await bed.connect();
  client.ask(`POST ${helloPath}/?async=true`, ["Content-Length: 4", "Expect: 100-continue"]);
  await until("it is handed over", () => calls.length === 1);
  assert.equal(client.text, "");
  const [call] = calls;
  assert.ok(call !== undefined);
  const body = call.readBody(4);
  await client.sees("100 Continue");
  client.send("body");
  assert.equal(String(await body), "body");
  call.accepted(call.runId);
  await client.sees("202 Accepted");
});

test(
  "a body that is longer than the limit is refused, and the message names the setting",
  bothWays(async (t, openBed) => {
    const { bed } = await openAccepting(
      (options) => openBed(t, options),
      (call) => {
        void call.readBody(10).then((body) => {
          assert.ok(body instanceof Fault);
          call.refuse(body);
        });
      },
    );
    const told = await bed.call("/run?async=true", { method: "POST", body: "x".repeat(11) });
    assert.equal(told.status, 413);
    assert.match(await told.text(), /larger than 10 bytes.*SLIPWAY_ASYNC_BODY_LIMIT_MB/);
    const client = await bed.connect();
    client.ask(
      `POST ${helloPath}/?async=true`,
      ["Transfer-Encoding: chunked"],
      `b\r\n${"x".repeat(11)}\r\n`,
    );
    await client.sees("413 ");
  }),
);

test("the limit of plain calls does not hold for bodies that are kept", async (t) => {
  const { bed } = await openAccepting((options) => openProxyBed(t, options), acceptWhole, {
    limits: { bodyBytesMax: 10 },
  });
  assert.equal(
    (await bed.call("/run?async=true", { method: "POST", body: "x".repeat(11) })).status,
    202,
  );
  const plain = await bed.call("/run", { method: "POST", body: "x".repeat(11) });
  assert.equal(plain.status, 413);
  assert.match(await plain.text(), /SLIPWAY_BODY_LIMIT_MB/);
});

test("a body that breaks off or comes too slowly is told as such", async (t) => {
  const clock = new VirtualClock();
  const results: (Buffer | Fault)[] = [];
  const { bed, calls } = await openAccepting(
    (options) => openProxyBed(t, options),
    (call) => {
      void call.readBody(1_000_000).then((body) => {
        results.push(body);
        if (body instanceof Fault) call.refuse(body);
      });
    },
    { clock },
  );
  const leaving = await bed.connect();
  leaving.ask(`POST ${helloPath}/?async=true`, ["Content-Length: 10"], "half");
  await until("it is being read", () => calls.length === 1);
  leaving.socket.destroy();
  await until("it has broken off", () => results.length === 1);
  assert.match(String(results[0]), /is incomplete/);

  const slow = await bed.connect();
  slow.ask(`POST ${helloPath}/?async=true`, ["Content-Length: 400000"], "x".repeat(320_000));
  await until("it is being read", () => calls.length === 2);
  slow.send("y");
  await clock.advance(31_000);
  assert.equal(results.length, 1, "what has come so far buys time");
  await clock.advance(30_000);
  await until("it is too slow", () => results.length === 2);
  assert.match(String(results[1]), /too slowly/);
  await slow.sees("400 ");
});

test(
  "a client that has gone is no trouble to who answers it",
  bothWays(async (t, openBed) => {
    const { bed, calls } = await openAccepting(
      (options) => openBed(t, options),
      () => undefined,
    );
    const client = await bed.connect();
    client.ask(`POST ${helloPath}/?async=true`, ["Content-Length: 2"], "{}");
    await until("it is handed over", () => calls.length === 1);
    client.socket.destroy();
    const [call] = calls;
    assert.ok(call !== undefined);
    const countConnections = promisify(
      bed.listener.server.getConnections.bind(bed.listener.server),
    );
    await until("its end is seen", async () => (await countConnections()) === 0);
    call.accepted(call.runId);
    call.refuse(new Fault("internal", "late"));
  }),
);

test("a WebSocket cannot be run later, and has no answer to forward", async (t) => {
  const bed = await openProxyBed(t, { settings: { runtime: "custom" }, options: { forwarding } });
  for (const query of ["async=true", "webhookEndpoint=https%3A%2F%2Fx"]) {
    const client = await bed.connect();
    client.ask(`GET /v4/${projectId}/hello/ws?${query}`, [
      "Connection: Upgrade",
      "Upgrade: websocket",
    ]);
    await client.sawEnd();
    assert.match(client.text, /^HTTP\/1\.1 400 /);
    assert.match(client.text, new RegExp(`leave ${query.split("=")[0]}.* out`));
  }
});

test("the platform's own paths of a replica cannot be called, not even later", async (t) => {
  const { bed, calls } = await openAccepting((options) => openProxyBed(t, options), acceptWhole, {
    settings: { runtime: "custom" },
  });
  const seen: unknown[] = [];
  bed.setReplicas(
    await httpReplica(t, (request, response) => response.end(seen.push(request.url))),
  );
  for (const path of [
    "/_slipway/runs/1",
    "/%5Fslipway/ready",
    "/a/..//_SLIPWAY/x",
    "/_slipway?async=true",
  ]) {
    const client = await bed.connect();
    client.ask(`GET ${helloPath}${path}`, ["Connection: close"]);
    await client.sawEnd();
    assert.match(client.text, /^HTTP\/1\.1 404 /, path);
    const socket = await bed.connect();
    socket.ask(`GET ${helloPath}${path}`, ["Connection: Upgrade", "Upgrade: websocket"]);
    await socket.sawEnd();
    assert.match(socket.text, /^HTTP\/1\.1 404 /, path);
  }
  assert.equal(seen.length + calls.length, 0);
});
