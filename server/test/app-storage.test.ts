// The storage that an app has for itself (storagePath), with processes. `docker-app-storage` has
// the same with containers.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { collectStorage } from "#drivers/storage.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { keeperFiles, keepApart } from "#test/support/app-storage-scenario.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { startPlatform } from "#test/support/platform-process.ts";
import { ProcessFixture, python } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";

const live = new AbortController().signal;
const sandbox = await detectSandbox(tmpdir());
const skip = sandbox.kind === "none" ? sandbox.reason : false;

test(
  "an app's own storage is seen by no other app, outlives releases, and goes with the app",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "keeper", keeperFiles);
    await keepApart(await startPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate }));
  },
);

test("without a sandbox an app that wants storage of its own is refused, with what to do", async (t) => {
  const fixture = new ProcessFixture({ sandbox: { kind: "none", reason: "for this test" } });
  t.after(() => fixture.close());
  const driver = fixture.driver();
  await driver.open(new DriverSink());
  t.after(() => driver.close());
  assert.equal(driver.capabilities.storagePaths, false);
  const entrypoint = [python, "-c", ""];
  const artifact = fixture.artifact({});
  const spec = replicaSpec({ artifact, runtime: "custom", entrypoint, storagePath: "/data" });
  await assert.rejects(
    driver.start(spec, live),
    /storagePath is \/data, but apps run without a sandbox here.*Leave it/,
  );
});

test(
  "a path that would hide the app's own programs is refused before the start",
  { skip },
  async (t) => {
    const fixture = new ProcessFixture({ sandbox });
    t.after(() => fixture.close());
    const driver = fixture.driver();
    await driver.open(new DriverSink());
    t.after(() => driver.close());
    const artifact = fixture.artifact({});
    const storagePath = String(artifact["appDir"]);
    const entrypoint = [python, "-c", ""];
    const spec = replicaSpec({ artifact, runtime: "custom", entrypoint, storagePath });
    await assert.rejects(
      driver.start(spec, live),
      /storagePath is .*, but the app's programs are in .*: choose another/,
    );
  },
);

test("an app's own storage counts as its project's, and only storages known to be gone are removed", async (t) => {
  const storageDir = temporaryFolder(t, "storage");
  const projectId = "p-00000001" as ProjectId;
  const apps = [`${projectId}-one`, `${projectId}-two`, "p-00000002-one"];
  const folder = (appId: string): string => join(storageDir, ".apps", appId);
  for (const appId of apps) {
    mkdirSync(folder(appId), { recursive: true });
    writeFileSync(join(folder(appId), "file"), Buffer.alloc(3_000_000, 1));
  }
  const files = new StorageFiles({ storageDir, userOf: () => null, isUserOwned: false });
  const used = (await files.usedBytes(projectId, live)) ?? 0;
  assert.ok(used >= 6_000_000 && used < 7_000_000, `both of its apps and no other: ${used}`);
  assert.deepEqual((await files.projects()).toSorted(), [projectId, "p-00000002"]);
  let asked: readonly string[] = [];
  const readGone = (ids: readonly string[]): Promise<readonly string[]> => {
    asked = ids;
    return Promise.resolve([`${projectId}-one`, "../p-00000002"]);
  };
  await collectStorage({ storageDir, log: silentLog }, readGone, live);
  assert.deepEqual(asked.toSorted(), apps.toSorted());
  assert.deepEqual(
    apps.map((appId) => existsSync(folder(appId))),
    [false, true, true],
  );
});
