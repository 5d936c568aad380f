// A driver may keep the files of volumes where only apps reach them: then the platform says so, and
// neither counts nor bills what it cannot see.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ownerKeys } from "#accounts/owner-keys.ts";
import { platformActor } from "#audit/record.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog } from "#lib/log.ts";
import { testDatabase } from "#test/support/database.ts";
import { openVolumes } from "#volumes/open.ts";

const projectId = "p-00000001" as ProjectId;

test("files that only apps reach are refused to others, with what to do instead", async (t) => {
  const { db } = await testDatabase(t);
  const lifecycle = new Lifecycle({ clock: systemClock, log: silentLog });
  t.after(() => lifecycle.close());
  const { volumes, volumeUploads } = await openVolumes(
    { disk: { storageBytes: 1e9 }, meteringSeconds: 3600 },
    {
      db,
      lifecycle,
      clock: systemClock,
      log: silentLog,
      files: null,
      disk: {
        freeSpace: { bytes: 1e12, reserveBytes: 1 },
        buildRefusal: () => null,
        storeRefusal: () => null,
        limitStorage: () => undefined,
        endReplicas: () => assert.fail("nobody is ended"),
      },
      ownerKeyOf: ownerKeys({ db, clock: systemClock }),
    },
  );
  const by = { actor: platformActor };
  const refused = {
    code: "not_usable",
    message: /only apps reach them: read and write them in an app, below \/persistent-storage\.$/,
  };
  await assert.rejects(volumes.list(projectId, { dir: "/", after: "", max: 10 }), refused);
  await assert.rejects(volumes.beginDownload(projectId, "a.txt", by), refused);
  await assert.rejects(volumes.openDownload({ projectId, filePath: "a.txt" }), refused);
  await assert.rejects(volumes.remove(projectId, "a.txt", by), refused);
  const wanted = { filePath: "a.txt", partCount: 1, partBytes: 1000 };
  await assert.rejects(volumeUploads.begin(projectId, wanted), refused);
  assert.deepEqual(await volumes.state(projectId), { sizeGb: 1, usedBytes: null });
});
