// Writes docs/fields.md: what each field of an app changes, and the tests that see it from outside.
// `--check` compares, `--write` updates. A field without a test, or a test that is not there, is an
// error.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { appFields, fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import { projectDir } from "#tidy/tree.ts";
import { fieldTests, type SeenBy } from "./field-tests.ts";

const start = `# What each field of an app changes

<!-- Made by tools/fields.ts from contract/src/app-fields.ts and tools/field-tests.ts. Change it there, then: node tools/fields.ts --write -->

Each field of a create request has its effect, and a test that sees this effect from outside. [Settings of an
app](app-settings.md) has their values and defaults, and says what the classes of change mean. Where the drivers carry out a
field, each has its own test; the rest is the same with every driver.

| field | effect | change | driver | seen by |
|---|---|---|---|---|
`;

const path = join(projectDir, "docs/fields.md");
const page = `${start}${fieldNames.flatMap(rowsOf).join("\n")}\n`;
if (process.argv.includes("--write")) {
  writeFileSync(path, page);
} else if (!existsSync(path) || readFileSync(path, "utf8") !== page) {
  console.log("docs/fields.md differs from the tables of fields and of their tests");
  process.exitCode = 1;
}

/** One row for each driver. */
function rowsOf(field: FieldName): string[] {
  const { about, change } = appFields[field];
  return Object.entries(fieldTests[field]).map(([driver, seenBy], index) => {
    const cells = index === 0 ? [`\`${field}\``, about, `\`${change}\``] : ["", "", ""];
    return `| ${[...cells, driver, seenText(field, seenBy)].join(" | ")} |`;
  });
}

function seenText(field: FieldName, seenBy: SeenBy): string {
  if ("not" in seenBy) return seenBy.not;
  const file = `server/${seenBy.file.includes("/") ? "src" : "test"}/${seenBy.file}`;
  // Promises of a folder of tests are named in its support.
  const texts = [file, ...(seenBy.in === undefined ? [] : [`server/test/support/${seenBy.in}`])];
  if (!texts.some((one) => readFileSync(join(projectDir, one), "utf8").includes(seenBy.test))) {
    throw new Error(`${field}: ${file} has no test "${seenBy.test}" (tools/field-tests.ts)`);
  }
  const but = seenBy.but === undefined ? "" : ` (${seenBy.but})`;
  return `[${basename(file)}](../${file}): ${seenBy.test}${but}`;
}
