// Apps that turn what they were given against the platform: the files that their output and their
// readiness go to.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import {
  readReport,
  type RuntimeReport,
  replicaPaths,
  withRightToRead,
} from "#drivers/process/replica-files.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { cortexRuntimeDir, ProcessFixture } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const sandbox = await detectSandbox(tmpdir());
const live = new AbortController().signal;

/** Runs `main.py` on the real runtime. */
async function runApp(
  t: TestContext,
  code: string,
): Promise<{
  driver: Driver;
  fixture: ProcessFixture;
  sink: DriverSink;
  spec: ReplicaSpec;
  replicasDir: string;
}> {
  const fixture = new ProcessFixture({ sandbox, runtimeDir: cortexRuntimeDir });
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
    await driver.close();
    await fixture.close();
  });
  // Without a function to call, the runtime would end the app by itself.
  const artifact = fixture.artifact({ "main.py": `def run():\n    return 1\n\n${code}` });
  const spec = replicaSpec({ artifact, runtime: "cortex", entrypoint: [] });
  await driver.start(spec, live);
  return { driver, fixture, sink, spec, replicasDir: fixture.replicasDir };
}

/** The next process of the platform takes the replica over and ends it. */
async function endLater(fixture: ProcessFixture, { replicaId }: ReplicaSpec) {
  const driver = fixture.driver();
  const told = new DriverSink();
  await driver.open(told);
  const [found] = await driver.list();
  let isStopped = false;
  void driver.stop(replicaId, { graceMs: 0 }).then(() => (isStopped = true));
  await until("it is stopped", () => isStopped);
  await driver.close();
  return { told, found };
}

test("a ready file of gigabytes neither holds the platform up nor keeps the replica from being ended", async (t) => {
  const code = `import os, time
os.ftruncate(3, 1900 * 1024 * 1024)
print("large", flush=True)
time.sleep(60)`;
  const { driver, sink, spec } = await runApp(t, code);
  await sink.line(spec.replicaId, "large");
  // Reading such a file takes processor time of this process; the duration also depends on other
  // work on the machine.
  const before = process.cpuUsage();
  await driver.stop(spec.replicaId, { graceMs: 0 });
  const { user, system } = process.cpuUsage(before);
  assert.ok(user + system < 300_000, `ending it took ${user + system} µs at the processor`);
});

test("output that says to be terabytes long is passed over, and what follows is told", async (t) => {
  const code = `import os
os.ftruncate(1, 1 << 43)
print("\\nafter it", flush=True)
os._exit(7)`;
  const { sink, spec } = await runApp(t, code);
  assert.equal((await sink.told("exited", spec.replicaId)).exitCode, 7);
  await sink.line(spec.replicaId, "after it");
});

test("the end of an app that has printed millions of lines is told soon, with its last words", async (t) => {
  const code = `import os
for _ in range(14):
    os.write(1, b"y\\n" * 1000000)
os.write(1, b"last words\\n")
os._exit(7)`;
  const { sink, spec } = await runApp(t, code);
  await sink.told("exited", spec.replicaId);
  await sink.line(spec.replicaId, "last words");
  const texts = sink.texts(spec.replicaId);
  const dropped = texts.findIndex((text) => /^\[slipway\] \d+ lines were dropped/.test(text));
  assert.ok(
    dropped >= 0 && texts.length - dropped <= 10_001,
    `${texts.length - dropped} lines were told after the drop`,
  );
});

test("an app that puts a link in the place of its socket leads the platform to no other socket", async (t) => {
  if (sandbox.kind === "none") return t.skip(`this machine has no sandbox: ${sandbox.reason}`);
  const other = createServer();
  const path = join(temporaryFolder(t, "socket"), "other.sock");
  other.listen(path);
  await once(other, "listening");
  t.after(() => other.close());
  let isReached = false;
  other.on("connection", () => (isReached = true));
  const code = `import os
os.unlink("/run/slipway/app.sock")
os.symlink(${JSON.stringify(path)}, "/run/slipway/app.sock")`;
  const { driver, sink, spec, replicasDir } = await runApp(t, code);
  const paths = replicaPaths(join(replicasDir, spec.replicaId));
  await until("the runtime says that it is ready", () => readReport(paths).isLast);
  await driver.stop(spec.replicaId, { graceMs: 0 });
  await sink.told("exited", spec.replicaId);
  assert.deepEqual(
    sink.events.map(({ kind }) => kind),
    ["started", "exited"],
  );
  assert.equal(isReached, false);
});

test("an app that puts a folder in the place of its socket is ended, and taken over, like any other", async (t) => {
  if (sandbox.kind === "none") return t.skip(`this machine has no sandbox: ${sandbox.reason}`);
  const code = `import os
os.unlink("/run/slipway/app.sock")
os.mkdir("/run/slipway/app.sock")`;
  const { driver, fixture, spec, replicasDir } = await runApp(t, code);
  const paths = replicaPaths(join(replicasDir, spec.replicaId));
  await until("the runtime says that it is ready", () => readReport(paths).isLast);
  await driver.close();
  const { told } = await endLater(fixture, spec);
  assert.deepEqual(
    told.events.map(({ kind }) => kind),
    ["exited"],
  );
});

test("a socket that was taken stays when the next platform takes the replica over", async (t) => {
  if (sandbox.kind === "none") return t.skip(`this machine has no sandbox: ${sandbox.reason}`);
  const code = `import os, threading
def replace():
    while not os.path.exists("/tmp/replace"):
        threading.Event().wait(0.01)
    os.unlink("/run/slipway/app.sock")
    print("replaced", flush=True)
threading.Thread(target=replace, daemon=True).start()`;
  const { driver, fixture, sink, spec, replicasDir } = await runApp(t, code);
  const { address } = await sink.told("started", spec.replicaId);
  await until("it listens", () => fixture.isReady(address));
  writeFileSync(join(replicaPaths(join(replicasDir, spec.replicaId)).temporary, "replace"), "");
  await sink.line(spec.replicaId, "replaced");
  await driver.close();
  const { found } = await endLater(fixture, spec);
  assert.deepEqual(found?.address, address);
});

test("an app cannot hold the platform up by leases on its output and its ready file", async (t) => {
  if (sandbox.kind === "none") return t.skip(`this machine has no sandbox: ${sandbox.reason}`);
  const code = `import fcntl, os, threading
def leased(fd):
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        return True
    except OSError:
        return False
def hold():
    while not os.path.exists("/tmp/alone"):
        threading.Event().wait(0.01)
    open("/persistent-storage/leases", "w").write(str([leased(1), leased(2), leased(ready)]))
    os.rename("/persistent-storage/leases", "/persistent-storage/tried")
ready = next(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.islink("/proc/self/fd/" + fd) and os.readlink("/proc/self/fd/" + fd).endswith("/ready"))
ready = os.dup(ready)
threading.Thread(target=hold, daemon=True).start()`;
  const { driver, fixture, sink, spec, replicasDir } = await runApp(t, code);
  const { address } = await sink.told("started", spec.replicaId);
  await until("it listens", () => fixture.isReady(address));
  await driver.close();
  writeFileSync(join(replicaPaths(join(replicasDir, spec.replicaId)).temporary, "alone"), "");
  const tried = join(fixture.places().storageDir, spec.projectId, "tried");
  await until("it has tried", () => existsSync(tried));
  await endLater(fixture, spec);
  assert.equal(readFileSync(tried, "utf8"), "[False, False, False]");
});

test("what the runtime reports is read line by line; a line without an end is an error, not something to wait for", (t) => {
  const paths = replicaPaths(temporaryFolder(t, "ready"));
  const reportOf = (text: string): RuntimeReport => {
    writeFileSync(paths.ready, text);
    return readReport(paths);
  };
  assert.deepEqual(reportOf("x".repeat(70_000)), {
    error: "the runtime's report is too long",
    isLast: true,
  });
  assert.deepEqual(reportOf(""), { isLast: false });
  const listening = '{"listening":true,"port":4321}\n';
  const ready = '{"ready":true,"port":4321}\n';
  assert.deepEqual(reportOf(listening), { port: 4321, isLast: false });
  assert.deepEqual(reportOf(listening + ready), { port: 4321, isLast: true });
  assert.deepEqual(
    reportOf(ready),
    { port: 4321, isLast: true },
    "as earlier versions of the runtime say it",
  );
  const failed = reportOf(`${listening}{"ready":false,"error":"ValueError: no"}\n`);
  assert.deepEqual(failed, { port: 4321, error: "ValueError: no", isLast: true });
});

test("a file whose app took the right to read it is read all the same", (t) => {
  const path = join(temporaryFolder(t, "rights"), "stdout");
  writeFileSync(path, "text");
  chmodSync(path, 0);
  let tries = 0;
  const text = withRightToRead(path, () => {
    // Root reads whatever the rights are, so the first refusal is made up for it.
    if (++tries === 1) throw Object.assign(new Error("refused"), { code: "EACCES" });
    return readFileSync(path, "utf8");
  });
  assert.equal(text, "text");
  assert.equal(statSync(path).mode & 0o777, 0o600);
  assert.throws(() => withRightToRead(path, () => readFileSync(`${path}.not`)), { code: "ENOENT" });
});
