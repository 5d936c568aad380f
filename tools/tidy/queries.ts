// The rule about where queries are: a reader finds all that reads and writes a table by the names
// of files.
import { isCallExpression, isPropertyAccessExpression } from "typescript/unstable/ast/is";
import { isTest, lineOf, walk, type Finding, type Source } from "./source.ts";

/** What begins a query of Kysely. */
const beginnings = new Set(["selectFrom", "insertInto", "updateTable", "deleteFrom", "mergeInto"]);

/**
 * Queries built with Kysely outside of `*-store.ts` and of the area `store`. SQL that is written as
 * text is not seen.
 */
export function queryFindings(sources: readonly Source[]): Finding[] {
  const findings: Finding[] = [];
  for (const { path, tree } of sources) {
    if (!path.startsWith("server/src/") || isTest(path)) continue;
    if (path.endsWith("-store.ts") || path.startsWith("server/src/store/")) continue;
    walk(tree, (node) => {
      if (!isCallExpression(node) || !isPropertyAccessExpression(node.expression)) return;
      const { text } = node.expression.name;
      if (!beginnings.has(text)) return;
      const what = `${text} begins a query; make it a function of a *-store.ts of the area`;
      findings.push({ path, line: lineOf(tree, node), rule: "queries", what });
    });
  }
  return findings;
}
