// What is removed from the storage of a project is the project's until it has gone, and goes
// whatever its apps do: they work in it, they close it to others, and they nest it deeper than a
// path may be long. As root and as another user.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ownerKeys } from "#accounts/owner-keys.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { ownerOf } from "#drivers/process/replica-program.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog } from "#lib/log.ts";
import { testDatabase } from "#test/support/database.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { diskWatch } from "#test/support/disk-watch.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { ProcessFixture, python } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { attemptsMs, stubbornWriter } from "#test/support/stubborn-writer.ts";
import { until } from "#test/support/until.ts";
import { openVolumes } from "#volumes/open.ts";

const live = new AbortController().signal;
const sandbox = await detectSandbox(tmpdir());
const skip = sandbox.kind === "none" ? sandbox.reason : false;
const isUserOwned = sandbox.kind === "namespaces" && sandbox.isUserOwned;
const projectId = "p-00000001" as ProjectId;

test(
  "an app that keeps writing in a removed folder is ended with the reason, and the folder goes",
  { skip },
  async (t) => {
    const { db } = await testDatabase(t);
    const lifecycle = new Lifecycle({ clock: systemClock, log: silentLog });
    const fixture = new ProcessFixture({ sandbox });
    const { dataDir } = fixture;
    const storageDir = join(dataDir, "storage");
    const common = { clock: systemClock, log: silentLog };
    const disk = diskWatch(dataDir, {}, { isUserOwned });
    await disk.open();
    const driver = fixture.driver(disk);
    const sink = new DriverSink();
    await driver.open(sink);
    const files = new StorageFiles({
      storageDir,
      userOf: (id) => ownerOf(id, sandbox),
      isUserOwned,
    });
    const settings = { disk: { storageBytes: null }, meteringSeconds: 3600 };
    t.after(async () => {
      await lifecycle.close();
      await disk.close();
      for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
      await driver.close();
      await fixture.close();
    });
    const artifact = fixture.artifact({});
    const spec = replicaSpec({
      artifact,
      runtime: "custom",
      entrypoint: [python, "-c", stubbornWriter],
    });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "writing");
    await files.removeFolder({ projectId: spec.projectId, names: ["r"] });
    await openVolumes(settings, {
      db,
      lifecycle,
      disk,
      files,
      ownerKeyOf: ownerKeys({ db, clock: systemClock }),
      ...common,
    });
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

test("the bytes of a removed folder are the project's until they have gone, and nobody else's", async (t) => {
  const storageDir = temporaryFolder(t, "storage");
  mkdirSync(join(storageDir, projectId, "r"), { recursive: true });
  writeFileSync(join(storageDir, projectId, "r/file"), Buffer.alloc(5_000_000, 1));
  const files = new StorageFiles({ storageDir, userOf: () => null, isUserOwned: false });
  await files.removeFolder({ projectId, names: ["r"] });
  assert.ok(((await files.usedBytes(projectId, live)) ?? 0) >= 5_000_000);
  assert.equal(await files.usedBytes("p-00000002" as ProjectId, live), 0);
  assert.deepEqual(await files.collect(() => Promise.resolve([]), live), {
    left: 0,
    gone: [projectId],
    written: [],
  });
  assert.ok(((await files.usedBytes(projectId, live)) ?? 0) < 100_000);
});

test(
  "a replica of a project whose removed folders have grown beyond its limit is ended",
  { skip },
  async (t) => {
    const fixture = new ProcessFixture({ sandbox });
    const { dataDir } = fixture;
    const disk = diskWatch(dataDir, { storageBytes: 20_000_000 }, { isUserOwned });
    await disk.open();
    const driver = fixture.driver(disk);
    const sink = new DriverSink();
    await driver.open(sink);
    t.after(async () => {
      await disk.close();
      for (const { replicaId } of await driver.list()) await driver.stop(replicaId, { graceMs: 0 });
      await driver.close();
      await fixture.close();
    });
    const entrypoint = [python, "-c", stubbornWriter];
    const spec = replicaSpec({ artifact: fixture.artifact({}), runtime: "custom", entrypoint });
    await driver.start(spec, live);
    await sink.line(spec.replicaId, "writing");
    const files = new StorageFiles({
      storageDir: join(dataDir, "storage"),
      userOf: () => null,
      isUserOwned,
    });
    await files.removeFolder({ projectId: spec.projectId, names: ["r"] });
    const { reason } = await sink.told("exited", spec.replicaId);
    assert.match(reason, /storage holds \d+ MB, more than its limit of 20 MB/);
  },
);

/** Deeper than the system takes a path. */
const deep = `
import os, sys
os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
for _ in range(40):
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
open("file", "w").close()`;

test("a folder that is nested deeper than a path may be long is removed, whoever wrote it", async (t) => {
  const dir = join(temporaryFolder(t, "deep"), "written");
  execFileSync(python, ["-c", deep, dir]);
  await removeFolder(dir);
  assert.equal(existsSync(dir), false);
});

const isRoot = process.getuid?.() === 0;
/** Root removes what it likes, so the code runs as somebody else where the test is root. */
const asSomebody = isRoot ? ["setpriv", "--reuid=65533", "--clear-groups"] : [];

function whyNot(...command: readonly string[]): string | false {
  try {
    execFileSync("env", [...asSomebody, ...command]);
    return false;
  } catch {
    return "another user cannot do this here";
  }
}

const code = `
const { StorageFiles } = await import(process.argv[1]);
const { collectStorage } = await import(process.argv[2]);
const { execFileSync } = await import("node:child_process");
const { readdirSync } = await import("node:fs");
const [, , , storageDir, owned] = process.argv;
const options = { storageDir, userOf: () => null, isUserOwned: owned === "true" };
const files = new StorageFiles(options);
const { signal } = new AbortController();
const closed = (folder) => execFileSync("sh", ["-c", 'mkdir -p "$1/sub/b" && touch "$1/sub/b/c" && chmod 000 "$1/sub/b" "$1/sub"', "sh", folder]);
for (const project of ["p-00000001", "p-00000002"]) closed(storageDir + "/" + project + "/r");
await files.removeFolder({ projectId: "p-00000001", names: ["r"] });
console.log((await files.collect(async () => [], signal)).left);
const lines = [];
const log = { warn: (facts, text) => lines.push(text) };
await collectStorage({ ...options, log }, async () => ["p-00000002"], signal);
console.log(readdirSync(storageDir).sort().join(), readdirSync(storageDir + "/.removed").length, lines.length);`;

for (const owned of [true, false]) {
  const needs = owned ? ["unshare", "--user", "--map-root-user", "true"] : ["true"];
  const skipHere = whyNot("test", "-r", import.meta.filename) || whyNot(...needs);
  const where = owned ? "in the namespace of its apps" : "without namespaces";
  test(
    `folders that apps have closed are removed by a platform that is not root, ${where}`,
    { skip: skipHere },
    (t) => {
      const dir = temporaryFolder(t, "closed");
      chmodSync(dir, 0o777);
      const modules = ["drivers/storage-files.ts", "drivers/storage.ts"].map((name) =>
        join(import.meta.dirname, "../src", name),
      );
      const storageDir = join(dir, "storage");
      const node = [
        process.execPath,
        "--input-type=module",
        "-e",
        code,
        ...modules,
        storageDir,
        String(owned),
      ];
      const said = execFileSync("env", [...asSomebody, ...node], { encoding: "utf8" });
      assert.deepEqual(said.trim().split("\n"), ["0", ".removed,p-00000001 0 0"]);
    },
  );
}
