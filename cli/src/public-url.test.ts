// What is said of a public URL: by what answers there, next to what the platform itself answers.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { publicUrlFinding } from "./public-url.ts";

/** Below a path, since a test beside it may check answers at the platform's own paths. */
async function serve(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  t.after(() => (server.closeAllConnections(), server.close()));
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/below`;
}

const keys = (...ids: readonly string[]): RequestListener => {
  const body = JSON.stringify({ keys: ids.map((kid) => ({ kid, kty: "OKP" })) });
  return (_request, response) => response.end(body);
};

test("the platform's own answer is fine, and takes one request without a token", async (t) => {
  const localUrl = await serve(t, keys("a", "b"));
  const asked: string[] = [];
  const baseUrl = await serve(t, (request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    keys("b", "c")(request, response);
  });
  const about = `SLIPWAY_PUBLIC_URL is ${baseUrl}, and the platform answers there`;
  assert.deepEqual(await publicUrlFinding({ baseUrl, localUrl }), { state: "ok", about });
  assert.deepEqual(asked, ["GET /below/.well-known/jwks.json undefined"]);
});

test("whatever else is there is a warning that says what, names the setting, and where the URL should lead", async (t) => {
  const localUrl = await serve(t, keys("a"));
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const free = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`;
  await new Promise((resolve) => gone.close(resolve));
  const cases: readonly [string, string][] = [
    [await serve(t, keys("z")), "another platform answers there"],
    [
      await serve(t, (_request, response) => response.end("<html>")),
      "something that is no platform answers there",
    ],
    [
      await serve(t, (_request, response) => response.end("x".repeat(200_000))),
      "something that is no platform answers there",
    ],
    [
      await serve(t, (_request, response) => response.end("null")),
      "something that is no platform answers there",
    ],
    [
      await serve(t, (_request, response) => response.writeHead(404).end('{"message":"x"}')),
      "something that is no platform answers there",
    ],
    [
      await serve(t, (_request, response) =>
        response.writeHead(301, { location: "https://other.example/.well-known/jwks.json" }).end(),
      ),
      "it sends on to https://other.example",
    ],
    [await serve(t, () => undefined), "nothing answers there within 3 s"],
    [free, "nothing listens there"],
    // Too long a label for a name server to be asked.
    [`http://${"a".repeat(64)}.invalid`, "its name has no address"],
  ];
  const check = async ([baseUrl, why]: readonly [string, string]): Promise<void> => {
    const { state, about, todo } = await publicUrlFinding({ baseUrl, localUrl });
    const said = `SLIPWAY_PUBLIC_URL is ${baseUrl}, but from this machine ${why}`;
    assert.deepEqual([state, about], ["warning", said]);
    assert.ok(
      todo?.includes(`have it lead to ${localUrl}, or set SLIPWAY_PUBLIC_URL to the URL that does`),
      todo,
    );
  };
  await Promise.all(cases.map(check));
});

test("nothing is said of a public URL while the platform itself does not answer", async (t) => {
  const baseUrl = await serve(t, keys("a"));
  const localUrl = await serve(t, (_request, response) => response.writeHead(503).end());
  const { state, about } = await publicUrlFinding({ baseUrl, localUrl });
  assert.deepEqual(
    [state, about],
    ["ok", `not looked at: the platform at ${localUrl} does not answer`],
  );
});
