// Describes the settings, from their table: for `--help` and for docs/settings.md.
import { settingTable, type Setting } from "./config-table.ts";

/** Terminal width in columns that `--help` is laid out for. */
const helpWidth = 100;
const indent = "      ";

/** The allowed values in words: `whole number from 1 to 64`. */
export function settingAllowedText({ kind, min, max, choices }: Setting): string {
  switch (kind) {
    case "integer":
      return `whole number from ${min ?? 0} to ${max ?? Number.MAX_SAFE_INTEGER}`;
    case "boolean":
      return "true or false";
    case "choice":
      return (choices ?? []).join(", ");
    case "list":
      return "comma-separated list";
    case "url":
      return "http or https URL";
    case "secret":
      return "secret text";
    case "text":
    case "word":
      return "text";
  }
}

/** The value that applies when the setting is not given. */
export function defaultText(setting: Setting): string {
  if (setting.default === null) return "unset";
  return setting.default === "" ? "empty" : setting.default;
}

/** The output of `--help`. */
export function helpText(): string {
  const settings = Object.entries(settingTable as Record<string, Setting>).map(
    ([name, setting]) =>
      `  ${name}  (${settingAllowedText(setting)}; default ${defaultText(setting)})\n${wrap(setting.about)}\n`,
  );
  return [
    "Slipway: an open, self-hosted serverless platform.",
    "",
    "Usage: npm start                start the platform",
    "       npm start -- --help      show this text",
    "",
    "Settings are environment variables; an empty value counts as unset:",
    "",
    ...settings,
  ].join("\n");
}

/** The content of docs/settings.md. */
export function settingsPage(): string {
  const rows = Object.entries(settingTable as Record<string, Setting>).map(([name, setting]) => {
    const cells = [`\`${name}\``, settingAllowedText(setting), `\`${defaultText(setting)}\``, setting.about];
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
    "`SSL_CERT_FILE`, `PYENV_ROOT` and the like. Nothing else from the platform's environment reaches an app.",
    "",
  ].join("\n");
}

function wrap(text: string): string {
  const lines: string[] = [];
  let line = indent;
  for (const word of text.split(" ")) {
    if (line.length + word.length > helpWidth && line !== indent) {
      lines.push(line.trimEnd());
      line = indent;
    }
    line += `${word} `;
  }
  return [...lines, line.trimEnd()].join("\n");
}
