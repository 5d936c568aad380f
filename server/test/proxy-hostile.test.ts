// Apps and callers that mean harm: what they send must neither fill the platform's memory, nor pass
// for something that the platform said, nor reach beyond the app.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  answerWith,
  bothWays,
  Flood,
  helloPath,
  openProxyBed,
  rawReplica,
} from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";

test(
  "the refusal of a HEAD has no body, so that the next answer is not taken for it",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    bed.setReplicas(await rawReplica(t, (socket) => answerWith(socket, good)));
    const client = await bed.connect();
    client.send(`HEAD ${helloPath}/x HTTP/1.1\r\nHost: test\r\n\r\n`);
    await client.sees("\r\n\r\n");
    client.ask(`GET ${helloPath}/x`);
    await client.sees("good");
    assert.match(client.text, /^HTTP\/1\.1 401 [^{}]*?\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
  }),
);

test("an app that refuses a WebSocket with an endless body is held up when its client does not read", async (t) => {
  const bed = await openProxyBed(t, { settings: { runtime: "custom" } });
  const total = 64 * 1024 * 1024;
  let flood = null as Flood | null;
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      socket.once("data", () => {
        socket.write("HTTP/1.1 200 OK\r\n\r\n");
        flood = new Flood(socket, total);
      });
    }),
  );
  const client = await bed.connect();
  client.socket.pause();
  client.ask(`GET ${helloPath}/`, ["Connection: Upgrade", "Upgrade: websocket"]);
  await until("the app sends", () => flood !== null);
  await flood?.isStuck();
  const sentBytes = flood?.sentBytes ?? 0;
  assert.ok(sentBytes < total / 2, `${sentBytes} bytes left although nobody reads`);
});

test(
  "an app's answer has no fields that hold for the whole site, which other apps and the dashboard share",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const fields = [
      "Service-Worker-Allowed: /",
      'clear-site-data: "*"',
      "Strict-Transport-Security: max-age=1",
      'Alt-Svc: h2=":1"',
      "NEL: {}",
      "Report-To: {}",
      "Accept-CH: Sec-CH-UA",
      "Origin-Agent-Cluster: ?1",
      'Use-As-Dictionary: match="/*"',
      "Set-Login: logged-in",
      'Secure-Session-Registration: (ES256);path="/v4"',
      'Sec-Session-Registration: (ES256);path="/v4"',
      "X-Mine: yes",
    ];
    const answer = `HTTP/1.1 200 OK\r\n${fields.join("\r\n")}\r\nContent-Length: 0\r\n\r\n`;
    bed.setReplicas(await rawReplica(t, (socket) => answerWith(socket, answer)));
    const names = [...(await bed.call("/run")).headers.keys()].filter(
      (name) => !/^(?:connection|keep-alive)$/.test(name),
    );
    const own = [
      "content-length",
      "content-security-policy",
      "date",
      "vary",
      "x-mine",
      "x-request-id",
    ];
    assert.deepEqual(names.sort(), own);
  }),
);

test(
  "neither look-alikes nor trailers tell an app what only the platform may tell it",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    let seen = "";
    bed.setReplicas(
      await rawReplica(t, (socket) =>
        socket.on("data", (chunk: Buffer) => {
          seen += chunk.toString("latin1");
          if (seen.endsWith("0\r\nX-Kept: yes\r\n\r\n")) socket.write(good);
        }),
      ),
    );
    const client = await bed.connect();
    const looks = [
      "X_Forwarded_For: 6.6.6.6",
      "x_request_id: mine",
      "X_Mine: yes",
      "Transfer-Encoding: chunked",
    ];
    const trailers = [
      "X-Forwarded-For: 6.6.6.6",
      "Authorization: Bearer x",
      "X-Request-Id: mine",
      "X-Kept: yes",
    ];
    client.ask(`POST ${helloPath}/run`, looks, `2\r\nhi\r\n0\r\n${trailers.join("\r\n")}\r\n\r\n`);
    await client.sees("good");
    assert.ok(seen.includes("X_Mine: yes"));
    assert.doesNotMatch(seen, /6\.6\.6\.6|mine|Bearer/);
  }),
);
