// Apps are served below a path and answer below `/`: they are told the path, and their redirects
// lead below it.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  openProxyBed,
  bothWays,
  helloPath,
  httpReplica,
  projectId,
  rawReplica,
} from "./support/proxy-bed.ts";
import type { AsyncCall } from "#proxy/async-accept.ts";

const root = `/v4/${projectId}/hello`;

test(
  "an app is told the path below which clients see it, whatever they claim, and its redirects lead below that path",
  bothWays(async (t, openBed) => {
    const bed = await openBed(t);
    const told: unknown[] = [];
    const port = await httpReplica(t, (request, response) => {
      told.push(request.headers["x-forwarded-prefix"]);
      const own = `http://${request.headers.host}`;
      const location = (request.url ?? "").startsWith("/whole") ? `${own}/health/` : "/health/";
      response.writeHead(307, { Location: location, "Set-Cookie": "a=b" });
      // With and without a length: whole and streamed.
      if (request.url === "/streamed") response.write("moved");
      response.end();
    });
    bed.setReplicas(port);
    const forged = { "x-forwarded-prefix": "/evil", x_forwarded_prefix: "/evil" };
    const locationOf = async (path: string): Promise<string | null> => {
      const response = await bed.call(path, { redirect: "manual", headers: forged });
      assert.equal(response.status, 307);
      await response.text();
      return response.headers.get("location");
    };
    assert.equal(await locationOf("/health"), `${root}/health/`);
    assert.equal(await locationOf("/streamed"), `${root}/health/`);
    assert.equal(await locationOf("/whole"), `http://127.0.0.1:${bed.port}${root}/health/`);
    assert.deepEqual(told, [root, root, root]);
  }),
);

test("a refused WebSocket handshake is redirected below the app's path too", async (t) => {
  const bed = await openProxyBed(t, { settings: { runtime: "custom" } });
  let head = "";
  bed.setReplicas(
    await rawReplica(t, (socket) => {
      socket.on("data", (chunk: Buffer) => {
        head += chunk.toString("latin1");
        socket.end(
          "HTTP/1.1 308 Permanent Redirect\r\nLocation: /ws/\r\nContent-Length: 0\r\n\r\n",
        );
      });
    }),
  );
  const socket = await bed.connect();
  socket.ask(`GET ${helloPath}/ws`, [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "X-Forwarded-Prefix: /evil",
  ]);
  await socket.sees(`Location: ${root}/ws/\r\n`);
  assert.deepEqual(head.match(/^x-forwarded-prefix:.*$/gim), [`X-Forwarded-Prefix: ${root}`]);
});

test(
  "an app is told its path in async runs too",
  bothWays(async (t, openBed) => {
    const calls: AsyncCall[] = [];
    const accept = (call: AsyncCall): void => {
      calls.push(call);
      call.accepted(call.runId);
    };
    const bed = await openBed(t, { options: { asyncAccept: { accept } } });
    await bed.call("/run?async=true", { headers: { "x-forwarded-prefix": "/evil" } });
    assert.deepEqual(calls[0]?.lines.match(/^x-forwarded-prefix:.*$/gim), [
      `X-Forwarded-Prefix: ${root}`,
    ]);
  }),
);
