// What replicas of the process driver are held to where the machine lets us make cgroups: memory,
// processor time, processes. Real apps that take all they can get, with a neighbour that must not
// notice.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { getPriority, tmpdir } from "node:os";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import type { Driver, ReplicaSpec } from "#drivers/driver.ts";
import { groupAt, makeGroup, memoryKilled, type Controller } from "#drivers/process/cgroup.ts";
import { detectCgroups, releaseCgroups } from "#drivers/process/cgroup-detect.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { ProcessFixture, python } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const live = new AbortController().signal;
const sandbox = await detectSandbox(tmpdir());
const cgroups = detectCgroups(`test-${randomUUID()}`);
after(() => releaseCgroups(cgroups));
const needs = (controller: Controller): { skip: string | false } => ({
  skip: cgroups.parents.some((parent) => parent.controller === controller)
    ? false
    : `no cgroups here: ${cgroups.missing}`,
});

type Stage = {
  readonly fixture: ProcessFixture;
  readonly driver: Driver;
  readonly sink: DriverSink;
};

async function open(t: TestContext): Promise<Stage> {
  const fixture = new ProcessFixture({ sandbox, cgroups });
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    for (const { replicaId } of await driver.list()) {
      await driver.stop(replicaId, { graceMs: 0 });
      await driver.forget(replicaId);
    }
    await driver.close();
    await fixture.close();
  });
  return { fixture, driver, sink };
}

async function start(
  { fixture, driver }: Stage,
  code: string,
  given: Partial<ReplicaSpec> = {},
): Promise<ReplicaSpec> {
  const entrypoint = [python, "-c", code];
  const spec = replicaSpec({
    artifact: fixture.artifact({}),
    runtime: "custom",
    entrypoint,
    ...given,
  });
  await driver.start(spec, live);
  return spec;
}

/** A file of the replica's cgroup. */
function read(
  replicaId: ReplicaId,
  controller: Controller,
  names: { readonly 1: string; readonly 2: string },
): string {
  const parent = groupAt(cgroups.parents, replicaId).find((one) => one.controller === controller);
  assert.ok(parent, `there is a ${controller} cgroup`);
  return readFileSync(join(parent.folder, names[parent.version]), "utf8").trim();
}

const neighbour = `import time
while True:
    print("well", flush=True)
    time.sleep(0.05)`;

const hog = `import time
taken = []
while True:
    taken.append(bytearray(b"x" * 10_000_000))
    time.sleep(0.001)`;

test(
  "an app that takes more memory than its own is ended with that reason, and its neighbour goes on",
  needs("memory"),
  async (t) => {
    const stage = await open(t);
    const beside = await start(stage, neighbour);
    const spec = await start(stage, hog, { memoryGb: 0.2 });
    const { reason, signal } = await stage.sink.told("exited", spec.replicaId);
    assert.equal(signal, "SIGKILL");
    assert.match(reason, /used up its memory of 0\.2 GB; raise memory/);
    const before = stage.sink.texts(beside.replicaId).length;
    await until(
      "the neighbour goes on",
      () => stage.sink.texts(beside.replicaId).length > before + 3,
    );
    assert.equal(stage.driver.capabilities.memoryLimit, true);
  },
);

test(
  "all processes of a replica leave the platform's cgroup, so that a stopped service does not end them",
  needs("pids"),
  async (t) => {
    const stage = await open(t);
    const spec = await start(stage, "import time\ntime.sleep(1000)");
    const pids = read(spec.replicaId, "pids", { 1: "cgroup.procs", 2: "cgroup.procs" }).split("\n");
    const parentOf = (pid: string): string =>
      /^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
    const outside = new Set(pids.map(parentOf).filter((parent) => !pids.includes(parent)));
    assert.deepEqual([...outside], [String(process.pid)]);
  },
);

test(
  "an app that ran out of memory while nobody watched is told with that reason",
  needs("memory"),
  async (t) => {
    const fixture = new ProcessFixture({ sandbox, cgroups });
    const first = fixture.driver();
    await first.open(new DriverSink());
    const slow = hog.replace("import time", "import time\ntime.sleep(1)");
    const spec = await start({ fixture, driver: first, sink: new DriverSink() }, slow, {
      memoryGb: 0.2,
    });
    await first.close();
    await until("it is gone", () => fixture.processes().length === 0);
    const second = fixture.driver();
    const sink = new DriverSink();
    await second.open(sink);
    t.after(async () => {
      await second.close();
      await fixture.close();
    });
    assert.match(
      (await sink.told("exited", spec.replicaId)).reason,
      /used up its memory of 0\.2 GB/,
    );
    const folders = groupAt(cgroups.parents, spec.replicaId).map(({ folder }) => folder);
    // A process that the kernel has just killed leaves its cgroup a moment later.
    await until("its cgroups are empty", () =>
      folders.every(
        (folder) =>
          !existsSync(folder) || readFileSync(join(folder, "cgroup.procs"), "utf8") === "",
      ),
    );
    await second.forget(spec.replicaId);
    assert.deepEqual(
      folders.filter((folder) => existsSync(folder)),
      [],
      "its cgroups are gone",
    );
  },
);

test("a busy app gets the cores that it asked for and no more", needs("cpu"), async (t) => {
  const stage = await open(t);
  // So little that a machine which has other things to do gives it that much all the same.
  const entrypoint = ["sh", "-c", "while :; do :; done"];
  const spec = await start(stage, "", { cpuCores: 0.05, entrypoint });
  const max = read(spec.replicaId, "cpu", { 1: "cpu.cfs_quota_us", 2: "cpu.max" });
  assert.match(max, /^5000( 100000)?$/);
  const held = (): number =>
    Number(
      /^nr_throttled (\d+)$/m.exec(
        read(spec.replicaId, "cpu", { 1: "cpu.stat", 2: "cpu.stat" }),
      )?.[1],
    );
  await until("the kernel has held it back", () => held() > 3);
});

test("a fork bomb ends at the replica's own number of processes", needs("pids"), async (t) => {
  const stage = await open(t);
  const bomb = `import threading, time
threading.stack_size(65536)
count = 0
try:
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        count += 1
except RuntimeError:
    print("came to", count, flush=True)
time.sleep(1000)`;
  const spec = await start(stage, bomb);
  const line = await stage.sink.line(spec.replicaId, "came to");
  const count = Number(line.split(" ").at(-1));
  assert.ok(count > 3900 && count < 4096, line);
  const beside = await start(stage, neighbour);
  await stage.sink.line(beside.replicaId, "well");
});

test(
  "shared memory of an app is bounded by its own memory",
  { skip: sandbox.kind === "none" ? sandbox.reason : false },
  async (t) => {
    const stage = await open(t);
    const code = `import os
found = os.statvfs("/dev/shm")
print("room", found.f_blocks * found.f_frsize, flush=True)`;
    const spec = await start(stage, code, { memoryGb: 0.5 });
    const line = await stage.sink.line(spec.replicaId, "room");
    assert.ok(Math.abs(Number(line.split(" ").at(-1)) - 500_000_000) < 10_000, line);
  },
);

test(
  "an app cannot leave its cgroup or lift its limits",
  { skip: sandbox.kind === "none" ? sandbox.reason : needs("memory").skip },
  async (t) => {
    const stage = await open(t);
    const code = `import os
done = tried = 0
for folder, _, names in os.walk("/sys/fs/cgroup"):
    for name in names:
        if name in ("cgroup.procs", "tasks", "memory.max", "memory.limit_in_bytes", "cpu.max"):
            tried += 1
            try:
                with open(os.path.join(folder, name), "w") as file:
                    file.write("0" if name in ("cgroup.procs", "tasks") else "1000000000000")
                done += 1
            except OSError:
                pass
print("wrote", done, "of", tried, flush=True)`;
    const spec = await start(stage, code);
    assert.match(await stage.sink.line(spec.replicaId, "wrote"), /wrote 0 of \d+$/);
  },
);

test("without cgroups the driver says that nothing is held, and apps still go first when memory runs out", async (t) => {
  const fixture = new ProcessFixture({ sandbox });
  const driver = fixture.driver();
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    await driver.close();
    await fixture.close();
  });
  assert.deepEqual([driver.capabilities.memoryLimit, driver.capabilities.cpuLimit], [false, false]);
  const code = `import os
print("is", open("/proc/self/oom_score_adj").read().strip(), os.nice(0), flush=True)`;
  const spec = await start({ fixture, driver, sink }, code);
  const [score, nice] = (await sink.line(spec.replicaId, "is")).split(" ").slice(-2).map(Number);
  assert.equal(score, 1000);
  assert.ok(
    Number(nice) >= getPriority() + 5,
    `nice ${nice}, with ${getPriority()} of the platform`,
  );
  await sink.told("exited", spec.replicaId);
});

test("limits and what the kernel says of them are those of version 2 where that is in use", (t) => {
  const folder = temporaryFolder(t, "cgroup");
  const parent = (controller: Controller) => ({ controller, version: 2 as const, folder });
  const limits = { memoryBytes: 2_000_000_000, cpuCores: 1.5, tasksMax: 77 };
  const group = makeGroup([parent("memory"), parent("cpu"), parent("pids")], "one", limits);
  const at = (name: string): string => join(folder, "one", name);
  assert.deepEqual(
    ["memory.max", "cpu.max", "pids.max"].map((name) => readFileSync(at(name), "utf8")),
    ["2000000000", "150000 100000", "77"],
  );
  assert.equal(memoryKilled(group), "no");
});
