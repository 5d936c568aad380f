// Watching a replica: when it takes calls, when it does not, and when it is given up on.
import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { watchHealth } from "./health.ts";
import type { ProbeTarget } from "./probe.ts";

/** A replica whose checks pass or fail as the test says. */
function watched(
  options: {
    isReady?: boolean;
    failing?: string;
    endpoints?: { ready: string; health: string };
  } = {},
) {
  const clock = new VirtualClock();
  const abort = new AbortController();
  const { ready, health } = options.endpoints ?? { ready: "/ready", health: "/health" };
  const failing = new Set(options.failing === undefined ? [] : [options.failing]);
  const asked: string[] = [];
  const events: string[] = [];
  const timeouts: number[] = [];
  const watching = watchHealth({
    checks: { address: { host: "127.0.0.1", port: 1 }, ready, health },
    isReady: options.isReady ?? false,
    events: {
      onNotReady: () => undefined,
      onReady: () => events.push(`ready at ${clock.monotonicMs()}`),
      onRouted: (isRouted) => events.push(isRouted ? "routed" : "not routed"),
      onUnhealthy: (reason) => events.push(reason),
    },
    probe: ({ endpoint, timeoutMs }: ProbeTarget) => {
      asked.push(endpoint);
      timeouts.push(timeoutMs);
      return Promise.resolve(
        failing.has(endpoint) ? { ok: false, reason: "GET /health answered 500." } : { ok: true },
      );
    },
    clock,
    signal: abort.signal,
  });
  return { clock, abort, failing, asked, events, timeouts, watching };
}

test("a server that is up after some milliseconds is found some milliseconds later", async () => {
  const { clock, failing, events } = watched({ failing: "/ready" });
  await clock.advance(14);
  failing.delete("/ready");
  await clock.advance(100);
  assert.deepEqual(events, ["ready at 15"]);
});

test("a server takes no calls while its health check fails, which would end it soon", async () => {
  const { clock, failing, events, asked, timeouts } = watched({ failing: "/health" });
  await clock.advance(14);
  assert.deepEqual(timeouts.slice(0, 2), [2000, 10_000], "the latter as later");
  assert.deepEqual(asked.slice(0, 2), ["/ready", "/health"]);
  assert.deepEqual(events, []);
  failing.delete("/health");
  await clock.advance(100);
  assert.deepEqual(events, ["ready at 15"]);
});

test("a slow server is asked about twice a second", async () => {
  const { clock, asked } = watched({ failing: "/ready" });
  await clock.advance(60_000);
  assert.ok(asked.length > 100 && asked.length < 160, `asked ${asked.length} times`);
});

test("a failing ready check takes it out of service until it passes, without giving up on it", async () => {
  const { clock, failing, events } = watched({ isReady: true });
  failing.add("/ready");
  await clock.advance(60_000);
  assert.deepEqual(events, ["not routed"]);
  failing.delete("/ready");
  await clock.advance(1000);
  assert.deepEqual(events, ["not routed", "routed"]);
});

test("a health check that fails five times in a row ends the watch, fewer do not", async () => {
  const { clock, failing, events, watching } = watched({ isReady: true });
  await clock.advance(9999);
  failing.add("/health");
  await clock.advance(4000);
  failing.delete("/health");
  await clock.advance(30_000);
  assert.deepEqual(events, []);
  failing.add("/health");
  await clock.advance(20_000);
  assert.deepEqual(events, ["Its health check failed 5 times in a row. GET /health answered 500."]);
  await watching;
});

test("the same check for both is asked once each time", async () => {
  const { clock, asked } = watched({ isReady: true, endpoints: { ready: "", health: "" } });
  await clock.advance(10_000);
  assert.deepEqual(asked, [""]);
});

test("an abort ends the watch at any point", async () => {
  for (const isReady of [true, false]) {
    const { abort, failing, events, watching } = watched({ isReady });
    failing.add("/ready");
    abort.abort();
    await watching;
    assert.deepEqual(events, []);
  }
});
