// Runs all rules on the whole project. `npm run check` prints the findings; `tidy.test.ts` fails if
// there are any.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { generatedFiles } from "#rules.ts";
import { importFindings } from "./imports.ts";
import { glossaryFindings, nameFindings, readUnusedWords } from "./names.ts";
import { scriptFindings } from "./python.ts";
import { queryFindings } from "./queries.ts";
import { reachFindings } from "./reach.ts";
import { shapeFindings } from "./size.ts";
import { parseSources, type Finding } from "./source.ts";
import { testFindings } from "./test-names.ts";
import { declaredPackages, projectDir, readTree } from "./tree.ts";

/** All rule violations in the project, ordered by file. */
export function tidyFindings(): Finding[] {
  const sources = parseSources(readTree("{contract,server,cli,tools,dashboard}/**/*.{ts,tsx,mjs}"));
  const written = sources.filter(({ path }) => !generatedFiles.includes(path));
  const glossary = readFileSync(join(projectDir, "GLOSSARY.md"), "utf8");
  const findings = [
    ...nameFindings(written, readUnusedWords(glossary)),
    ...glossaryFindings(glossary),
    ...importFindings(sources, declaredPackages()),
    ...shapeFindings(written),
    ...reachFindings(written),
    ...queryFindings(written),
    ...testFindings(written),
    ...scriptFindings(readTree("{runtimes/python/**/*.py,server/src/store/migrations/*.sql}")),
  ];
  return findings.sort((a, b) => a.path.localeCompare(b.path) || (a.line ?? 0) - (b.line ?? 0));
}

/** `path:line  rule: what is wrong and how to fix it`. */
export function formatFinding({ path, line, rule, what }: Finding): string {
  return `${path}${line === undefined ? "" : `:${line}`}  ${rule}: ${what}`;
}
