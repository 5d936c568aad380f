// What is removed from the storage of a project whose apps are containers is the project's until it
// has gone, with a real engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { ownerKeys } from "#accounts/owner-keys.ts";
import type { DiskWatch } from "#drivers/disk/disk-watch.ts";
import type { ReplicaSpec } from "#drivers/driver.ts";
import { projectUser } from "#drivers/project-user.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { systemClock } from "#lib/clock.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog } from "#lib/log.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { testDatabase } from "#test/support/database.ts";
import { noEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { attemptsMs, stubbornWriter } from "#test/support/stubborn-writer.ts";
import { until } from "#test/support/until.ts";
import { openVolumes } from "#volumes/open.ts";
import { diskWatch } from "./support/disk-watch.ts";

const skip = await noEngine();
const live = new AbortController().signal;
const isUserOwned = false;
const common = { clock: systemClock, log: silentLog };

type Stage = {
  readonly disk: DiskWatch;
  readonly files: StorageFiles;
  readonly storageDir: string;
  readonly sink: DriverSink;
  readonly spec: ReplicaSpec;
};

/** A container that writes in a folder of its storage, which has then been removed. */
async function removeUnder(t: TestContext, storageBytes: number | null): Promise<Stage> {
  const fixture = await DockerFixture.open();
  cleanLast(t, () => fixture.close());
  const { dataDir, storageDir } = fixture;
  const disk = diskWatch(dataDir, { storageBytes });
  await disk.open();
  cleanLast(t, () => disk.close());
  const driver = fixture.driver({ disk });
  cleanLast(t, () => driver.close());
  const sink = new DriverSink();
  await driver.open(sink);
  const spec = fixture.python(stubbornWriter);
  await driver.start(spec, live);
  await sink.line(spec.replicaId, "writing");
  const files = new StorageFiles({ storageDir, userOf: projectUser, isUserOwned });
  await files.removeFolder({ projectId: spec.projectId, names: ["r"] });
  return { disk, files, storageDir, sink, spec };
}

test(
  "a container that keeps writing in a removed folder is ended, and the folder goes",
  { skip },
  async (t) => {
    const { db } = await testDatabase(t);
    const lifecycle = new Lifecycle({ clock: systemClock, log: silentLog });
    const { disk, files, storageDir, sink, spec } = await removeUnder(t, null);
    cleanLast(t, () => lifecycle.close());
    const settings = { disk: { storageBytes: null }, meteringSeconds: 3600 };
    const ownerKeyOf = ownerKeys({ db, clock: systemClock });
    await openVolumes(settings, { db, lifecycle, disk, files, ownerKeyOf, ...common });
    await lifecycle.start();
    const { reason } = await sink.told("exited", spec.replicaId, attemptsMs);
    assert.match(reason, /kept writing in a folder that was removed from \/persistent-storage/);
    await until(
      "the folder has gone",
      () => readdirSync(join(storageDir, ".removed")).length === 0,
      {
        deadlineMs: attemptsMs,
      },
    );
    assert.deepEqual(readdirSync(join(storageDir, spec.projectId)), []);
  },
);

test(
  "a container whose removed folder grows beyond the project's limit is ended",
  { skip },
  async (t) => {
    const { sink, spec } = await removeUnder(t, 20_000_000);
    const { reason } = await sink.told("exited", spec.replicaId);
    assert.match(reason, /storage holds \d+ MB, more than its limit of 20 MB/);
  },
);
