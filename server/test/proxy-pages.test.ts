// What pages of an open app can do in the browser of somebody who is signed in to the dashboard of
// the same platform: no more than a stranger's.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { AppHosts } from "#lib/app-hosts.ts";
import "#test/support/leftovers.ts";
import {
  answerWith,
  bedTokens,
  bothWays,
  helloPath,
  httpReplica,
  openProxyBed,
  rawReplica,
  type ProxyBed,
} from "#test/support/proxy-bed.ts";

const sandbox = /^sandbox(?: allow-(?!same-origin|top-navigation)[a-z-]+)+$/;

async function startReplica(t: TestContext, answer: RequestListener): Promise<number> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function get(
  { port }: ProxyBed,
  headers: Record<string, string>,
  path = `${helloPath}/page`,
): Promise<IncomingMessage> {
  const sent = request({ host: "127.0.0.1", port, path, headers });
  sent.end();
  const [answer] = await once(sent, "response");
  answer.resume();
  await once(answer, "end");
  return answer;
}

const bound = `of_the_app=1; Path=${helloPath}`;

const attack: RequestListener = (_request, response) => {
  response.writeHead(200, [
    "Content-Type",
    "text/html",
    "Content-Length",
    "2",
    "Content-Security-Policy",
    "script-src 'self'",
    "Set-Cookie",
    "slipway_session=mine; Path=/v2/auth",
    "Set-Cookie",
    "of_the_app=1; Path=/; Domain=example",
    "set-cookie",
    "__Secure-slipway_session=mine; Path=/v2/auth; Secure",
    "SET-COOKIE",
    "=slipway.state=mine",
  ]);
  response.end("ok");
};

for (const takesPlain of [true, false]) {
  const how = takesPlain ? "plainly" : "by node's server";
  test(`pages of an open app run as a stranger's, and set none of the platform's cookies, read ${how}`, async (t) => {
    const bed = await openProxyBed(t, {
      takesPlain,
      route: { disableAuth: true },
      options: { appHosts: new AppHosts("apps.example") },
    });
    bed.setReplicas(await startReplica(t, attack));
    for (const host of [
      "slipway.example",
      "127.0.0.1:7070",
      "apps.example",
      "hello-p-00000001.localhost",
    ]) {
      const { statusCode, headersDistinct: all } = await get(bed, { host });
      assert.equal(statusCode, 200);
      const [own, policy, ...more] = all["content-security-policy"] ?? [];
      assert.deepEqual([own, more], ["script-src 'self'", []], "the app's own holds as well");
      assert.match(policy ?? "none", sandbox, `for ${host}`);
      assert.deepEqual(all["set-cookie"], [bound]);
    }
    for (const host of ["hello-p-00000001.apps.example", "Hello-P-00000001.APPS.example:8443"]) {
      for (const path of ["/page", `${helloPath}/page`]) {
        const { headersDistinct: all } = await get(bed, { host }, path);
        assert.deepEqual(
          all["content-security-policy"],
          ["script-src 'self'"],
          "it is alone there",
        );
        assert.deepEqual(all["set-cookie"], ["of_the_app=1; Path=/"], "and keeps to its own name");
      }
    }
  });
}

test(
  "a page of an app that takes tokens is a stranger's, too, and no cache shows it to whoever sends none",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(await startReplica(t, attack));
    const authorization = `Bearer ${bedTokens.project}`;
    const { headersDistinct: all } = await get(bed, { authorization });
    assert.match(all["content-security-policy"]?.[1] ?? "none", sandbox);
    assert.deepEqual(all["vary"], ["Authorization"]);
    assert.deepEqual(
      all["set-cookie"],
      [bound],
      "all cookies of one name and port are in one place",
    );
    const own = await get(bed, { authorization, host: "hello-p-00000001.localhost" }, "/page");
    assert.deepEqual(own.headersDistinct["content-security-policy"], ["script-src 'self'"]);
    assert.deepEqual(own.headersDistinct["vary"], ["Authorization"]);
    const refused = await get(bed, {});
    assert.equal(refused.statusCode, 401);
    assert.match(
      refused.headersDistinct["content-security-policy"]?.[0] ?? "none",
      sandbox,
      "a refusal is no page either",
    );
  }),
);

test("an app that takes a WebSocket or refuses it binds its cookies to its own path, and hints set none", async (t) => {
  const bed = await openProxyBed(t, { settings: { runtime: "custom" } });
  const cookie = "Set-Cookie: of_the_app=1; Path=/\r\n";
  const answers = [
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${cookie}\r\n`,
    `HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n${cookie}\r\n`,
  ];
  const hints = `HTTP/1.1 103 Early Hints\r\n${cookie}Link: </a>\r\n\r\n`;
  let answer = "";
  bed.setReplicas(await rawReplica(t, (socket) => answerWith(socket, answer)));
  for (answer of answers) {
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/`, ["Connection: Upgrade", "Upgrade: websocket"]);
    await client.sees("\r\n\r\n");
    assert.match(
      client.text,
      new RegExp(`^HTTP/1\\.1 (?:101|403) [^]*\\r\\nSet-Cookie: ${bound}\\r\\n`),
    );
    assert.equal(client.text.match(/Set-Cookie/gi)?.length, 1);
  }
  answer = `${hints}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood`;
  for (const fields of [[], ["TE: trailers"]]) {
    const client = await bed.connect();
    client.ask(`GET ${helloPath}/`, fields);
    await client.sees("good");
    assert.match(client.text, /103 Early Hints\r\nLink/);
    assert.doesNotMatch(client.text, /Set-Cookie/i);
  }
});

test(
  "an app is sent no cookie of the platform's",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(
      await httpReplica(t, (asked, response) =>
        response.end(JSON.stringify(asked.headers.cookie ?? null)),
      ),
    );
    const cookies = {
      "a=1; slipway_session=secret; b=2": "a=1; b=2",
      "__Secure-slipway_session=secret; slipway_device=secret": null,
      "a=slipway_session": "a=slipway_session",
    };
    for (const [cookie, seen] of Object.entries(cookies)) {
      for (let round = 0; round < 2; round++) {
        assert.equal(await (await bed.call("/run", { headers: { cookie } })).json(), seen);
      }
    }
  }),
);
