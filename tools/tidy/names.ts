// Rules about names: an exported name of the server or the contract is defined once, and no file
// name or export contains a word that GLOSSARY.md lists as not used.
import { posix } from "node:path";
import {
  exportName,
  isExported,
  isTest,
  lineAt,
  lineOf,
  type Finding,
  type Source,
} from "./source.ts";

/** A word that is not used, in lower case, and its replacement. */
export type UnusedWord = { readonly word: string; readonly instead: string };

/** Every name that is exported by two files or contains a word that is not used. */
export function nameFindings(sources: readonly Source[], unused: readonly UnusedWord[]): Finding[] {
  const findings: Finding[] = [];
  const firstPaths = new Map<string, string>();
  for (const { path, tree } of sources) {
    if (!/^(?:server|contract|cli)\/src\//.test(path) || isTest(path)) continue;
    const base = posix.basename(path).replace(/\.ts$/, "");
    findings.push(...unusedWords(base, unused).map((what) => ({ path, rule: "names", what })));
    for (const statement of tree.statements) {
      if (!isExported(statement)) continue;
      const name = exportName(statement);
      const line = lineOf(tree, statement);
      findings.push(
        ...unusedWords(name, unused).map((what) => ({ path, line, rule: "names", what })),
      );
      // The command line is a separate program.
      if (path.startsWith("cli/")) continue;
      const first = firstPaths.get(name);
      if (first === undefined) firstPaths.set(name, path);
      else
        findings.push({
          path,
          line,
          rule: "names",
          what: `${name} is exported by ${first} too; name one of them apart`,
        });
    }
  }
  return findings;
}

/** The rows of the glossary's table of words that are not used. */
export function readUnusedWords(glossary: string): UnusedWord[] {
  const table = glossary.split(/^## Words that are not used$/m)[1] ?? "";
  return [...table.matchAll(/^\| (\w+) \| (.+) \|$/gm)]
    .map(([, word = "", instead = ""]) => ({ word, instead }))
    .filter(({ word }) => word !== "not");
}

/** Every word that the glossary defines more than once. */
export function glossaryFindings(glossary: string): Finding[] {
  const findings: Finding[] = [];
  const seen = new Set<string>();
  const [defined = ""] = glossary.split(/^## Words that are not used$/m);
  for (const row of defined.matchAll(/^\| (\*\*[^|]*) \|/gm)) {
    for (const [, word = ""] of (row[1] ?? "").matchAll(/\*\*([^*]+)\*\*/g)) {
      const line = lineAt(glossary, row.index);
      if (seen.has(word))
        findings.push({
          path: "GLOSSARY.md",
          line,
          rule: "names",
          what: `${word} is defined twice`,
        });
      seen.add(word);
    }
  }
  return findings;
}

function unusedWords(name: string, unused: readonly UnusedWord[]): string[] {
  const words = name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1-$2")
    .toLowerCase()
    .split("-");
  return unused
    .filter(({ word }) => words.includes(word) || words.includes(`${word}s`))
    .map(
      ({ word, instead }) => `"${name}" has the word ${word}, which is not used; write ${instead}`,
    );
}
