// Keeps the table of docs/interfaces.md equal to the code: which files of an area other areas
// import, and which names. `--check` compares, `--write` updates the table.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { importTable } from "./rules.ts";
import { areaOf, importedFile } from "./tidy/imports.ts";
import { projectDir, readTree } from "./tidy/tree.ts";

const path = join(projectDir, "docs/interfaces.md");
const frame = /(<!-- interfaces -->\n)[\s\S]*?(<!-- end of interfaces -->)/;
const importForm = /^import (?:type )?(?:\{([^}]*)\}|\w+) from "([^"]+)";$/gm;

/** By area and file: the names that other areas import. */
function interfaces(): Map<string, Map<string, Set<string>>> {
  const found = new Map<string, Map<string, Set<string>>>();
  const sources = Object.entries(readTree("server/src/*/**/*.ts")).filter(
    ([file]) => !file.endsWith(".test.ts"),
  );
  for (const [file, text] of sources) {
    for (const [, names = "", specifier = ""] of text.matchAll(importForm)) {
      const target = importedFile(file, specifier);
      const area = target === null ? null : areaOf(target);
      // These may be imported by everybody.
      if (
        target === null ||
        area === null ||
        area === areaOf(file) ||
        area === "lib" ||
        area === "contract"
      )
        continue;
      const files = found.get(area) ?? new Map<string, Set<string>>();
      found.set(area, files);
      const name = target.slice(`server/src/${area}/`.length, -".ts".length);
      const known = files.get(name) ?? new Set();
      files.set(name, known);
      for (const one of names.split(","))
        known.add(
          one
            .trim()
            .replace(/^type /, "")
            .replace(/ as \w+$/, ""),
        );
    }
  }
  return found;
}

function table(): string {
  const found = interfaces();
  const rows = Object.keys(importTable).flatMap((area) => {
    const files = [...(found.get(area) ?? [])].sort(([a], [b]) => a.localeCompare(b));
    const cells = files.map(
      ([file, names]) => `\`${file}\` (${[...names].filter(Boolean).sort().join(", ")})`,
    );
    return cells.length === 0 ? [] : [`| ${area} | ${cells.join("; ")} |`];
  });
  return ["| area | what other areas import of it |", "|---|---|", ...rows, ""].join("\n");
}

const text = readFileSync(path, "utf8");
const made = text.replace(frame, (_, begin: string, end: string) => `${begin}${table()}${end}`);
if (process.argv.includes("--write")) {
  writeFileSync(path, made);
} else if (made !== text || !frame.test(text)) {
  console.log("the table of docs/interfaces.md differs from the imports of server/src");
  process.exitCode = 1;
}
