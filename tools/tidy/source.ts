// Parses source files for the rules: a syntax tree by the TypeScript compiler, and the imports in
// it. Files are passed as text, so that tests can check a rule on a few lines that never were on
// disk.
import { API } from "typescript/unstable/sync";
import { createVirtualFileSystem } from "typescript/unstable/fs";
import { SyntaxKind, type Node, type SourceFile } from "typescript/unstable/ast";
import {
  isCallExpression,
  isExportDeclaration,
  isImportDeclaration,
  isStringLiteral,
  isVariableStatement,
} from "typescript/unstable/ast/is";

/** A violation of a rule: where, which rule, and how to fix it. */
export type Finding = {
  readonly path: string;
  readonly line?: number;
  readonly rule: string;
  readonly what: string;
};

/** One import, `export … from` or `import()` of a file. */
export type Import = {
  readonly specifier: string;
  readonly line: number;
  readonly isReexport: boolean;
  /** `import type`: nothing of the file runs because of it. */
  readonly isType: boolean;
};

/** One parsed TypeScript or JavaScript file; `path` is relative to the project, with slashes. */
export type Source = {
  readonly path: string;
  readonly text: string;
  readonly tree: SourceFile;
  readonly imports: readonly Import[];
};

/**
 * Parses files given as text by path. Syntax errors are not reported here, because the type check
 * does.
 */
export function parseSources(files: Readonly<Record<string, string>>): Source[] {
  const onDisk: Record<string, string> = {};
  for (const [path, text] of Object.entries(files)) onDisk[`/${path}`] = text;
  const compilerOptions = {
    noLib: true,
    types: [],
    noResolve: true,
    allowJs: true,
    allowImportingTsExtensions: true,
  };
  onDisk["/tsconfig.json"] = JSON.stringify({ compilerOptions, files: Object.keys(onDisk) });
  const api = new API({ cwd: "/", fs: createVirtualFileSystem(onDisk) });
  try {
    const project = api.updateSnapshot({ openProjects: ["/tsconfig.json"] }).getProjects()[0];
    return Object.entries(files).map(([path, text]) => {
      const tree = project?.program.getSourceFile(`/${path}`);
      if (tree === undefined) throw new Error(`${path} could not be parsed`);
      return { path, text, tree, imports: importsOf(tree) };
    });
  } finally {
    api.close();
  }
}

/** The line (from 1) on which a node's own text starts, without preceding comments. */
export function lineOf(tree: SourceFile, node: Node): number {
  return lineAt(tree.text, node.getStart(tree));
}

/** The line (from 1) of a position in a text. */
export function lineAt(text: string, position: number): number {
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < position; at = text.indexOf("\n", at + 1))
    line++;
  return line;
}

/** Calls `visit` for a node and all its descendants. */
export function walk(node: Node, visit: (node: Node) => void): void {
  visit(node);
  node.forEachChild((child) => walk(child, visit));
}

/** True for a statement that begins with `export`. */
export function isExported(statement: Node): boolean {
  const { modifiers } = statement as { modifiers?: readonly Node[] };
  return modifiers?.some((modifier) => modifier.kind === SyntaxKind.ExportKeyword) === true;
}

/** The name that an exported statement declares. */
export function exportName(statement: Node): string {
  if (isVariableStatement(statement))
    return statement.declarationList.declarations[0]?.name.getText() ?? "";
  const { name } = statement as { name?: Node };
  return name?.getText() ?? "default";
}

/** True for tests and test support files. */
export function isTest(path: string): boolean {
  return (
    path.endsWith(".test.ts") || path.startsWith("server/test/") || path.startsWith("server/sim/")
  );
}

function importsOf(tree: SourceFile): Import[] {
  const found: Import[] = [];
  walk(tree, (node) => {
    const specifier = specifierOf(node);
    if (specifier === undefined || !isStringLiteral(specifier)) return;
    found.push({
      specifier: specifier.text,
      line: lineOf(tree, node),
      isReexport: isExportDeclaration(node),
      isType: /^import type\b/.test(node.getText(tree)),
    });
  });
  return found;
}

function specifierOf(node: Node): Node | undefined {
  if (isImportDeclaration(node) || isExportDeclaration(node)) return node.moduleSpecifier;
  const isImportCall = isCallExpression(node) && node.expression.kind === SyntaxKind.ImportKeyword;
  return isImportCall ? node.arguments[0] : undefined;
}
