// Uploads over a connection that breaks, and refusals, against a real server that stores parts as
// the platform does.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test, type TestContext } from "node:test";
import { upload } from "./upload.ts";

/** `act` may break a request: true says that it has answered, or ended the connection. */
async function stage(
  t: TestContext,
  act: (request: IncomingMessage, response: ServerResponse) => boolean,
) {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const content = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));
  writeFileSync(join(folder, "app.zip"), content);
  let stored = Buffer.alloc(0);
  const server = createServer((request, response) => {
    assert.equal(request.headers.authorization, undefined);
    const answer = (): void =>
      void response.end(
        JSON.stringify({
          receivedBytes: stored.length,
          isComplete: stored.length === content.length,
        }),
      );
    if (request.method === "GET") return answer();
    const from = Number(/^bytes (\d+)-/.exec(request.headers["content-range"] ?? "")?.[1]);
    stored = stored.subarray(0, from);
    if (act(request, response)) return;
    request.on("data", (part: Buffer) => (stored = Buffer.concat([stored, part])));
    request.on("end", answer);
  }).listen(0, "127.0.0.1");
  t.after(() => (server.close(), server.closeAllConnections()));
  await once(server, "listening");
  const troubles: string[] = [];
  const given = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/uploads/a`,
    path: join(folder, "app.zip"),
    bytes: content.length,
    onProgress: () => undefined,
    onTrouble: (message: string) => void troubles.push(message),
    againMs: 1,
  };
  return { given, troubles, isWhole: () => stored.equals(content) };
}

test("an upload goes on where the platform has it after lost connections", async (t) => {
  let requests = 0;
  const { given, troubles, isWhole } = await stage(t, (request) => {
    requests++;
    if (requests === 2)
      request.once("data", () => setImmediate(() => request.socket.resetAndDestroy()));
    if (requests === 3) request.socket.destroy();
    return requests === 3;
  });
  await upload(given);
  assert.ok(isWhole());
  assert.equal(troubles.length, 2);
  assert.match(
    troubles[0] ?? "",
    /^The upload was interrupted \(.*\); going on at .* of 0\.3 MB\.$/,
  );
});

test("a refusal is told as the platform says it, without a second try; trouble of its own is waited for", async (t) => {
  let requests = 0;
  const refuse =
    (status: number, times: number) => (request: IncomingMessage, response: ServerResponse) => {
      requests++;
      if (requests > times) return false;
      request.resume();
      response
        .writeHead(status)
        .end(JSON.stringify({ message: "The upload is larger than 1 MB." }));
      return true;
    };
  const large = await stage(t, refuse(413, 1));
  await assert.rejects(upload(large.given), {
    message: "The upload is larger than 1 MB.",
    status: 413,
  });
  assert.equal(requests, 1);
  requests = 0;
  const busy = await stage(t, refuse(503, 3));
  await upload(busy.given);
  assert.ok(busy.isWhole());
});

test("a platform that stays away ends the upload with the reason", async (t) => {
  const { given } = await stage(t, (request) => {
    request.socket.destroy();
    return true;
  });
  await assert.rejects(upload(given), { message: /^The upload cannot go on: / });
});

test("a platform that stores nothing, or whose answer does not end, ends the upload with the reason", async (t) => {
  const none = await stage(t, (request, response) => {
    request.resume().on("end", () => response.end('{"receivedBytes": 0}'));
    return true;
  });
  await assert.rejects(upload(none.given), {
    message: "The upload cannot go on: the platform stored nothing of it",
  });
  const endless = await stage(t, (request, response) => {
    const parts = function* () {
      for (;;) yield "a".repeat(50_000);
    };
    request.resume().on("end", () => Readable.from(parts()).pipe(response));
    return true;
  });
  await assert.rejects(upload(endless.given), {
    message: "The upload cannot go on: its answer does not end",
  });
});
