// What folders take of the disk, as `du` counts it, and one that takes too long to count.
import { toolsEnvironment } from "#drivers/short-command.ts";
import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { measure } from "./disk-usage.ts";

const { signal } = new AbortController();

test("each folder is measured, one that is not there is left out", async (t) => {
  const dir = temporaryFolder(t, "usage");
  const full = join(dir, "full");
  const empty = join(dir, "empty");
  for (const folder of [full, empty]) mkdirSync(folder);
  for (let number = 0; number < 3; number++)
    writeFileSync(join(full, `file-${number}`), Buffer.alloc(100_000));
  const found = await measure([full, join(dir, "gone"), empty], { isUserOwned: false, signal });
  assert.deepEqual([...found.keys()], [full, empty]);
  assert.equal(found.get(full)?.files, 4);
  assert.ok((found.get(full)?.bytes ?? 0) >= 300_000);
  assert.equal(found.get(empty)?.files, 1);
});

test("a folder that takes too long to count is null, and those after it are measured", async (t) => {
  const dir = temporaryFolder(t, "usage");
  const reached = join(dir, "reached");
  // Says a size of each folder, and does not come back from one.
  const du = `#!/bin/sh
for folder do
  case $folder in
    */many) : > ${reached}; exec sleep 1000 ;;
    /*) printf '7\\t%s\\n' "$folder" ;;
  esac
done
`;
  mkdirSync(join(dir, "bin"));
  writeFileSync(join(dir, "bin", "du"), du);
  chmodSync(join(dir, "bin", "du"), 0o755);
  const environment = { PATH: `${join(dir, "bin")}:${toolsEnvironment.PATH}` };
  const folders = ["many", "other"].map((name) => join(dir, name));
  for (const folder of folders) mkdirSync(folder);
  const clock = new VirtualClock();
  const measured = measure(folders, { isUserOwned: false, signal, clock, environment });
  await until("the slow folder is reached", () => existsSync(reached));
  await clock.advance(20_000);
  const known = { bytes: 7 * 1024, files: 7 };
  assert.deepEqual(
    [...(await measured)],
    [
      [folders[0], null],
      [folders[1], known],
    ],
  );
});
