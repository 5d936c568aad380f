// The parts of lib that run: the clock, loops, closing in order, the bounded map, writing files.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { systemClock } from "./clock.ts";
import { Lifecycle } from "./lifecycle.ts";
import { silentLog } from "./log.ts";
import { Loop } from "./loop.ts";
import { LruMap } from "./lru-map.ts";
import { writeFileSafely } from "./write-file.ts";

describe("the clock", () => {
  test("a sleep that is aborted ends at once with the reason", async () => {
    const stop = new AbortController();
    const sleeping = systemClock.sleep(60_000, stop.signal);
    stop.abort(new Error("enough"));
    await assert.rejects(sleeping, { message: "enough" });
    await assert.rejects(systemClock.sleep(60_000, AbortSignal.abort(new Error("before"))), {
      message: "before",
    });
  });
  test("however many sleep until one signal, it has one listener, and none when they are awake", async () => {
    const stop = new AbortController();
    const long = Array.from({ length: 100 }, () => systemClock.sleep(60_000, stop.signal));
    await systemClock.sleep(1, stop.signal);
    assert.equal(getEventListeners(stop.signal, "abort").length, 1);
    stop.abort(new Error("enough"));
    const ended = await Promise.allSettled(long);
    assert.ok(ended.every(({ status }) => status === "rejected"));
    const other = new AbortController();
    await Promise.all([1, 2, 3].map((ms) => systemClock.sleep(ms, other.signal)));
    assert.equal(getEventListeners(other.signal, "abort").length, 0);
  });
  test("what is to run after a while runs once, unless it was called off", async () => {
    let runs = 0;
    const cancel = systemClock.after(5, () => runs++);
    systemClock.after(1, () => runs++);
    cancel();
    await systemClock.sleep(20);
    assert.equal(runs, 1);
  });
  test("a duration never goes back", () => {
    let last = systemClock.monotonicMs();
    for (let count = 0; count < 1000; count++) {
      const now = systemClock.monotonicMs();
      assert.ok(now >= last);
      last = now;
    }
  });
});

describe("a loop", () => {
  /** A loop that looks again only when nudged, whose turns end when told. */
  function controlled(fail: (turn: number) => boolean = () => false) {
    const turns: PromiseWithResolvers<void>[] = [];
    const began: PromiseWithResolvers<void>[] = Array.from({ length: 10 }, () =>
      Promise.withResolvers<void>(),
    );
    const loop = new Loop({
      clock: systemClock,
      name: "test",
      intervalMs: 60_000,
      log: silentLog,
      turn: async () => {
        const end = Promise.withResolvers<void>();
        turns.push(end);
        began[turns.length - 1]?.resolve();
        await end.promise;
        if (fail(turns.length)) throw new Error("a bad turn");
      },
    });
    const turn = async (number: number): Promise<() => void> => {
      await began[number - 1]?.promise;
      return () => turns[number - 1]?.resolve();
    };
    return { loop, turn, count: () => turns.length };
  }

  test("many nudges during one turn lead to exactly one more", async () => {
    const { loop, turn, count } = controlled();
    loop.start();
    const endFirst = await turn(1);
    for (let nudge = 0; nudge < 5; nudge++) loop.nudge();
    assert.equal(count(), 1);
    endFirst();
    (await turn(2))();
    await loop.stop();
    assert.equal(count(), 2);
  });
  test("a nudge while it waits starts a turn at once", async () => {
    const { loop, turn } = controlled();
    loop.start();
    (await turn(1))();
    await new Promise((resolve) => setImmediate(resolve));
    loop.nudge();
    (await turn(2))();
    await loop.stop();
  });
  test("a turn that fails does not end it", async () => {
    const { loop, turn } = controlled((number) => number === 1);
    loop.start();
    const endFirst = await turn(1);
    loop.nudge();
    endFirst();
    (await turn(2))();
    await loop.stop();
  });
  test("stopping waits for the running turn and starts no other", async () => {
    const { loop, turn, count } = controlled();
    loop.start();
    const end = await turn(1);
    let isStopped = false;
    const stopping = loop.stop().then(() => (isStopped = true));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isStopped, false);
    end();
    await stopping;
    loop.nudge();
    assert.equal(count(), 1);
  });
  test("it looks again by itself after its interval", async () => {
    const third = Promise.withResolvers<void>();
    let turns = 0;
    const loop = new Loop({
      clock: systemClock,
      name: "test",
      intervalMs: 1,
      log: silentLog,
      turn: () => {
        if (++turns === 3) third.resolve();
        return Promise.resolve();
      },
    });
    loop.start();
    loop.start();
    // The loop's own timer does not keep the process alive; this one does.
    const deadline = new AbortController();
    const late = systemClock.sleep(10_000, deadline.signal).then(
      () => assert.fail("it did not look again"),
      () => undefined,
    );
    await Promise.race([third.promise, late]);
    deadline.abort();
    await loop.stop();
  });
});

describe("a lifecycle", () => {
  test("begins what works by itself once all is open, one after the other", async () => {
    const begun: string[] = [];
    const lifecycle = new Lifecycle({ clock: systemClock, log: silentLog });
    lifecycle.onStart(async () => {
      await new Promise((resolve) => setImmediate(resolve));
      begun.push("first");
    });
    const turns = Promise.withResolvers<void>();
    const turn = (): Promise<void> => {
      begun.push("loop");
      turns.resolve();
      return Promise.resolve();
    };
    const timing = { intervalMs: 3_600_000, clock: systemClock };
    new Loop({ name: "loop", turn, ...timing, log: silentLog }).startWithin(lifecycle);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(begun, []);
    await lifecycle.start();
    await turns.promise;
    assert.deepEqual(begun, ["first", "loop"]);
    await lifecycle.close();
  });
  test("closes in reverse order, one after the other", async () => {
    const closed: string[] = [];
    const lifecycle = new Lifecycle({ clock: systemClock, log: silentLog });
    lifecycle.onClose("database", () => void closed.push("database"));
    lifecycle.onClose("server", async () => {
      await new Promise((resolve) => setImmediate(resolve));
      closed.push("server");
    });
    await Promise.all([lifecycle.close(), lifecycle.close()]);
    assert.deepEqual(closed, ["server", "database"]);
  });
  test("a part that does not close keeps no other open, and is named", async () => {
    const closed: string[] = [];
    const lifecycle = new Lifecycle({ clock: systemClock, log: silentLog });
    lifecycle.onClose("database", () => void closed.push("database"));
    lifecycle.onClose("server", () => Promise.reject(new Error("stuck")));
    await assert.rejects(lifecycle.close(), (error: AggregateError) =>
      /could not close server/.test(String(error.errors)),
    );
    assert.deepEqual(closed, ["database"]);
  });
  test("a part that hangs is given up on after its deadline", async () => {
    const lifecycle = new Lifecycle({
      log: silentLog,
      clock: { ...systemClock, sleep: () => Promise.resolve() },
    });
    lifecycle.onClose("server", () => new Promise<void>(() => undefined));
    await assert.rejects(lifecycle.close(), (error: AggregateError) =>
      /did not close within/.test(String((error.errors[0] as Error).cause)),
    );
  });
});

describe("a bounded map", () => {
  test("drops what was not used for the longest time", () => {
    const map = new LruMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    map.get("a");
    map.set("c", 3);
    assert.deepEqual([map.get("a"), map.get("b"), map.get("c")], [1, undefined, 3]);
    map.set("a", 4);
    map.set("d", 5);
    assert.deepEqual(
      [...map.entries()],
      [
        ["a", 4],
        ["d", 5],
      ],
    );
  });
});

describe("writing a file", () => {
  test("replaces it whole, for its owner only, and leaves nothing beside it", (t) => {
    const folder = mkdtempSync(join(tmpdir(), "write-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const path = join(folder, "key");
    writeFileSync(`${path}.new`, "left by a crash", { mode: 0o644 });
    writeFileSafely(path, "one");
    writeFileSafely(path, "two");
    assert.deepEqual(
      [readFileSync(path, "utf8"), statSync(path).mode & 0o777, readdirSync(folder)],
      ["two", 0o600, ["key"]],
    );
  });
});
