// Keeps docs/settings.md equal to the table of settings: `--check` compares, `--write` updates it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defaultText, settingAllowedText } from "@slipway/server/src/config-help.ts";
import { settingTable, type Setting } from "@slipway/server/src/config-table.ts";
import { projectDir } from "#tidy/tree.ts";

const path = join(projectDir, "docs/settings.md");
if (process.argv.includes("--write")) {
  writeFileSync(path, settingsPage());
} else if (!existsSync(path) || readFileSync(path, "utf8") !== settingsPage()) {
  console.log("docs/settings.md differs from server/src/config-table.ts");
  process.exitCode = 1;
}

/** The content of docs/settings.md. */
function settingsPage(): string {
  const rows = Object.entries(settingTable as Record<string, Setting>).map(([name, setting]) => {
    const cells = [
      `\`${name}\``,
      settingAllowedText(setting),
      `\`${defaultText(setting)}\``,
      setting.about,
    ];
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  });
  return [
    "# Settings",
    "",
    "<!-- Made by tools/settings.ts from server/src/config-table.ts. Change it there, then: node tools/settings.ts --write -->",
    "",
    "Slipway is configured with environment variables. Each has a working default; an empty value counts as unset. The",
    "platform does not start if a SLIPWAY_ variable is not in this table or has an invalid value; the message says what is allowed.",
    "",
    "| variable | allowed | default | description |",
    "|---|---|---|---|",
    ...rows,
    "",
    "Variables that tools look for are passed on to git, pip and builds: `PATH`, `HTTPS_PROXY`, `NO_PROXY`, `PIP_*`, `UV_*`,",
    "`SSL_CERT_FILE`, `PYENV_ROOT` and the like. Nothing else from the platform's environment reaches an app. `PIP_DEFAULT_TIMEOUT`",
    "applies to uv too, unless `UV_HTTP_TIMEOUT` is set; uv retries up to 5 times (`UV_HTTP_RETRIES`).",
    "",
  ].join("\n");
}
