// The files of changes/, and the section of CHANGELOG.md that a release makes of them. Pure
// functions over texts, for tools/release.ts and its check.

/** The areas of the product, in the order of the changelog: the name in a file, and the heading. */
export const changeAreas: Readonly<Record<string, string>> = {
  "calls and runs": "Calls and runs",
  "deploying and builds": "Deploying and builds",
  "scaling and replicas": "Scaling and replicas",
  "command line": "Command line",
  dashboard: "Dashboard",
  "people, tokens and audit": "People, tokens and audit",
  billing: "Billing",
  storage: "Storage",
  operating: "Operating",
  security: "Security",
};

/** What every user has to read and do. It comes before all areas. */
const beforeUpgrade = "Before you upgrade";

/** The kinds of entries within an area, in the order of the changelog. */
const changeKinds = ["Added", "Changed", "Fixed", "Removed"] as const;

/** The maximum length of an entry: about four lines. What needs more belongs in a guide. */
const entryLengthMax = 400;

/** An entry of the changelog, with the line breaks of its file. */
export type ChangeEntry = { readonly area: string; readonly kind: string; readonly text: string };

/** The entries of a file of changes/. Throws an error that names the file and what to write. */
export function readChange(path: string, text: string): readonly ChangeEntry[] {
  const [first = "", ...paragraphs] = text.trim().split(/\n\s*\n/);
  const area = /^area: (.+)$/.exec(first)?.[1] ?? "";
  if (!Object.hasOwn(changeAreas, area)) {
    const known = Object.keys(changeAreas).map((one) => `"area: ${one}"`);
    const wanted = `its first paragraph must be one of: ${known.join("; ")}`;
    throw new Error(`${path} begins with "${first}"; ${wanted}`);
  }
  if (paragraphs.length === 0) throw new Error(`${path} has no entry`);
  return paragraphs.map((paragraph) => readEntry(path, area, paragraph));
}

function readEntry(path: string, area: string, paragraph: string): ChangeEntry {
  const kinds = [beforeUpgrade, ...changeKinds];
  const form = new RegExp(String.raw`^\*\*(${kinds.join("|")})\*\*\s+([^]+)$`);
  const [, kind, entry] = form.exec(paragraph) ?? [];
  if (kind === undefined || entry === undefined) {
    const known = kinds.map((one) => `**${one}**`).join(", ");
    throw new Error(`${path}: "${paragraph}" begins with none of ${known}`);
  }
  const fault = faultOf(entry, kinds);
  if (fault !== null) throw new Error(`${path}: "${entry}" ${fault}`);
  return { area, kind, text: entry };
}

function faultOf(entry: string, kinds: readonly string[]): string | null {
  if (!/^[A-Z`]/.test(entry)) return "does not begin with a capital letter";
  if (!entry.endsWith(".")) return "does not end with a full stop";
  const { length } = entry;
  if (length > entryLengthMax) return `has ${length} characters, at most ${entryLengthMax}`;
  const second = kinds.find((one) => entry.includes(`**${one}**`));
  return second === undefined ? null : `holds **${second}**, which must begin a paragraph`;
}

/** The entries of all files by path, in the order of the paths; within a file in its own order. */
export function readChanges(files: Readonly<Record<string, string>>): readonly ChangeEntry[] {
  return Object.entries(files).flatMap(([path, text]) => readChange(path, text));
}

/** The release's section of the changelog. `date`: such as 2026-11-27. */
export function changelogSection(
  version: string,
  date: string,
  entries: readonly ChangeEntry[],
): string {
  const lists = Object.entries(changeAreas).map(([area, heading]) => {
    const kinds = changeKinds.map((kind) =>
      list(
        `#### ${kind}`,
        entries.filter((entry) => entry.area === area && entry.kind === kind),
      ),
    );
    const filled = kinds.filter((one) => one !== "");
    return filled.length === 0 ? "" : [`### ${heading}`, ...filled].join("\n\n");
  });
  const first = list(
    `### ${beforeUpgrade}`,
    entries.filter(({ kind }) => kind === beforeUpgrade),
  );
  return [`## ${version} (${date})`, first, ...lists].filter((one) => one !== "").join("\n\n");
}

function list(heading: string, entries: readonly ChangeEntry[]): string {
  if (entries.length === 0) return "";
  // Links lead from the project's folder, where the changelog is, and no longer from changes/.
  const texts = entries.map(({ text }) => text.replaceAll("](../", "]("));
  return [heading, "", ...texts.map((text) => `- ${text.replaceAll("\n", "\n  ")}`)].join("\n");
}

/** The changelog with a new section above those that it has. */
export function changelogWith(changelog: string, section: string): string {
  const at = changelog.search(/^## /m);
  if (at === -1) return `${changelog.trimEnd()}\n\n${section}\n`;
  return `${changelog.slice(0, at)}${section}\n\n${changelog.slice(at)}`;
}
