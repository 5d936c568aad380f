// What a browser lets pages of other origins do with an app: what the app's settings say, or else
// what the app says.
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { test, type TestContext } from "node:test";
import { Fault } from "#lib/fault.ts";
import "#test/support/leftovers.ts";
import {
  bothWays,
  bedTokens,
  helloPath,
  httpReplica,
  openProxyBed,
  type BedOptions,
  type ProxyBed,
} from "#test/support/proxy-bed.ts";

const page = "https://shop.example";
const token = { authorization: `Bearer ${bedTokens.project}` };
const asks = {
  "access-control-request-method": "POST",
  "access-control-request-headers": "content-type,x-of-app",
};
const cors = {
  corsOrigins: [page, "https://other.example"],
  corsHeaders: ["X-Of-App"],
  corsCredentials: true,
};

type Asked = { readonly method?: string; readonly path?: string; readonly body?: string };
type Answered = {
  readonly status: number;
  readonly text: string;
  readonly cors: Record<string, string>;
};

/** The answer, and of its fields those that say something to other origins. */
async function ask(
  { port }: ProxyBed,
  headers: Record<string, string>,
  asked: Asked = {},
): Promise<Answered> {
  const { method = "GET", path = "/run", body = "" } = asked;
  const sent = request({ host: "127.0.0.1", port, method, path: helloPath + path, headers });
  sent.end(body);
  const [answer] = await once(sent, "response");
  const pieces: Buffer[] = await answer.toArray();
  const fields = Object.entries(answer.headersDistinct as Record<string, string[]>)
    .filter(([name]) => name.startsWith("access-control-") || name === "vary")
    .map(([name, values]) => [name, values.join(" + ")]);
  return {
    status: answer.statusCode,
    text: Buffer.concat(pieces).toString(),
    cors: Object.fromEntries(fields),
  };
}

type Bed = ProxyBed & { readonly called: string[] };

/** An app that has a word on other origins itself, and answers preflights with 299. */
async function openBed(t: TestContext, open: typeof openProxyBed, bed: BedOptions) {
  const called: string[] = [];
  const opened = await open(t, bed);
  opened.setReplicas(
    await httpReplica(t, ({ method, url }, response) => {
      called.push(`${method} ${url}`);
      const own = [
        "Access-Control-Allow-Origin",
        "https://of-the-app.example",
        "Access-Control-Max-Age",
        "7",
      ];
      response.writeHead(method === "OPTIONS" ? 299 : 200, [...own, "Content-Length", "2"]);
      response.end("ok");
    }),
  );
  return { ...opened, called } as Bed;
}

const ofApp = {
  "access-control-allow-origin": "https://of-the-app.example",
  "access-control-max-age": "7",
};

test(
  "pages of named origins call a function, and read its answers and why it was not called",
  bothWays(async (t, open) => {
    const bed = await openBed(t, open, { settings: cors });
    const preflight = await ask(bed, { origin: page, ...asks }, { method: "OPTIONS" });
    assert.deepEqual(preflight, {
      status: 204,
      text: "",
      cors: {
        "access-control-allow-origin": page,
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
        "access-control-allow-headers":
          "Authorization, Content-Type, Idempotency-Key, Slipway-Retries, X-Webhook-Secret, X-Of-App",
        "access-control-max-age": "600",
        "access-control-expose-headers": "X-Request-Id, Retry-After",
        vary: "Access-Control-Request-Headers + Authorization + Origin",
      },
    });
    assert.deepEqual(bed.called, [], "no replica is asked");
    const read = {
      "access-control-allow-origin": page,
      "access-control-allow-credentials": "true",
      "access-control-expose-headers": "X-Request-Id, Retry-After",
      vary: "Authorization + Origin",
    };
    const answers = {
      200: await ask(bed, { origin: page, ...token }),
      401: await ask(bed, { origin: page }),
      413: await ask(
        bed,
        { origin: page, ...token, "content-length": "99999999", expect: "100-continue" },
        { method: "POST" },
      ),
      404: await ask(bed, { origin: page, ...token }, { path: "/_slipway/x" }),
      400: await ask(bed, { origin: page, ...token }, { path: "/run?async=perhaps" }),
    };
    for (const [status, answer] of Object.entries(answers)) {
      assert.deepEqual([answer.status, answer.cors], [Number(status), read]);
    }
    assert.deepEqual(
      await ask(bed, { origin: page, ...asks }, { method: "OPTIONS", path: "/_slipway/x" }),
      preflight,
      "a browser asks before it sends what is refused",
    );
    bed.setRoute({ live: null, latestBuild: null });
    assert.equal((await ask(bed, { origin: page, ...token })).status, 503);

    const tooMany = new Fault("rate_limited", "Too many invalid tokens from this address.");
    const tokens = { cached: () => tooMany, check: () => Promise.resolve(tooMany) };
    const limited = await openBed(t, open, { settings: cors, options: { tokens } });
    const refused = await ask(limited, { origin: page, ...token });
    assert.deepEqual([refused.status, refused.cors], [429, read]);
  }),
);

test(
  "a method that calls may not have is refused before the app is known, and no page sends it",
  bothWays(async (t, open) => {
    const bed = await openBed(t, open, { settings: cors });
    const { cors: told } = await ask(bed, { origin: page, ...asks }, { method: "OPTIONS" });
    const refused = await ask(bed, { origin: page, ...token }, { method: "FETCH" });
    assert.deepEqual([refused.status, refused.cors], [405, {}]);
    assert.match(refused.text, /Methods are written in capitals: GET, POST, /);
    const named = /: ([A-Z, ]+)\./.exec(refused.text)?.[1] ?? "";
    const allowed = told["access-control-allow-methods"] ?? "";
    assert.deepEqual(named.split(", ").toSorted(), allowed.split(", ").toSorted());
  }),
);

test(
  "pages of named origins read why an app has no release yet",
  bothWays(async (t, open) => {
    const bed = await openBed(t, open, { route: { live: null, latestBuild: null, cors } });
    assert.equal((await ask(bed, { origin: page, ...asks }, { method: "OPTIONS" })).status, 204);
    const { status, text, cors: told } = await ask(bed, { origin: page, ...token });
    assert.deepEqual([status, told["access-control-allow-origin"]], [503, page]);
    assert.match(text, /hello has no release: it has no build yet\./);
    const other = await ask(bed, { origin: "https://evil.example", ...token });
    assert.deepEqual([other.status, other.cors["access-control-allow-origin"]], [503, undefined]);
  }),
);

test(
  "a page of an origin that is not named, and a caller that is no page, are told nothing",
  bothWays(async (t, open) => {
    const bed = await openBed(t, open, { settings: cors });
    for (const origin of [
      "https://evil.example",
      "null",
      "https://shop.example.evil",
      "https://shop.example:444",
      "",
    ]) {
      const { status, cors: fields } = await ask(bed, { origin, ...token });
      assert.deepEqual(
        [status, fields],
        [200, { vary: "Authorization + Origin" }],
        "not even what the app says",
      );
      const preflight = await ask(bed, { origin, ...asks }, { method: "OPTIONS" });
      assert.equal(preflight.status, 403);
      assert.match(
        preflight.text,
        /hello does not take calls from pages of .*: corsOrigins of the app does not name it\./,
      );
    }
    assert.deepEqual((await ask(bed, token)).cors, { vary: "Authorization + Origin" });
  }),
);

test("all origins may call an app that says so, without cookies, and with all headers where it says so", async (t) => {
  const bed = await openBed(t, openProxyBed, {
    settings: { corsOrigins: ["*"], corsHeaders: ["*"] },
  });
  const preflight = await ask(bed, { origin: "null", ...asks }, { method: "OPTIONS" });
  assert.equal(preflight.cors["access-control-allow-origin"], "*");
  assert.equal(preflight.cors["access-control-allow-credentials"], undefined);
  assert.equal(preflight.cors["access-control-allow-headers"], "content-type,x-of-app");
  const forged = { ...asks, "access-control-request-headers": 'x"y; \u00e9' };
  const { cors: fields } = await ask(bed, { origin: page, ...forged }, { method: "OPTIONS" });
  assert.match(
    fields["access-control-allow-headers"] ?? "",
    /^Authorization, /,
    "nothing else is repeated",
  );
});

test(
  "without the settings a web app answers preflights itself, though they have no token; all else needs one",
  bothWays(async (t, open) => {
    const bed = await openBed(t, open, { settings: { runtime: "custom" } });
    const path = "/run?async=true&webhookEndpoint=https%3A%2F%2Fevil.example%2F&a=1";
    const preflight = await ask(bed, { origin: page, ...asks }, { method: "OPTIONS", path });
    assert.deepEqual(
      [preflight.status, preflight.cors],
      [299, { ...ofApp, vary: "Authorization" }],
    );
    assert.deepEqual(bed.called, ["OPTIONS /run?a=1"], "it starts no run, and sends nothing");
    const others: readonly (readonly [Record<string, string>, Asked])[] = [
      [{ origin: page }, { method: "OPTIONS" }],
      [asks, { method: "OPTIONS" }],
      [
        { origin: page, ...asks, "content-length": "1" },
        { method: "OPTIONS", body: "x" },
      ],
      [
        { origin: page, ...asks, "transfer-encoding": "chunked" },
        { method: "OPTIONS", body: "x" },
      ],
      [{ origin: page, ...asks, authorization: "Bearer wrong" }, { method: "OPTIONS" }],
      [{ origin: page, ...asks }, { method: "POST" }],
      [{ origin: page, ...asks }, { method: "GET" }],
    ];
    for (const [headers, asked] of others)
      assert.equal((await ask(bed, headers, asked)).status, 401);
    assert.deepEqual(bed.called.length, 1);
    assert.deepEqual((await ask(bed, { origin: page, ...token })).cors, {
      ...ofApp,
      vary: "Authorization",
    });
  }),
);

test("a function without the settings is told of a preflight without a token as before: 401", async (t) => {
  const bed = await openBed(t, openProxyBed, {});
  assert.equal((await ask(bed, { origin: page, ...asks }, { method: "OPTIONS" })).status, 401);
});

test(
  "a page of an open app in the sandbox loads scripts, styles and fonts of the app, and no page reads its data",
  bothWays(async (t, open) => {
    const bed = await open(t, { route: { disableAuth: true }, settings: { runtime: "custom" } });
    bed.setReplicas(
      await httpReplica(t, ({ url = "" }, response) => {
        const type = new URL(url, "http://app").searchParams.get("type") ?? "";
        response.writeHead(200, [
          "Access-Control-Allow-Origin",
          "https://of-the-app.example",
          "Content-Type",
          type,
        ]);
        response.end("ok");
      }),
    );
    const read = async (type: string, headers: Record<string, string>) =>
      (await ask(bed, headers, { path: `/x?type=${encodeURIComponent(type)}` })).cors[
        "access-control-allow-origin"
      ];
    const inSandbox = { origin: "null" };
    const code = [
      "text/javascript",
      "text/javascript; charset=utf-8",
      "application/javascript",
      "TEXT/CSS",
      "font/woff2",
    ];
    for (const type of code) assert.equal(await read(type, inSandbox), "null", type);
    for (const type of [
      "application/json",
      "text/html",
      "text/plain",
      "image/png",
      "x-text/css",
      "",
    ]) {
      assert.equal(
        await read(type, inSandbox),
        "https://of-the-app.example",
        `${type}: as the app says`,
      );
    }
    assert.equal(await read("text/css", { origin: page }), "https://of-the-app.example");
    assert.equal(await read("text/css", {}), "https://of-the-app.example");
    bed.setRoute({ disableAuth: false });
    assert.equal(await read("text/css", { ...inSandbox, ...token }), "https://of-the-app.example");
  }),
);

test(
  "a compressed body is refused to a function, naming the coding, and passed on to a web app",
  bothWays(async (t, open) => {
    for (const runtime of ["cortex", "custom"] as const) {
      const bed = await openBed(t, open, { settings: { runtime } });
      const send = (coding: string, body = "x", path = "/run") =>
        ask(
          bed,
          { ...token, "content-encoding": coding, "content-length": String(body.length) },
          { method: "POST", body, path },
        );
      for (const coding of ["gzip", "br", "zstd", "identity, gzip", "x-own"]) {
        const { status, text } = await send(coding);
        assert.equal(status, runtime === "cortex" ? 415 : 200, coding);
        if (runtime === "cortex")
          assert.match(
            text,
            new RegExp(`Content-Encoding \\\\"${coding}\\\\", .* send it uncompressed`),
          );
      }
      assert.equal((await send("identity")).status, 200);
      assert.equal((await send("gzip", "")).status, 200, "there is nothing to decode");
    }
  }),
);
