// The list of slow test files contains only existing files.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { projectDir } from "#tidy/tree.ts";
import { slowFiles } from "./slow-files.ts";

test("each slow file exists, and is listed once", () => {
  assert.deepEqual(
    slowFiles.filter((file) => !existsSync(join(projectDir, file))),
    [],
  );
  assert.equal(new Set(slowFiles).size, slowFiles.length);
});
