// Keeps docs/settings.md equal to the table of settings: `--check` compares, `--write` updates it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { settingsPage } from "@slipway/server/src/config-help.ts";
import { projectDir } from "#tidy/tree.ts";

const path = join(projectDir, "docs/settings.md");
if (process.argv.includes("--write")) {
  writeFileSync(path, settingsPage());
} else if (!existsSync(path) || readFileSync(path, "utf8") !== settingsPage()) {
  console.log("docs/settings.md differs from server/src/config-table.ts");
  process.exitCode = 1;
}
