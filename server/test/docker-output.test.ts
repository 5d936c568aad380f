// What containers print reaches the log as they print it, with a real engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { noEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();
const live = new AbortController().signal;

const program = `import os, sys, time
def wait(name):
    while not os.path.exists("/persistent-storage/" + name):
        time.sleep(0.001)
print("first")
for step in range(3):
    print(".", end="", flush=True)
    wait(f"dots{step}")
print(" done", flush=True)
sys.stderr.write("10%\\r20%\\r")
sys.stderr.flush()
wait("bar")
sys.stderr.write("100%\\n")
sys.stderr.flush()
print("Name: ", end="", flush=True)
wait("asked")
print("\\nlast", end="", flush=True)
wait("over")`;

async function openDriver(
  t: TestContext,
  fixture: DockerFixture,
  sink: DriverSink,
): Promise<Driver> {
  const driver = fixture.driver();
  cleanLast(t, () => driver.close());
  await driver.open(sink);
  return driver;
}

/** Waits until `line` is the last of the replica's lines, then lets the program go on. */
function watching(fixture: DockerFixture, sink: DriverSink, spec: ReplicaSpec) {
  const folder = join(fixture.storageDir, spec.storage);
  mkdirSync(folder, { recursive: true });
  return async (line: string, name: string): Promise<void> => {
    await until(`"${line}" is seen`, () => sink.texts(spec.replicaId).at(-1) === line, {
      deadlineMs: 30_000,
    });
    writeFileSync(join(folder, name), "");
  };
}

test(
  "an unfinished line is seen as it stands, and as a whole when it is finished",
  { skip },
  async (t) => {
    const fixture = await DockerFixture.open();
    cleanLast(t, () => fixture.close());
    const sink = new DriverSink();
    const driver = await openDriver(t, fixture, sink);
    const spec = fixture.python(program);
    const seen = watching(fixture, sink, spec);
    await driver.start(spec, live);
    await seen(".", "dots0");
    await seen("..", "dots1");
    await seen("...", "dots2");
    await seen("20%", "bar");
    await seen("Name: ", "asked");
    await seen("last", "over");
    await sink.told("exited", spec.replicaId);
    await driver.forget(spec.replicaId);
    const expected = ["first", ".", "..", "...", "... done", "20%", "100%", "Name: ", "last"];
    assert.deepEqual(sink.texts(spec.replicaId), expected);
  },
);

test(
  "a platform that takes over a container sees its unfinished lines from then on",
  { skip },
  async (t) => {
    const fixture = await DockerFixture.open();
    cleanLast(t, () => fixture.close());
    const sink = new DriverSink();
    const first = await openDriver(t, fixture, sink);
    const spec = fixture.python(program);
    const seen = watching(fixture, sink, spec);
    await first.start(spec, live);
    await seen(".", "dots0");
    await first.close();
    const driver = await openDriver(t, fixture, sink);
    const folder = join(fixture.storageDir, spec.storage);
    for (const name of ["dots1", "dots2"]) writeFileSync(join(folder, name), "");
    await seen("20%", "bar");
    await seen("Name: ", "asked");
    await driver.stop(spec.replicaId, { graceMs: 0 });
    await driver.forget(spec.replicaId);
    const finished = sink.texts(spec.replicaId).filter((line) => !/^\.+$/.test(line));
    assert.deepEqual(finished.slice(0, 5), ["first", "... done", "20%", "100%", "Name: "]);
  },
);

test(
  "when storing is behind, the newest lines come first, and all are stored once in the order of their times",
  { skip },
  async (t) => {
    const fixture = await DockerFixture.open();
    cleanLast(t, () => fixture.close());
    const sink = new DriverSink();
    const lines = 60_000;
    const store = Promise.withResolvers<void>();
    t.after(() => store.resolve());
    const taken: { readonly at: number; readonly number: number }[] = [];
    let newestAfter = 0;
    sink.lines = async (given) => {
      await store.promise;
      for (const { at, text } of given) taken.push({ at, number: Number(text) });
      if (newestAfter === 0 && given.some(({ text }) => text === String(lines)))
        newestAfter = taken.length;
    };
    const driver = await openDriver(t, fixture, sink);
    const spec = fixture.python(`import time
for number in range(${lines}):
    print(number)
time.sleep(3)
print(${lines})
time.sleep(3600)`);
    await driver.start(spec, live);
    const last = (): string => fixture.docker("logs", "--tail=1", fixture.nameOf(spec));
    await until("the newest line is in the engine's log", () => last() === String(lines), {
      deadlineMs: 120_000,
    });
    store.resolve();
    await until("every line is there", () => taken.length > lines, { deadlineMs: 120_000 });
    assert.ok(newestAfter <= 20_000, `the newest line came after ${newestAfter} others`);
    assert.equal(taken.length, lines + 1);
    const inOrder = taken.toSorted((one, other) => one.at - other.at);
    const wrong = inOrder.findIndex(({ number }, index) => number !== index);
    assert.equal(wrong, -1, `line ${inOrder[wrong]?.number} has the time of line ${wrong}`);
    await driver.stop(spec.replicaId, { graceMs: 0 });
    await driver.forget(spec.replicaId);
  },
);
