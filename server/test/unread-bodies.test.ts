// Answers that are there before a body has arrived reach clients that send all of it before they
// read, and close then.
import "#test/support/leftovers.ts";
import { noOtherSockets } from "#test/support/proxy-alone.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import { createListener } from "#proxy/server.ts";
import { systemClock } from "#lib/clock.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { startManagementApi, type Json } from "#test/support/management-api.ts";

type Sent = {
  /** The method and the path. */
  readonly line: string;
  /** Further fields of the head. */
  readonly fields: string;
  readonly bytes: number;
  readonly isChunked: boolean;
};

/** Sends everything, waits until it is sent, and reads then; as clients without threads do. */
async function post(baseUrl: string, { line, fields, bytes, isChunked }: Sent): Promise<string> {
  const { hostname, port } = new URL(baseUrl);
  const socket = connect(Number(port), hostname);
  socket.pause();
  await once(socket, "connect");
  const length = isChunked ? "transfer-encoding: chunked" : `content-length: ${bytes}`;
  const write = (data: string | Buffer): Promise<void> =>
    new Promise((resolve, reject) =>
      socket.write(data, (error) => (error instanceof Error ? reject(error) : resolve())),
    );
  await write(`${line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${fields}\r\n${length}\r\n\r\n`);
  const piece = Buffer.alloc(65_536, "x");
  for (let sent = 0; sent < bytes; sent += piece.length) {
    const part = piece.subarray(0, Math.min(piece.length, bytes - sent));
    await write(
      isChunked
        ? Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n")])
        : part,
    );
  }
  if (isChunked) await write("0\r\n\r\n");
  let text = "";
  for await (const chunk of socket.setEncoding("utf8")) text += String(chunk);
  return text;
}

test("a body over the limit gets its 413 read, whatever its route and however it is sent", async (t) => {
  const api = await startManagementApi(t, {
    listen: async (context, app) => {
      const listener = createListener({
        fallbackUpgrade: noOtherSockets,
        isAppHost: () => false,
        handle: () => undefined,
        upgrade: () => undefined,
        clock: systemClock,
        trustedProxies: new TrustedProxies([]),
        fallback: (request, response) => app.routing(request, response),
      });
      const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
      context.after(async () => {
        await app.close();
        await listener.close();
      });
      return `http://127.0.0.1:${port}`;
    },
  });
  const project = `/v2/projects/${api.projectId}`;
  const token = `authorization: Bearer ${api.token}`;
  const json = "content-type: application/json";
  const pathOf = (url: string): string => new URL(url).pathname;
  const app = { name: "pushed", gitRepo: "acme/app" };
  const { appId } = (await api.call("POST", `${project}/apps/git`, { body: app })).body as Json;
  const hook = (await api.call("POST", `${project}/apps/${appId}/git-hook`)).body as Json;
  const upload = (await api.call("POST", `${project}/apps`, { body: { name: "sent" } }))
    .body as Json;
  const volume = { file_path: "f", part_count: 1 };
  const begun = (
    await api.call("POST", `${project}/volumes/default/cp/initialize`, { body: volume })
  ).body as Json;
  const requests: Readonly<Record<string, Omit<Sent, "isChunked">>> = {
    "a JSON body": {
      line: `POST ${project}/apps/git`,
      fields: `${json}\r\n${token}`,
      bytes: 8_000_000,
    },
    "a push event": { line: `POST ${pathOf(hook.url)}`, fields: json, bytes: 27_000_000 },
    "a zip": {
      line: `PUT ${pathOf(upload.uploadUrl)}`,
      fields: "content-type: application/zip",
      bytes: 9_000_000,
    },
    "a zip of a client that asks for 100 Continue": {
      line: `PUT ${pathOf(upload.uploadUrl)}`,
      fields: "content-type: application/zip\r\nexpect: 100-continue",
      bytes: 9_000_000,
    },
    "a part of a file": {
      line: `PUT ${pathOf(begun.parts[0].url)}`,
      fields: "x-a: b",
      bytes: 9_000_000,
    },
  };
  for (const [what, { line, fields, bytes }] of Object.entries(requests)) {
    for (const isChunked of [false, true]) {
      const answer = await post(api.baseUrl, { line, fields, bytes, isChunked });
      assert.match(
        answer,
        /^(?:HTTP\/1.1 100 Continue\r\n\r\n)?HTTP\/1.1 413 [^]*\{"message":"[^"]+"\}/,
        `${what}, chunked: ${isChunked}`,
      );
    }
  }
});
