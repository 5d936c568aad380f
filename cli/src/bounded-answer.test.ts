// What is read of an answer, against its bound.
import assert from "node:assert/strict";
import { test } from "node:test";
import { boundedAnswer } from "./bounded-answer.ts";
import { Refused } from "./refused.ts";

test("an answer that does not end is refused at its bound; a smaller one stays as it is", async () => {
  let sent = 0;
  const endless = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      sent += 1000;
      controller.enqueue(new Uint8Array(1000));
    },
  });
  const isRefused = (error: unknown): boolean =>
    error instanceof Refused && /larger than 1 MB/.test(error.message);
  await assert.rejects(boundedAnswer(new Response(endless), 1e6).text(), isRefused);
  assert.ok(sent < 1.1e6, String(sent));
  const small = boundedAnswer(Response.json({ message: "no" }, { status: 404 }));
  assert.deepEqual([small.status, await small.json()], [404, { message: "no" }]);
});
