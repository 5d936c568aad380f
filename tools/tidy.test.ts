// ARCHITECTURE.md's table against the rules of `rules.ts`; `npm run check` holds the project itself
// to them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { importTable } from "#rules.ts";
import { projectDir, readTree } from "#tidy/tree.ts";

const areas = Object.keys(importTable);

test("the table in ARCHITECTURE.md is the one that the tidy keeps", () => {
  assert.deepEqual(tableOfArchitecture(), { ...importTable, contract: undefined, api: apiRow() });
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

/** ARCHITECTURE.md writes the row of api as "contract, and all above but store, drivers, proxy". */
function apiRow(): string {
  const left = areas.filter(
    (area) => area !== "api" && !(importTable.api as readonly string[]).includes(area),
  );
  return `contract, and all above but ${left.join(", ")}`;
}

/** The rows below the heading "Who may import whom", without remarks in brackets. */
function tableOfArchitecture(): Record<string, string | string[] | undefined> {
  const text = readFileSync(join(projectDir, "ARCHITECTURE.md"), "utf8");
  const section = text.split("## Who may import whom")[1]?.split("\n## ")[0] ?? "";
  const rows: Record<string, string | string[] | undefined> = { contract: undefined };
  for (const [, names = "", allowed = ""] of section.matchAll(/^\| ([\w, .]+) \| ([^|]+) \|$/gm)) {
    const cell = allowed.replace(/\(.*\)/, "").trim();
    if (!areas.includes(names)) continue;
    rows[names] = importsIn(cell);
  }
  return rows;
}

/** The names in a cell; a sentence is left as it is. */
function importsIn(cell: string): string | string[] {
  if (cell === "–") return [];
  return cell.includes(",") ? cell : cell.split(" ");
}
