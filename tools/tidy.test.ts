// The table of `rules.ts` against ARCHITECTURE.md's map and the folders of the server; `npm run
// check` holds the imports of the project to it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { importTable } from "#rules.ts";
import { projectDir, readTree } from "#tidy/tree.ts";

const areas = Object.keys(importTable);

test("the map in ARCHITECTURE.md has the areas in the order of the table", () => {
  const text = readFileSync(join(projectDir, "ARCHITECTURE.md"), "utf8");
  const folders = [...text.matchAll(/^\| `(?:(contract)\/src|server\/src\/(\w+))` \|/gm)];
  assert.deepEqual(
    folders.map(([, contract, area]) => contract ?? area),
    areas,
  );
});

test("each row of the table names only rows above it", () => {
  for (const [index, area] of areas.entries()) {
    const row: readonly string[] = importTable[area as keyof typeof importTable];
    for (const name of row) assert.ok(areas.indexOf(name) < index, `${area} may not name ${name}`);
  }
});

test("every folder of the server is an area of the table", () => {
  const folders = Object.keys(readTree("server/src/*/**/*.ts")).map(
    (path) => path.split("/")[2] ?? "",
  );
  for (const folder of new Set(folders))
    assert.ok(areas.includes(folder), `server/src/${folder} is not in tools/rules.ts`);
});
