// Output of replicas of the process driver: how soon it comes, and that an app which writes without
// end fills neither the disk nor the memory.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { statSync, writeFileSync, type Stats } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Driver } from "#drivers/driver.ts";
import { lookEveryMs } from "#drivers/process/replica-looks.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const live = new AbortController().signal;
const none = { kind: "none", reason: "as a test" } as const;

async function stage(
  t: TestContext,
  clock: Clock = systemClock,
): Promise<{ fixture: ProcessFixture; driver: Driver; sink: DriverSink }> {
  const fixture = new ProcessFixture({ sandbox: none });
  const driver = fixture.driver(undefined, undefined, clock);
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    for (const { replicaId } of await driver.list()) {
      await driver.stop(replicaId, { graceMs: 0 });
      await driver.forget(replicaId);
    }
    await driver.close();
    assert.deepEqual(await fixture.remains(), []);
    await fixture.close();
  });
  return { fixture, driver, sink };
}

/** Bytes that a replica's output takes on the disk. */
function diskBytes(fixture: ProcessFixture, replicaId: string): number {
  const dir = join(fixture.replicasDir, replicaId);
  const listed = execFileSync("du", ["--block-size=1", join(dir, "stdout"), join(dir, "stderr")], {
    encoding: "utf8",
  });
  return listed.split("\n").reduce((sum, line) => sum + (Number.parseInt(line, 10) || 0), 0);
}

/** Nothing is looked at now and then: timers of a second or more never fire. */
const hastyClock: Clock = {
  ...systemClock,
  after: (ms, act) => (ms < lookEveryMs ? systemClock.after(ms, act) : () => undefined),
  sleep: (ms, signal) => systemClock.sleep(ms < lookEveryMs ? ms : 3_600_000, signal),
};

test("a line comes when it is written, not when files are looked at now and then", async (t) => {
  const { fixture, driver, sink } = await stage(t, hastyClock);
  const seen = join(temporaryFolder(t, "seen"), "seen");
  // Each is printed once the one before was handed over, so that none comes in the company of
  // another one.
  const code = `import os, time
for i in range(30):
    print(i, flush=True)
    while not os.path.exists("${seen}" + str(i)):
        time.sleep(0.001)`;
  const spec = replicaSpec({
    artifact: fixture.artifact({ "app.py": code }),
    runtime: "custom",
    entrypoint: ["python", "app.py"],
  });
  const numbers: number[] = [];
  sink.lines = (lines) => {
    for (const { text } of lines) {
      writeFileSync(`${seen}${numbers.length}`, "");
      numbers.push(Number(text));
    }
    return Promise.resolve();
  };
  await driver.start(spec, live);
  await until("all lines are there", () => numbers.length === 30);
  assert.deepEqual(
    numbers,
    Array.from({ length: 30 }, (_, index) => index),
  );
});

test("an unfinished line is seen as it stands, and as a whole when it is finished", async (t) => {
  const { fixture, driver, sink } = await stage(t);
  const go = join(temporaryFolder(t, "go"), "go");
  const code = `import os, sys, time
def wait(name):
    while not os.path.exists("${go}" + name):
        time.sleep(0.001)
print("first")
for step in range(3):
    print(".", end="", flush=True)
    wait(f"dots{step}")
print(" done", flush=True)
sys.stderr.write("10%\\r20%\\r")
wait("bar")
sys.stderr.write("100%\\n")
print("Name: ", end="", flush=True)
wait("asked")
print("\\nlast", end="", flush=True)
time.sleep(1000)`;
  const artifact = fixture.artifact({ "app.py": code });
  const spec = replicaSpec({ artifact, runtime: "custom", entrypoint: ["python", "app.py"] });
  await driver.start(spec, live);
  const seen = async (line: string, name: string): Promise<void> => {
    await until(`${line} is there`, () => sink.texts(spec.replicaId).at(-1) === line);
    writeFileSync(`${go}${name}`, "");
  };
  await seen(".", "dots0");
  await seen("..", "dots1");
  await seen("...", "dots2");
  await seen("20%", "bar");
  await seen("Name: ", "asked");
  await seen("last", "over");
  const expected = ["first", ".", "..", "...", "... done", "20%", "100%", "Name: ", "last"];
  assert.deepEqual(sink.texts(spec.replicaId), expected);
});

test("lines have the time when they were written, however late they are read", async (t) => {
  const store = Promise.withResolvers<void>();
  t.after(() => store.resolve());
  const { fixture, driver, sink } = await stage(t);
  sink.storing = () => store.promise;
  const code =
    "import time\nfor i in range(6):\n    print(time.time(), flush=True)\n    time.sleep(0.5)";
  const artifact = fixture.artifact({ "app.py": code });
  const spec = replicaSpec({ artifact, runtime: "custom", entrypoint: ["python", "app.py"] });
  await driver.start(spec, live);
  await sink.told("exited", spec.replicaId);
  assert.ok(sink.taken.length < 6, "the exit is told although lines are not even read");
  store.resolve();
  await until("all lines are there", () => sink.taken.length === 6);
  const printed = sink.taken.map(({ text }) => Number(text) * 1000);
  const last = printed.at(-1) ?? 0;
  for (const [index, { at }] of sink.taken.entries()) {
    assert.ok(at >= (printed[index] ?? Number.NaN) - 20, `${at} is after ${printed[index]}`);
    // With some seconds in between even on a slow machine: without times of its own, each would
    // have the last one's.
    if (index < 3)
      assert.ok(
        at < last,
        `line ${index} of ${printed[index]} has ${at}, the last was written at ${last}`,
      );
  }
});

test("the room of output that was handed over is given back", async (t) => {
  const { fixture, driver, sink } = await stage(t);
  const lines = 400_000;
  const code = `import signal
for i in range(${lines}):
    print(i, "x" * 100)
print("all", flush=True)
signal.pause()`;
  const spec = replicaSpec({
    artifact: fixture.artifact({ "app.py": code }),
    runtime: "custom",
    entrypoint: ["python", "app.py"],
  });
  let taken = 0;
  let dropped = 0;
  let isLast = false;
  sink.lines = (given) => {
    for (const { text } of given) {
      const drop = /^\[slipway\] (\d+) lines were dropped/.exec(text);
      if (drop === null) taken++;
      else dropped += Number(drop[1]);
    }
    isLast ||= given.at(-1)?.text === "all";
    return Promise.resolve();
  };
  await driver.start(spec, live);
  await until("the last line", () => isLast, { deadlineMs: 60_000 });
  const isAll = (): boolean => taken + dropped >= lines + 1;
  await until("every line is handed over or counted", isAll, { deadlineMs: 60_000 });
  assert.equal(taken + dropped, lines + 1);
  await until("its room is given back", () => diskBytes(fixture, spec.replicaId) < 4_000_000, {
    deadlineMs: 30_000,
  });
});

test("when storing is behind, the newest lines come first, and all have times in their order", async (t) => {
  const { fixture, driver, sink } = await stage(t);
  const lines = 200_000;
  const go = join(temporaryFolder(t, "go"), "go");
  const code = `import os, signal, time
for i in range(${lines}):
    print(i)
print("", end="", flush=True)
while not os.path.exists("${go}"):
    time.sleep(0.001)
print(${lines}, flush=True)
signal.pause()`;
  const store = Promise.withResolvers<void>();
  t.after(() => store.resolve());
  const taken: { readonly at: number; readonly number: number }[] = [];
  let newestAfter = 0;
  sink.lines = async (given) => {
    await store.promise;
    taken.push(...given.map(({ at, text }) => ({ at, number: Number(text) })));
    if (newestAfter === 0 && given.some(({ text }) => text === String(lines)))
      newestAfter = taken.length;
  };
  const spec = replicaSpec({
    artifact: fixture.artifact({ "app.py": code }),
    runtime: "custom",
    entrypoint: ["python", "app.py"],
  });
  await driver.start(spec, live);
  const file = (): Stats => statSync(join(fixture.replicasDir, spec.replicaId, "stdout"));
  const size = (): number => file().size;
  await until("all is written", () => size() >= 1_288_890, { deadlineMs: 60_000 });
  await until("it has waited for long", () => Date.now() - file().mtimeMs > 2_500);
  writeFileSync(go, "");
  await until("the newest is written", () => size() >= 1_288_897);
  store.resolve();
  await until("every line is there", () => taken.length > lines, { deadlineMs: 60_000 });
  assert.ok(newestAfter <= 40_000, `the newest line came after ${newestAfter} others`);
  assert.equal(taken.length, lines + 1);
  const inOrder = taken.toSorted((one, other) => one.at - other.at);
  const wrong = inOrder.findIndex(({ number }, index) => number !== index);
  assert.equal(wrong, -1, `line ${inOrder[wrong]?.number} has the time of line ${wrong}`);
});

test("an app that writes faster than its lines are stored loses the oldest, counted, and fills no disk", async (t) => {
  const store = Promise.withResolvers<void>();
  t.after(() => store.resolve());
  const { fixture, driver, sink } = await stage(t);
  // 200 MB of lines of 101 bytes, while the first lines are being stored: less than is counted at
  // once, since on a busy machine all of it may be there when it is looked at first.
  const blocks = 2000;
  const code = `import os, signal
block = ("x" * 100 + "\\n").encode() * 1000
for i in range(${blocks}):
    os.write(1, block)
os.write(1, b"all\\n")
signal.pause()`;
  const spec = replicaSpec({
    artifact: fixture.artifact({ "app.py": code }),
    runtime: "custom",
    entrypoint: ["python", "app.py"],
  });
  let taken = 0;
  let dropped = 0;
  let isLast = false;
  sink.lines = (given) => {
    for (const { text } of given) {
      const drop = /^\[slipway\] (\d+) lines were dropped/.exec(text);
      if (drop === null) taken++;
      else dropped += Number(drop[1]);
    }
    isLast ||= given.at(-1)?.text === "all";
    return store.promise;
  };
  await driver.start(spec, live);
  const written = blocks * 101_000;
  const size = (): number =>
    Number(
      execFileSync("stat", ["-c", "%s", join(fixture.replicasDir, spec.replicaId, "stdout")], {
        encoding: "utf8",
      }),
    );
  let max = 0;
  await until(
    "all is written and what is too much is dropped",
    () => {
      const bytes = diskBytes(fixture, spec.replicaId);
      max = Math.max(max, bytes);
      return size() >= written && bytes < 80_000_000;
    },
    { deadlineMs: 60_000 },
  );
  store.resolve();
  await until("the last line", () => isLast, { deadlineMs: 30_000 });
  const isAll = (): boolean => taken + dropped >= blocks * 1000 + 1;
  await until("every line is handed over or counted", isAll, { deadlineMs: 60_000 });
  assert.equal(taken + dropped, blocks * 1000 + 1);
  assert.ok(dropped > 1000 * 1000, `${dropped} lines were dropped`);
});
