// Apps that fill the disk in every way that they have: on a small disk, with the process driver and
// what watches over it. Each is ended with the reason, another project's app goes on, and the
// platform can still write.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { StartRefused, type Driver, type ReplicaSpec } from "#drivers/driver.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { DiskReserve } from "#drivers/disk/disk-reserve.ts";
import { DiskWatch, type DiskWatchOptions } from "#drivers/disk/disk-watch.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { ProcessFixture, python } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { noSmallDisk, smallDisk } from "#test/support/small-disk.ts";
import { until } from "#test/support/until.ts";

const live = new AbortController().signal;
const sandbox = await detectSandbox(tmpdir());
const skip = noSmallDisk === false && sandbox.kind === "none" ? sandbox.reason : noSmallDisk;
const other = "p-beefbeef" as ProjectId;

type Stage = {
  readonly dataDir: string;
  readonly fixture: ProcessFixture;
  readonly driver: Driver;
  readonly sink: DriverSink;
  readonly disk: DiskWatch;
  readonly reserve: DiskReserve;
};

async function open(
  t: TestContext,
  limits: Partial<DiskWatchOptions["limits"]> = {},
): Promise<Stage> {
  const dataDir = smallDisk(t, { megabytes: 400, files: 20_000 });
  const fixture = new ProcessFixture({ sandbox, dataDir });
  const reserve = new DiskReserve(dataDir);
  const disk = new DiskWatch({
    dataDir,
    reserve,
    storageDir: join(dataDir, "storage"),
    isUserOwned: false,
    limits: { replicaBytes: null, storageBytes: null, reserveBytes: 100_000_000, ...limits },
    clock: systemClock,
    log: silentLog,
  });
  await disk.open();
  const driver = fixture.driver(disk);
  const sink = new DriverSink();
  await driver.open(sink);
  t.after(async () => {
    await disk.close();
    for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
    await driver.close();
  });
  return { dataDir, fixture, driver, sink, disk, reserve };
}

async function start(
  { fixture, driver }: Stage,
  code: string,
  projectId?: ProjectId,
): Promise<ReplicaSpec> {
  const entrypoint = [python, "-c", code];
  const given = projectId === undefined ? {} : { projectId };
  const spec = replicaSpec({
    artifact: fixture.artifact({}),
    runtime: "custom",
    entrypoint,
    ...given,
  });
  await driver.start(spec, live);
  return spec;
}

const neighbour = `import time
while True:
    open("/tmp/mine", "w").write("x")
    print("well", flush=True)
    time.sleep(0.05)`;

const pieces = (path: string): string => `import time
count = 0
while True:
    try:
        with open("${path}" + str(count), "wb") as file:
            file.write(b"x" * 1_000_000)
        count += 1
    except OSError:
        time.sleep(0.01)`;

const atOnce = (path: string): string => `import os, time
file = os.open("${path}", os.O_CREAT | os.O_WRONLY)
size = 400_000_000
while size > 4096:
    try:
        os.posix_fallocate(file, 0, size)
        break
    except OSError:
        size = int(size * 0.98)
time.sleep(1000)`;

const nearlyFull =
  /disk is nearly full \(room for \d+ MB\), and (this replica has written|the project's storage has grown by) \d+ MB/;

describe("an app that fills the disk is ended with that reason, and others go on", { skip }, () => {
  const ways: Record<string, { readonly code: string; readonly reason: RegExp }> = {
    "its storage": { code: pieces("/persistent-storage/f"), reason: nearlyFull },
    "/tmp": { code: pieces("/tmp/f"), reason: nearlyFull },
    "its home": {
      code: `import os\nos.chdir(os.environ["HOME"])\n${pieces("f")}`,
      reason: nearlyFull,
    },
    "its own code": { code: pieces("f"), reason: nearlyFull },
    "its storage in one step": { code: atOnce("/persistent-storage/f"), reason: nearlyFull },
    "/tmp in one step": { code: atOnce("/tmp/f"), reason: nearlyFull },
    "a deleted file that it holds open": {
      code: `import os
file = open("/tmp/f", "wb")
os.unlink("/tmp/f")
while True:
    try:
        file.write(b"x" * 1_000_000)
        file.flush()
    except OSError:
        pass`,
      reason: nearlyFull,
    },
    "a deleted file that only one of its threads has open": {
      code: `import ctypes, os, threading
def fill():
    ctypes.CDLL(None).unshare(0x400)
    file = open("/tmp/f", "wb")
    os.unlink("/tmp/f")
    while True:
        try:
            file.write(b"x" * 1_000_000)
            file.flush()
        except OSError:
            pass
threading.Thread(target=fill).start()`,
      reason: nearlyFull,
    },
    "deleted files that it has only mapped": {
      code: `import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_size_t]
while True:
    try:
        file = os.open("/tmp/f", os.O_CREAT | os.O_RDWR)
        os.unlink("/tmp/f")
        os.posix_fallocate(file, 0, 1_000_000)
        libc.mmap(None, 1_000_000, 3, 1, file, 0)
    except OSError:
        time.sleep(0.01)
    finally:
        os.close(file)`,
      reason: nearlyFull,
    },
    "a folder that it has closed": {
      code: `import os
os.mkdir("/tmp/d")
os.chmod("/tmp/d", 0o300)
${pieces("/tmp/d/f")}`,
      reason: nearlyFull,
    },
    "empty files": {
      code: `count = 0
while True:
    try:
        open("/tmp/" + str(count), "w").close()
    except OSError:
        pass
    count += 1`,
      reason: /room for \d+ more files\), and this replica has written \d+ files/,
    },
  };
  for (const [way, { code, reason }] of drawCases(Object.entries(ways), {
    what: "ways to fill a disk",
    max: 3,
  })) {
    test(`by ${way}`, async (t) => {
      const stage = await open(t);
      const { sink, dataDir, reserve } = stage;
      await until("the reserve is there", () => reserve.heldBytes() > 0);
      const beside = await start(stage, neighbour, other);
      await sink.line(beside.replicaId, "well");
      const spec = await start(stage, code);
      const exited = await sink.told("exited", spec.replicaId);
      assert.match(exited.reason, reason);
      await until("the platform can write", () => {
        for (let index = 0; index < 20; index++)
          writeFileSync(join(dataDir, `wal-${index}`), Buffer.alloc(1_000_000));
        return true;
      });
      const before = sink.texts(beside.replicaId).length;
      await until("the neighbour goes on", () => sink.texts(beside.replicaId).length > before + 3);
      assert.equal(
        sink.events.some(
          ({ kind, replicaId }) => kind === "exited" && replicaId === beside.replicaId,
        ),
        false,
      );
    });
  }
});

test("an app that prints without end does not fill the disk", { skip }, async (t) => {
  const stage = await open(t);
  const code = `import os
piece = (b"y" * 99 + b"\\n") * 10_000
for _ in range(2000):
    os.write(1, piece)
print("printed", flush=True)
import time
time.sleep(1000)`;
  const spec = await start(stage, code);
  const isOver = (): boolean =>
    stage.sink.texts(spec.replicaId).some((text) => text.endsWith("printed")) ||
    stage.sink.events.some(({ kind }) => kind === "exited");
  await until("it has printed all or was ended", isOver, { deadlineMs: 60_000 });
  await until("the platform can write", () => {
    writeFileSync(join(stage.dataDir, "wal"), Buffer.alloc(20_000_000));
    return true;
  });
});

test(
  "a project that has filled the disk may not start until there is room; others may",
  { skip },
  async (t) => {
    const stage = await open(t);
    const spec = await start(stage, pieces("/persistent-storage/f"));
    await stage.sink.told("exited", spec.replicaId);
    await assert.rejects(start(stage, neighbour), (error: Error) => {
      assert.ok(error instanceof StartRefused);
      assert.match(error.message, /storage has grown by .*: delete files in \/persistent-storage/);
      return true;
    });
    assert.match(
      stage.disk.buildRefusal() ?? "",
      /nearly full .* nothing is built until its operator has freed up space/,
    );
    const beside = await start(stage, neighbour, other);
    await stage.sink.line(beside.replicaId, "well");
    rmSync(join(stage.dataDir, "storage", spec.projectId), { recursive: true });
    await until("there is room again", () => stage.disk.buildRefusal() === null);
    const again = await start(stage, neighbour);
    await stage.sink.line(again.replicaId, "well");
    await until("the reserve is kept again", () => stage.reserve.heldBytes() > 0);
  },
);

test(
  "a disk that is filled from outside ends nobody, and what may be stored is refused until there is room",
  { skip },
  async (t) => {
    const stage = await open(t);
    const beside = await start(stage, neighbour);
    await stage.sink.line(beside.replicaId, "well");
    const filling = join(stage.dataDir, "filling");
    const written: number[] = [];
    await until("the disk is full", () => {
      try {
        writeFileSync(filling, Buffer.alloc(10_000_000), { flag: "a" });
        written.push(1);
        return false;
      } catch (error) {
        return (
          (error as NodeJS.ErrnoException).code === "ENOSPC" && stage.disk.storeRefusal() !== null
        );
      }
    });
    assert.match(
      stage.disk.storeRefusal() ?? "",
      /nearly full .* nothing new is stored until its operator has freed up space/,
    );
    await assert.rejects(start(stage, neighbour, other), StartRefused);
    assert.equal(existsSync(join(stage.dataDir, "disk.reserve")), false);
    rmSync(filling);
    await until("there is room again", () => stage.disk.storeRefusal() === null);
    assert.deepEqual(
      (await stage.driver.list()).map(({ state }) => state),
      ["running"],
    );
  },
);

test(
  "a replica that writes more than it may is ended, whatever room there is",
  { skip },
  async (t) => {
    const stage = await open(t, { replicaBytes: 50_000_000 });
    const spec = await start(
      stage,
      `open("/tmp/f", "wb").write(b"x" * 60_000_000)\nimport time\ntime.sleep(1000)`,
    );
    const { reason } = await stage.sink.told("exited", spec.replicaId);
    assert.match(
      reason,
      /has written \d+ MB to the disk .* more than its limit of 50 MB .*SLIPWAY_REPLICA_DISK_GB/,
    );
  },
);

test(
  "a project whose volume has a size of its own may not write more than that",
  { skip },
  async (t) => {
    const stage = await open(t, { storageBytes: 200_000_000 });
    const write = `open("/persistent-storage/f", "wb").write(b"x" * 60_000_000)\nimport time\ntime.sleep(1000)`;
    const spec = await start(stage, write);
    stage.disk.limitStorage(spec.projectId, 50_000_000);
    const { reason } = await stage.sink.told("exited", spec.replicaId);
    assert.match(
      reason,
      /holds [56]\d MB, more than its limit of 50 MB \(the size of its volume\): delete files in \/persistent-storage/,
    );
  },
);

test(
  "a project over its limit may run to delete files, but its storage may not grow",
  { skip },
  async (t) => {
    const stage = await open(t, { storageBytes: 50_000_000 });
    const write = (name: string): string =>
      `open("/persistent-storage/${name}", "wb").write(b"x" * 60_000_000)\nimport time\ntime.sleep(1000)`;
    const spec = await start(stage, write("one"));
    const { reason } = await stage.sink.told("exited", spec.replicaId);
    assert.match(
      reason,
      /holds [56]\d MB, more than its limit of 50 MB \(SLIPWAY_STORAGE_LIMIT_GB\): delete files in \/persistent-storage/,
    );
    const more = await start(stage, write("two"));
    assert.match(
      (await stage.sink.told("exited", more.replicaId)).reason,
      /holds (?:[5-9]\d|1[0-2]\d) MB, more than its limit of 50 MB/,
    );
    const deletes = `from pathlib import Path
for name in ("one", "two"): Path("/persistent-storage", name).unlink(missing_ok=True)
print("deleted", flush=True)`;
    // What the one before wrote while it was being ended may count as growth, and end the next one.
    await until("a replica deletes the files", async () => {
      const { replicaId } = await start(stage, deletes);
      await stage.sink.told("exited", replicaId);
      return await stage.sink.line(replicaId, "deleted", 5_000);
    });
  },
);
