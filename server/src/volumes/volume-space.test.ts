// Which count of a volume's files is valid, when counts fail or files change meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProjectId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { VolumeSpace, type VolumeSpaceOptions } from "./volume-space.ts";

const project = "p-11111111" as ProjectId;

function spaceOf(parts: Pick<VolumeSpaceOptions, "ownerKeyOf" | "files">): VolumeSpace {
  return new VolumeSpace({
    // No sizes are read.
    db: {} as Db,
    clock: new VirtualClock(),
    disk: { limitStorage: () => undefined },
    bytesMax: null,
    ...parts,
  });
}

test("after the owner could not be read, the next count is a new one", async () => {
  let failures = 1;
  const space = spaceOf({
    ownerKeyOf: async () => {
      if (failures-- > 0) throw new Error("the database is away");
      return "owner";
    },
    files: { usedBytes: async () => 5 },
  });
  await assert.rejects(space.usedBytes(project), /the database is away/);
  assert.equal(await space.usedBytes(project), 5);
});

test("a count that began before files were removed is not kept", async () => {
  const counts: PromiseWithResolvers<number>[] = [];
  const space = spaceOf({
    ownerKeyOf: async () => "owner",
    files: {
      usedBytes: () => {
        const count = Promise.withResolvers<number>();
        counts.push(count);
        return count.promise;
      },
    },
  });
  const before = space.usedBytes(project);
  space.noteRemoved(project);
  const after = space.usedBytes(project);
  const both = Promise.all([before, after]);
  await until("the first count", () => counts.length === 1);
  counts[0]?.resolve(9);
  await until("the second count", () => counts.length === 2);
  counts[1]?.resolve(4);
  assert.deepEqual(await both, [9, 4]);
  assert.equal(await space.usedBytes(project), 4);
});
