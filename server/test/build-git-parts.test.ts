// The settings below [slipway.git]: the file in the repository decides what a build fetches beside
// the repository.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Artifact } from "#drivers/driver.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import { systemClock } from "#lib/clock.ts";
import {
  buildInState,
  createApp,
  playedTrial,
  requestBuild,
  startQueue,
} from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { lfsServer } from "#test/support/lfs-server.ts";

test("the repository's slipway.toml turns LFS on, the request's field comes first, and each has its own result", async (t) => {
  const origin = { text: "" };
  const lfs = lfsServer(() => origin.text);
  const server = await startGitServer(t, { intercept: lfs.intercept });
  origin.text = `http://${server.host}`;
  const database = await testDatabase(t);
  const folder = temporaryFolder(t, "deploy");
  const pointer = lfs.add("weights ".repeat(100));
  await server.createRepo("acme", "app", {
    "main.py": "def run(): return 1\n",
    "slipway.toml": "[slipway.git]\nlfs = true\n",
    ".gitattributes": "*.bin filter=lfs\n",
    "a.bin": pointer,
  });
  const parts = {
    ...database,
    folder,
    urlTemplate: server.urlTemplate,
    refreshed: [],
    clock: systemClock,
  };
  await startQueue(t, {
    ...parts,
    trial: playedTrial(() => ({ ok: true })),
    buildsAtOnce: 1,
    buildTimeoutMs: 60_000,
  });
  const { db } = database;
  const build = async (name: string, request: Record<string, unknown>): Promise<string> => {
    const app = await createApp(db, { name, request });
    const { row } = await buildInState(db, (await requestBuild(db, app)).buildId, ["success"]);
    const { appDir } = processArtifact(row.artifact as Artifact);
    return await readFile(join(appDir, "a.bin"), "utf8");
  };
  assert.equal(await build("with-lfs", {}), "weights ".repeat(100));
  assert.equal(await build("without-lfs", { gitLfs: false }), pointer);
});
