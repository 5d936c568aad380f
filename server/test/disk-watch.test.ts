// The watch of the disk with writers that only have folders: what one of them has written until its
// end is not held against the next one.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DiskReserve } from "#drivers/disk/disk-reserve.ts";
import { DiskWatch } from "#drivers/disk/disk-watch.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";

const projectId = "p-00000001" as ProjectId;
const limitBytes = 5_000_000;

test("what a replica wrote to the storage until it had ended is not held against the next one", async (t) => {
  const dataDir = temporaryFolder(t, "disk");
  const storageDir = join(dataDir, "storage");
  mkdirSync(join(storageDir, projectId), { recursive: true });
  const disk = new DiskWatch({
    dataDir,
    storageDir,
    reserve: new DiskReserve(dataDir),
    isUserOwned: false,
    limits: { replicaBytes: null, storageBytes: null, reserveBytes: 1 },
    clock: systemClock,
    log: silentLog,
  });
  await disk.open();
  t.after(() => disk.close());
  const write = (name: string): void =>
    writeFileSync(join(storageDir, projectId, name), Buffer.alloc(6_000_000, 1));
  const add = (id: string) => {
    const writer = { looks: 0, ends: [] as string[], remove: (): void => undefined };
    const folders = (): string[] => {
      writer.looks++;
      return [];
    };
    const end = (reason: string): void => void writer.ends.push(reason);
    const given = { kind: "replica", id, projectId, folders, pid: () => null, end } as const;
    writer.remove = disk.add(given, true);
    return writer;
  };
  // Each limit has the disk measured soon.
  const measured = (what: string, isSo: () => boolean): Promise<unknown> =>
    until(what, () => {
      disk.limitStorage(projectId, limitBytes);
      return isSo();
    });

  const first = add("first");
  await measured("it was measured", () => first.looks > 1);
  write("one");
  await measured("it is ended", () => first.ends.length > 0);
  write("two");
  first.remove();

  const next = add("next");
  await measured("the next one was measured", () => next.looks > 2);
  assert.deepEqual(next.ends, []);
  write("three");
  await measured("the next one is ended for what it wrote", () => next.ends.length > 0);
  assert.match(next.ends[0] ?? "", /storage holds 18 MB, more than its limit of 5 MB/);
});
