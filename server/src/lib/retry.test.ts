// What is tried again: with pauses that grow, until it works, its tries are spent or the platform
// stops.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { retry, untilStop, type RetryOptions } from "./retry.ts";

const policy = { firstMs: 100, factor: 2, msMax: 1_000, jitter: 0.2, triesMax: untilStop };
const stopped = new Error("the platform stops");

/**
 * Something that fails `times` times and then gives "done"; its failures, and when it was tried.
 */
function failing(times: number, options: Partial<RetryOptions> = {}, clock = new VirtualClock()) {
  const stop = new AbortController();
  const triedMs: number[] = [];
  const failures: (readonly [message: string, tries: number, isLast: boolean])[] = [];
  const onFailure = (error: unknown, tries: number, isLast: boolean): void => {
    assert.ok(error instanceof Error);
    failures.push([error.message, tries, isLast]);
  };
  const result = retry({ ...policy, clock, signal: stop.signal, onFailure, ...options }, () => {
    triedMs.push(clock.monotonicMs());
    if (triedMs.length <= times) return Promise.reject(new Error(`failure ${triedMs.length}`));
    return Promise.resolve("done");
  });
  return { clock, stop, triedMs, failures, result };
}

test("tries again after growing pauses until it works, and says of each failure that it goes on", async () => {
  const { clock, triedMs, failures, result } = failing(3);
  await clock.advance(10_000);
  assert.equal(await result, "done");
  assert.deepEqual(triedMs, [0, 100, 300, 700]);
  assert.deepEqual(failures, [
    ["failure 1", 1, false],
    ["failure 2", 2, false],
    ["failure 3", 3, false],
  ]);
});

test("what works at once is tried once", async () => {
  const { triedMs, failures, result } = failing(0);
  assert.equal(await result, "done");
  assert.deepEqual([triedMs, failures], [[0], []]);
});

test("the jitter of its pauses is drawn from the clock", async () => {
  for (const [drawn, pauseMs] of [
    [0, 80],
    [0.75, 110],
  ] as const) {
    const clock = new VirtualClock(() => drawn);
    const { triedMs, result } = failing(1, {}, clock);
    await clock.advance(1_000);
    assert.equal(await result, "done");
    assert.deepEqual(triedMs, [0, pauseMs]);
  }
});

test("gives up after the most tries, and says so with the last failure", async () => {
  const { clock, triedMs, failures, result } = failing(9, { triesMax: 3 });
  await clock.advance(10_000);
  assert.equal(await result, undefined);
  assert.deepEqual(triedMs, [0, 100, 300]);
  assert.deepEqual(failures.at(-1), ["failure 3", 3, true]);
});

test("a stop ends the pause, and nothing is tried after it", async () => {
  const { stop, triedMs, failures, result } = failing(1);
  await Promise.resolve();
  stop.abort(stopped);
  assert.equal(await result, undefined);
  assert.deepEqual([triedMs, failures], [[0], [["failure 1", 1, false]]]);
});

test("what would be lost is tried once more at the stop, without the rest of the pause", async () => {
  for (const [times, result, failures] of [
    [1, "done", ["failure 1", 1, false]],
    [9, undefined, ["failure 2", 2, true]],
  ] as const) {
    const tried = failing(times, { hasTryAtStop: true });
    await Promise.resolve();
    tried.stop.abort(stopped);
    assert.equal(await tried.result, result);
    assert.deepEqual([tried.triedMs, tried.failures.at(-1)], [[0, 0], failures]);
  }
});

test("a failure of a try that the stop finds under way is the last, and no news unless something is lost by it", async () => {
  for (const hasTryAtStop of [false, true]) {
    const stop = new AbortController();
    const failures: boolean[] = [];
    const onFailure = (_error: unknown, _tries: number, isLast: boolean): void =>
      void failures.push(isLast);
    const options = {
      ...policy,
      hasTryAtStop,
      clock: new VirtualClock(),
      signal: stop.signal,
      onFailure,
    };
    const result = await retry(options, () => {
      stop.abort(stopped);
      return Promise.reject(new Error("no connection"));
    });
    assert.deepEqual([result, failures], [undefined, hasTryAtStop ? [true] : []]);
  }
});

test("what begins after the stop is tried only when it would be lost", async () => {
  const signal = AbortSignal.abort(stopped);
  const plain = failing(0, { signal });
  assert.deepEqual([await plain.result, plain.triedMs], [undefined, []]);
  const lost = failing(0, { signal, hasTryAtStop: true });
  assert.deepEqual([await lost.result, lost.triedMs], ["done", [0]]);
});
