// Which files a short run leaves out.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { projectDir } from "#tidy/tree.ts";
import { drawFiles, groupedFiles } from "./drawn-files.ts";

test("each file of a group exists, and is in one group", () => {
  assert.deepEqual(
    groupedFiles.filter((file) => !existsSync(join(projectDir, file))),
    [],
  );
  assert.equal(new Set(groupedFiles).size, groupedFiles.length);
});

test("a draw leaves out files of groups only, the same for the same seed, and all have their turn", () => {
  const all = ["server/test/other.test.ts", ...groupedFiles];
  const seen = new Set<string>();
  for (let seed = 0; seed < 500; seed++) {
    const { files, lines } = drawFiles(all, seed);
    assert.deepEqual(drawFiles(all, seed).files, files);
    assert.ok(files.includes("server/test/other.test.ts") && files.length < all.length);
    assert.ok(lines.every((line) => line.includes(`SLIPWAY_TEST_SEED=${seed}`)));
    for (const file of files) seen.add(file);
  }
  assert.equal(seen.size, all.length);
});
