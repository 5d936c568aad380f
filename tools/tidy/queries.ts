// The rule about where queries are: a reader finds all that reads and writes a table by the names
// of files. Each exception has its reason in `rules.ts`, and an exception that is no longer needed
// is a finding too.
import { SyntaxKind, type ImportDeclaration, type Node } from "typescript/unstable/ast";
import {
  isCallExpression,
  isImportDeclaration,
  isNamedImports,
  isNoSubstitutionTemplateLiteral,
  isPropertyAccessExpression,
  isStringLiteral,
  isTemplateExpression,
} from "typescript/unstable/ast/is";
import { queryWriters, type Exception } from "#rules.ts";
import { isTest, lineOf, walk, type Finding, type Source } from "./source.ts";

/** What begins a query of Kysely. */
const beginnings = new Set(["selectFrom", "insertInto", "updateTable", "deleteFrom", "mergeInto"]);

/** What makes a query, or a part of one, from a text. */
const ofText = new Set(["sql", "readRows", "readRow", "changeRows", "changeOne"]);

/** How texts begin that are SQL. English sentences that begin with these words have capitals. */
const statements = [
  /^\s*select\s+(from|distinct|\*|\d|[\w.]+\()/,
  /^\s*select\s+[\w.]+(\s+as\s+\w+|::\w+)*(\s*,[^]*)?\s+from\s/,
  /^\s*(insert|merge)\s+into\s/,
  /^\s*update\s+\S+(\s+as\s+\w+)?\s+set\s/,
  /^\s*delete\s+from\s/,
  /^\s*with\s+(recursive\s+)?\w+(\s*\([^)]*\))?\s+as\s+((not\s+)?materialized\s+)?\(/,
  /^\s*(create|alter|drop|lock|truncate)\s+table\s/,
  /\sfor\s+(no\s+key\s+)?(update|share)(\s+of\s+\w+)?\s+(skip\s+locked|nowait)/,
];

/**
 * Queries outside of `*-store.ts`, without an exception: begun with Kysely, made with one of
 * `ofText`, or a text that reads as a statement. Tests may have them anywhere.
 */
export function queryFindings(
  sources: readonly Source[],
  exceptions: readonly Exception[] = queryWriters,
): Finding[] {
  const findings: Finding[] = [];
  const used = new Set<string>();
  for (const source of sources) {
    const { path } = source;
    if (!path.startsWith("server/src/") || path.endsWith("-store.ts") || isTest(path)) continue;
    const found = queriesIn(source);
    if (exceptions.every((exception) => exception.path !== path)) findings.push(...found);
    else if (found.length > 0) used.add(path);
  }
  return [...findings, ...idleExceptions(sources, exceptions, used)];
}

function queriesIn({ path, tree }: Source): Finding[] {
  const findings: Finding[] = [];
  walk(tree, (node) => {
    const query = queryOf(node);
    if (query === null) return;
    const what = `${query}; make it a function of a *-store.ts of the area`;
    findings.push({ path, line: lineOf(tree, node), rule: "queries", what });
  });
  return findings;
}

/** How the node is a query, or the import of what makes one; null: it is neither. */
function queryOf(node: Node): string | null {
  if (isImportDeclaration(node)) {
    const name = importOfText(node);
    return name === null ? null : `${name} makes a query from a text`;
  }
  if (isCallExpression(node) && isPropertyAccessExpression(node.expression)) {
    const { text } = node.expression.name;
    return beginnings.has(text) ? `${text} begins a query` : null;
  }
  const text = textOf(node);
  return text !== null && isStatement(text) ? "this text is a query" : null;
}

/** What the file imports of `ofText`, or a whole module that has some of it; null: nothing. */
function importOfText({ moduleSpecifier, importClause }: ImportDeclaration): string | null {
  if (!isStringLiteral(moduleSpecifier)) return null;
  const { text: module } = moduleSpecifier;
  if (module !== "kysely" && !module.endsWith("/database.ts")) return null;
  if (importClause?.phaseModifier === SyntaxKind.TypeKeyword) return null;
  const bindings = importClause?.namedBindings;
  if (bindings === undefined || !isNamedImports(bindings)) return module;
  const names = bindings.elements
    .filter((element) => !element.isTypeOnly)
    .map((element) => (element.propertyName ?? element.name).text);
  return names.find((name) => ofText.has(name)) ?? null;
}

/** The text of a literal, with `x` for each inserted value; null: the node is no such literal. */
function textOf(node: Node): string | null {
  if (isStringLiteral(node) || isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (!isTemplateExpression(node)) return null;
  return node.head.text + node.templateSpans.map(({ literal }) => `x${literal.text}`).join("");
}

/** True when the text reads as SQL whose keywords are all in small or all in capital letters. */
function isStatement(text: string): boolean {
  const isInCapitals = /^\s*[A-Z]{2}/.test(text);
  const written = isInCapitals ? text.toLowerCase() : text;
  return statements.some((statement) => statement.test(written));
}

function idleExceptions(
  sources: readonly Source[],
  exceptions: readonly Exception[],
  used: ReadonlySet<string>,
): Finding[] {
  return exceptions
    .filter(({ path }) => sources.some((source) => source.path === path) && !used.has(path))
    .map(({ path }) => ({
      path: "tools/rules.ts",
      rule: "queries",
      what: `the exception for ${path} is not needed any more; remove it`,
    }));
}
