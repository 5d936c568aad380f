// Scheduled backups of a real platform: made beside it, older ones removed, failures told.
import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const stepMs = 120_000;
const old = "slipway-2020-01-01T00-00-00Z.age";

test("the platform backs itself up, keeps the newest and tells what failed", async (t) => {
  const cwd = temporaryFolder(t, "schedule");
  const folder = join(cwd, "backups");
  const slipway = commandsAt(t, { cwd });
  const { stdout: key } = await slipway(["backup", "--new-key", "own.key"]).ended;
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_BACKUP_TO: folder,
    SLIPWAY_BACKUP_PUBLIC_KEYS: key.trim(),
    SLIPWAY_BACKUPS_KEPT: "1",
  });
  type Noted = { readonly last: string | null; readonly failure: string | null };
  const noted = async (): Promise<Noted | null> => {
    const text = await readFile(join(platform.dataDir, "backup.json"), "utf8").catch(() => null);
    return text === null ? null : (JSON.parse(text) as Noted);
  };
  const failed = async (): Promise<boolean> => (await noted())?.failure !== undefined;
  await until("the failure is noted", failed, { deadlineMs: stepMs });
  assert.match((await noted())?.failure ?? "", /does not exist. Create it/);
  assert.match(platform.output(), /a scheduled backup failed/);

  await platform.end("SIGTERM");
  await mkdir(folder);
  for (const name of [old, "mine.age"]) await writeFile(join(folder, name), "");
  await platform.restart();
  const made = async (): Promise<boolean> => (await noted())?.failure === null;
  await until("the backup is noted", made, { deadlineMs: stepMs });
  const [mine, own = "", ...others] = (await readdir(folder)).toSorted();
  assert.deepEqual([mine, others], ["mine.age", []]);
  assert.notEqual(own, old);
  const words = ["restore", join(folder, own), "--key", "own.key", "--check"];
  const { code, stderr } = await slipway(words).ended;
  assert.equal(code, 0, stderr);
});
