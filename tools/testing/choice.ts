// Chooses the test files of a short run by what has changed: those whose imports reach a changed
// file, those that the rules name, a part of all that is the next one with each commit, and what
// always runs. Pure: who calls it asks git, and reads the files.
import { posix } from "node:path";
import { importedFile } from "#tidy/imports.ts";
import type { Source } from "#tidy/source.ts";
import { always, foundation, readers, rules } from "./choice-rules.ts";

/** So many commits, and each test file has run at least once. */
export const partsCount = 20;

/** The parts of a parsed file that the choice depends on. */
export type ReadFile = Pick<Source, "path" | "text" | "imports">;

/** The chosen files, and for each reason those that no earlier reason has chosen. */
export type Choice = {
  readonly files: readonly string[];
  readonly reasons: readonly { readonly why: string; readonly files: readonly string[] }[];
};

/** The files that something leads to, by the file that it leads from. */
export type Graph = ReadonlyMap<string, readonly string[]>;

/** By the path of a file, the files that load it; an import of types alone loads nothing. */
export function importersOf(sources: readonly ReadFile[]): Graph {
  const importers = new Map<string, string[]>();
  for (const { path, imports } of sources) {
    for (const { specifier, isType } of imports) {
      const file = isType ? null : importedFile(path, specifier);
      if (file === null) continue;
      const known = importers.get(file);
      if (known === undefined) importers.set(file, [path]);
      else known.push(path);
    }
  }
  return importers;
}

/** The files that load one of these, directly or through others, and these themselves. */
export function reachedFrom(files: readonly string[], importers: Graph): ReadonlySet<string> {
  const reached = new Set(files);
  // A set visits what is added to it meanwhile.
  for (const file of reached) {
    for (const importer of importers.get(file) ?? []) reached.add(importer);
  }
  return reached;
}

/** Whether a test is beside the code that it tests, and starts nothing that is whole. */
function isBesideCode(test: string): boolean {
  return !/^server\/(test|sim)\//.test(test);
}

/**
 * The files of the tests to run. `changed` is null where no difference is known: the core is then
 * the tests beside the code. `turn` is the number of commits, `seconds` what each file took once.
 */
export function chooseFiles(given: {
  readonly tests: readonly string[];
  readonly sources: readonly ReadFile[];
  readonly changed: readonly string[];
  readonly turn: number;
  readonly seconds: (test: string) => number;
}): Choice {
  const { tests, sources, changed, turn, seconds } = given;
  const part = turn % partsCount;
  const inTurn = partsOf(tests, seconds)[part] ?? [];
  const reasons: { why: string; files: string[] }[] = [];
  const chosen = new Set<string>();
  const choose = (why: string, files: readonly string[]): void => {
    const added = files.filter((file) => tests.includes(file) && !chosen.has(file));
    for (const file of added) chosen.add(file);
    if (added.length > 0) reasons.push({ why, files: added });
  };
  if (changed.length === 0) choose("beside the code (the core)", tests.filter(isBesideCode));
  choose("differ themselves", changed);
  if (changed.some((path) => foundation.test(path))) choose("what all rest on differs", tests);
  else choose("load what differs", loading(changed, sources));
  choose("named by the rules for what differs", namedByRules(tests, changed));
  choose("always run", always);
  choose(`part ${part + 1} of ${partsCount}, the next with each commit`, inTurn);
  return { files: tests.filter((file) => chosen.has(file)), reasons };
}

/** All tests in parts that take about as long: each gets some of the slow ones. */
export function partsOf(
  tests: readonly string[],
  seconds: (test: string) => number,
): readonly (readonly string[])[] {
  const parts = Array.from({ length: partsCount }, () => ({ sum: 0, files: [] as string[] }));
  const slowFirst = tests.toSorted(
    (one, other) => seconds(other) - seconds(one) || one.localeCompare(other),
  );
  for (const file of slowFirst) {
    const least = parts.reduce((one, other) => (other.sum < one.sum ? other : one));
    least.files.push(file);
    least.sum += seconds(file);
  }
  return parts.map(({ files }) => files);
}

/** The files that load a changed one, or one that reads or starts it. */
function loading(changed: readonly string[], sources: readonly ReadFile[]): string[] {
  const reading = changed.flatMap((path) => {
    const known = readers.filter((row) => row.changed.test(path)).map(({ reader }) => reader);
    const naming = sources.filter((source) => isNaming(source, path)).map((one) => one.path);
    return [...known, ...naming];
  });
  return [...reachedFrom([...changed, ...reading], importersOf(sources))];
}

/**
 * Whether a file names another by its path in the project, or by its own name at the end of a
 * string that is no import. For files that a rule is about, such as each example's `main.py`, the
 * name says nothing.
 */
function isNaming({ path, text, imports }: ReadFile, named: string): boolean {
  const name = posix.basename(named);
  if (path === named || !text.includes(name)) return false;
  if (text.includes(named)) return true;
  if (!/\.(tsx?|m?js)$/.test(named) && rules.some(({ changed }) => changed.test(named)))
    return false;
  const strings = [...text.matchAll(/["`]([^"`\n]*)["`]/g)].map(([, inner = ""]) => inner);
  return strings.some((inner) => {
    if (inner !== name && !inner.endsWith(`/${name}`)) return false;
    return !imports.some(({ specifier }) => specifier === inner);
  });
}

function namedByRules(tests: readonly string[], changed: readonly string[]): string[] {
  const matching = rules.filter((rule) => changed.some((path) => rule.changed.test(path)));
  return tests.filter((test) => {
    const name = /^server\/test\/(.*)\.test\.ts$/.exec(test)?.[1];
    return name !== undefined && matching.some((rule) => rule.tests.test(name));
  });
}
