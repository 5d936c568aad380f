// The host name of its own that each app has: every path there is the app's and none is the
// platform's.
import assert from "node:assert/strict";
import { request } from "node:http";
import { once } from "node:events";
import { test } from "node:test";
import "#test/support/leftovers.ts";
import {
  bedTokens,
  bothWays,
  helloPath,
  httpReplica,
  openProxyBed,
  type ProxyBed,
} from "#test/support/proxy-bed.ts";

const host = "hello-p-00000001.localhost:7070";
const token = { authorization: `Bearer ${bedTokens.project}` };

type Answered = {
  readonly status: number;
  readonly text: string;
  readonly headers: Record<string, unknown>;
};

async function ask(
  { port }: ProxyBed,
  path: string,
  headers: Record<string, string>,
): Promise<Answered> {
  const sent = request({ host: "127.0.0.1", port, path, headers });
  sent.end();
  const [answer] = await once(sent, "response");
  const pieces: Buffer[] = await answer.toArray();
  return {
    status: answer.statusCode,
    text: Buffer.concat(pieces).toString(),
    headers: answer.headers,
  };
}

/** An app that says what it was asked. */
async function echoing(t: Parameters<typeof httpReplica>[0]): Promise<number> {
  return httpReplica(t, ({ url, headers }, response) => {
    const location = url?.startsWith("/to") === true ? { location: "/there" } : {};
    response.writeHead(200, location);
    response.end(
      JSON.stringify({ url, prefix: headers["x-forwarded-prefix"] ?? null, host: headers.host }),
    );
  });
}

test(
  "on its own host name an app answers below every path, also below those of the platform",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, { route: { disableAuth: true } });
    bed.setReplicas(await echoing(t));
    for (const path of [
      "/",
      "/a?b=1",
      "/v2/projects",
      "/dashboard",
      "/healthz",
      "/v4/p-00000009/other/x",
      "/v4",
    ]) {
      const { status, text } = await ask(bed, path, { host });
      assert.deepEqual([status, JSON.parse(text)], [200, { url: path, prefix: null, host }]);
    }
    for (const [path, seen] of [
      [helloPath, "/"],
      [`${helloPath}/a?b=1`, "/a?b=1"],
    ] as const) {
      assert.equal(
        JSON.parse((await ask(bed, path, { host })).text).url,
        seen,
        "links with the app's path lead there, too",
      );
    }
    assert.equal(
      (await ask(bed, "/to", { host })).headers["location"],
      "/there",
      "its root is the root",
    );
    assert.equal((await ask(bed, "/_slipway/ready", { host })).status, 404);
  }),
);

test("the name of an app that does not exist is not the platform's, nor is that of an app that takes tokens", async (t) => {
  const bed = await openProxyBed(t);
  bed.setReplicas(await echoing(t));
  for (const path of ["/", "/dashboard", "/v2/auth/token"]) {
    assert.equal((await ask(bed, path, { host: "other-p-00000001.localhost" })).status, 401);
    assert.equal(
      (await ask(bed, path, { ...token, host: "other-p-00000001.localhost" })).status,
      404,
    );
    assert.equal((await ask(bed, path, { host })).status, 401);
    assert.equal((await ask(bed, path, { ...token, host })).status, 200);
  }
  for (const other of [
    "localhost",
    "other.localhost",
    "hello-p-00000001.example",
    "hello-p-00000001.localhost.",
  ]) {
    assert.equal(
      (await ask(bed, "/dashboard", { host: other })).text,
      "fallback /dashboard",
      other,
    );
  }
});

test("a WebSocket on an app's own host name is the app's, and so are its cookies", async (t) => {
  const bed = await openProxyBed(t, {
    route: { disableAuth: true },
    settings: { runtime: "custom" },
  });
  bed.setReplicas(
    await httpReplica(t, (_request, response) => {
      response.writeHead(403, { "set-cookie": "a=1; Path=/x", "content-length": "0" });
      response.end();
    }),
  );
  const client = await bed.connect();
  client.send(
    `GET /socket HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  );
  await client.sees("\r\n\r\n");
  assert.match(client.text, /^HTTP\/1\.1 403 [^]*\r\nSet-Cookie: a=1; Path=\/x\r\n/);
});

test(
  "an app that keeps its path is asked for all of it",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t, {
      route: { disableAuth: true },
      settings: { runtime: "custom", keepPathPrefix: true },
    });
    bed.setReplicas(await echoing(t));
    for (const [path, name, seen] of [
      [`${helloPath}/a?b=1`, "slipway.example", `${helloPath}/a?b=1`],
      [helloPath, "slipway.example", `${helloPath}/`],
      ["/a", host, `${helloPath}/a`],
      [`${helloPath}/a`, host, `${helloPath}/a`],
    ] as const) {
      const { text } = await ask(bed, path, { host: name });
      assert.deepEqual(JSON.parse(text), { url: seen, prefix: null, host: name });
    }
  }),
);
