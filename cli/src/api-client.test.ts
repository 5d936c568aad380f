// What the command line says of answers that it cannot read.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiClient } from "./api-client.ts";
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";

const machine = { version: "0.0.0", system: "test" } as Machine;

test("an answer that is not compressed as it says is named as such, not as a platform that is gone", async (t) => {
  const server = createServer((request, response) => {
    const coding = request.url?.slice(1) ?? "";
    response.writeHead(200, { "content-encoding": coding }).end("this is plain text");
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new ApiClient({ url, machine, bearer: () => Promise.resolve("token") });
  for (const coding of ["gzip", "deflate", "br"]) {
    const read = async (): Promise<void> => {
      for await (const bytes of (await client.download(`/${coding}`)).bytes) void bytes;
    };
    await assert.rejects(read(), (error) => {
      assert.ok(error instanceof Refused);
      assert.match(
        error.message,
        /^The answer of http:\S+ is not compressed as its Content-Encoding says \(\w+\)\.$/,
      );
      return true;
    });
  }
});
