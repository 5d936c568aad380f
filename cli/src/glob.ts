// Patterns of `include` and `exclude` in an app's TOML file. A pattern matches a whole path relative to the folder: `*` and `?`
// within a name, `**` any number of folders, `[a-z]` and `{a,b}`.

/** A test of relative paths with `/`; null when the pattern is not valid. */
export function globTest(pattern: string): ((path: string) => boolean) | null {
  const written = pattern.replace(/^(?:\.?\/)+/, "");
  const form = formOf(written.endsWith("/") ? `${written}**` : written);
  if (form === null) return null;
  try {
    const expression = new RegExp(`^(?:${form})$`, "su");
    return (path) => expression.test(path);
  } catch {
    // Such as a range in the wrong order: the caller names the pattern.
    return null;
  }
}

/** One token of a pattern at a time. */
const token = /\*\*\/|\/\*\*$|\*\*|\*|\?|\[([!^]?)((?:\\.|[^\]\\])+)\]|\\(.)|[{},[\]]|./gsu;

function formOf(pattern: string): string | null {
  let depth = 0;
  let form = "";
  for (const [text, not = "", set, escaped] of pattern.matchAll(token)) {
    if (text === "{") depth++;
    if (text === "}") depth--;
    if (depth < 0 || text === "[" || (text === "\\" && escaped === undefined)) return null;
    if (set !== undefined) form += `(?!/)[${not === "" ? "" : "^"}${set.replaceAll(/[[^&~]/g, "\\$&")}]`;
    else if (escaped !== undefined) form += RegExp.escape(escaped);
    else form += depth > 0 && text === "," ? "|" : (forms[text] ?? RegExp.escape(text));
  }
  return depth === 0 ? form : null;
}

const forms: Readonly<Record<string, string>> = {
  "**/": "(?:.*/)?",
  "/**": "(?:/.*)?",
  "**": ".*",
  "*": "[^/]*",
  "?": "[^/]",
  "{": "(?:",
  "}": ")",
};
