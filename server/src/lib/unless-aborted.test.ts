// Waiting for an answer unless a signal is aborted: each of the ways in which it ends.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { unlessAborted } from "./unless-aborted.ts";

const reason = new Error("it has to end");

test("an answer, or the error in its place, comes as it is, and nothing listens any more", async () => {
  const { signal } = new AbortController();
  assert.equal(await unlessAborted(signal, Promise.resolve("done")), "done");
  const failure = new Error("it failed");
  await assert.rejects(
    unlessAborted(signal, Promise.reject(failure)),
    (error) => error === failure,
  );
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("work that goes on after its signal is not waited for, and its late failure is nobody's", async () => {
  const control = new AbortController();
  const { promise, reject } = Promise.withResolvers<string>();
  const waiting = unlessAborted(control.signal, promise);
  control.abort(reason);
  await assert.rejects(waiting, (error) => error === reason);
  // Unhandled, it would fail this test.
  reject(new Error("it failed late"));
});

test("a signal that is aborted already ends the wait", async () => {
  const never = Promise.withResolvers<string>().promise;
  await assert.rejects(
    unlessAborted(AbortSignal.abort(reason), never),
    (error) => error === reason,
  );
});
