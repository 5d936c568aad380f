// What folders take of the disk, as `du` counts it, and one that takes too long to count.
import { toolsEnvironment } from "#drivers/short-command.ts";
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { deletedBytes, measure } from "./disk-usage.ts";

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
  const environment = writeTool(dir, "du", du);
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

test("deleted files whose listing does not end within its time are unknown, not a part of them", async (t) => {
  const dir = temporaryFolder(t, "usage");
  const { dev } = statSync(dir);
  const find = `#!/bin/sh
while :; do echo '${dev} 1 8'; sleep 0.01; done
`;
  const environment = writeTool(dir, "find", find);
  const child = spawn("sleep", ["1000"], { stdio: "ignore" });
  t.after(() => child.kill());
  const { pid } = child;
  assert.ok(pid !== undefined);
  const clock = new VirtualClock();
  const found: (number | null)[] = [];
  void deletedBytes(pid, dir, { signal, clock, environment }).then((bytes) => found.push(bytes));
  // The lines come often enough for each, so only the time for all of them ends the program.
  await until("the program was ended", async () => {
    await clock.advance(5_000);
    return found.length > 0;
  });
  assert.deepEqual(found, [null]);
});

/** Writes a program that stands in for a tool, and returns the environment in which it is found. */
function writeTool(dir: string, name: string, script: string): Record<string, string> {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, name), script);
  chmodSync(join(bin, name), 0o755);
  return { PATH: `${bin}:${toolsEnvironment.PATH}` };
}
