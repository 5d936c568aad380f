// Describes the settings of the table for `--help`; tools/settings.ts writes docs/settings.md with
// the same texts.
import { settingTable, type Setting } from "./config-table.ts";

/** The maximum line length of `--help`, in columns. */
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
