// Rules about the shape of a file: its size and that of its functions, its name, its opening
// comment, a doc comment on every exported function, class, interface and value that means
// something alone, one variable a declaration, a body in each loop, and parameters by name.
import { posix } from "node:path";
import type { Node } from "typescript/unstable/ast";
import {
  isArrayBindingPattern,
  isArrayLiteralExpression,
  isArrowFunction,
  isAsExpression,
  isBinaryExpression,
  isBlock,
  isCallExpression,
  isConstructorDeclaration,
  isDoStatement,
  isEmptyStatement,
  isForInStatement,
  isForOfStatement,
  isForStatement,
  isFunctionDeclaration,
  isFunctionExpression,
  isIdentifier,
  isMethodDeclaration,
  isParameterDeclaration,
  isSpreadElement,
  isTypeAliasDeclaration,
  isVariableDeclaration,
  isVariableStatement,
  isWhileStatement,
} from "typescript/unstable/ast/is";
import { emptyNames, sizesMax } from "#rules.ts";
import {
  exportName,
  isExported,
  isTest,
  lineAt,
  lineOf,
  walk,
  type Finding,
  type Source,
} from "./source.ts";

const functionKinds = [
  isArrowFunction,
  isConstructorDeclaration,
  isFunctionDeclaration,
  isFunctionExpression,
  isMethodDeclaration,
];

const loopKinds = [
  isDoStatement,
  isForInStatement,
  isForOfStatement,
  isForStatement,
  isWhileStatement,
];

/** Every file or function that is too large, badly named or without its comment. */
export function shapeFindings(sources: readonly Source[]): Finding[] {
  return sources.flatMap((source) => [
    ...fileSize(source),
    ...functionSizes(source),
    ...fileName(source.path),
    ...opening(source),
    ...(isTest(source.path) ? [] : undocumentedExports(source)),
    ...leaningComments(source),
    ...squeezedCode(source),
    ...wideComments(source),
  ]);
}

/** The formatter breaks code, but no comments. Directives to other tools have one line. */
function wideComments({ path, text }: Source): Finding[] {
  return text.split("\n").flatMap((line, index) => {
    const isComment = /^ *(?:\/\/|\/\*\*|\*) (?!oxlint-disable|@ts-)/.test(line);
    if (!isComment || line.length <= sizesMax.columns) return [];
    const what = `a comment of ${line.length} columns, at most ${sizesMax.columns}`;
    return [{ path, line: index + 1, rule: "comment", what }];
  });
}

/** Comments that say only whose, not what: nobody can read them alone. */
function leaningComments({ path, text }: Source): Finding[] {
  const begins = /(?:\/\*\*\s+(?:\* )?|(?<!^ *\/\/.*\n)^ *\/\/ )(Of|Those|Its) /gm;
  return Array.from(text.matchAll(begins), ({ index, 1: word }) => ({
    path,
    line: lineAt(text, index),
    rule: "comment",
    what: `begins with "${word}" and means nothing alone; say what it is or does`,
  }));
}

type Pattern = {
  readonly rule: string;
  readonly isIn: (node: Node) => boolean;
  readonly what: string;
};

/** Code that is squeezed, by the kinds of its nodes. */
const squeezed: readonly Pattern[] = [
  {
    rule: "pairs",
    isIn: (node) => valuesPairedIn(node)?.every((value) => !isSpreadElement(value)) === true,
    what: "gives several variables their values in one statement; write one statement for each",
  },
  {
    rule: "loops",
    isIn: isEmptyLoop,
    what: "a loop without a body; move its work from the condition into it",
  },
  {
    rule: "parameters",
    isIn: isListOfParameters,
    what: "takes its parameters from one list; declare each by its name",
  },
];

function squeezedCode({ path, tree }: Source): Finding[] {
  const findings: Finding[] = [];
  walk(tree, (node) => {
    for (const { rule, isIn, what } of squeezed)
      if (isIn(node)) findings.push({ path, line: lineOf(tree, node), rule, what });
  });
  return findings;
}

/** All of its work is in the condition. */
function isEmptyLoop(node: Node): boolean {
  if (!loopKinds.some((is) => is(node))) return false;
  const { statement } = node as Node & { readonly statement: Node };
  return isEmptyStatement(statement) || (isBlock(statement) && statement.statements.length === 0);
}

/** Taken apart from one list, so that none has a type of its own. */
function isListOfParameters(node: Node): boolean {
  return (
    isParameterDeclaration(node) &&
    node.dotDotDotToken !== undefined &&
    isArrayBindingPattern(node.name)
  );
}

/** Values that are put into an array only to give several variables theirs in one statement. */
function valuesPairedIn(node: Node): readonly Node[] | null {
  if (isVariableDeclaration(node)) {
    const { name, initializer } = node;
    if (!isArrayBindingPattern(name) || initializer === undefined) return null;
    let value: Node = initializer;
    while (isAsExpression(value)) value = value.expression;
    return isArrayLiteralExpression(value) ? value.elements : null;
  }
  if (!isBinaryExpression(node) || !isArrayLiteralExpression(node.left)) return null;
  return isArrayLiteralExpression(node.right) ? node.right.elements : null;
}

function fileSize({ path, text }: Source): Finding[] {
  const lines = text.trimEnd().split("\n").length;
  if (lines <= sizesMax.fileLines) return [];
  return [
    {
      path,
      rule: "size",
      what: `has ${lines} lines, at most ${sizesMax.fileLines}; give one of its parts a file`,
    },
  ];
}

function functionSizes({ path, tree }: Source): Finding[] {
  const findings: Finding[] = [];
  walk(tree, (node) => {
    if (!functionKinds.some((is) => is(node)) || isGroupOfTests(node)) return;
    const first = lineOf(tree, node);
    const lines = lineAt(tree.text, node.end) - first + 1;
    if (lines <= sizesMax.functionLines) return;
    const what = `a function of ${lines} lines, at most ${sizesMax.functionLines}; take steps out of it and name them`;
    findings.push({ path, line: first, rule: "size", what });
  });
  return findings;
}

/** The callback of `describe`: a list of tests, not logic. */
function isGroupOfTests(node: Node): boolean {
  const call = node.parent;
  if (!isCallExpression(call) || !isIdentifier(call.expression)) return false;
  return call.expression.text === "describe" || call.expression.text === "suite";
}

function fileName(path: string): Finding[] {
  const name = posix.basename(path).replace(/(\.test|\.d)?\.(tsx?|mjs)$/, "");
  if (emptyNames.includes(name)) {
    return [
      {
        path,
        rule: "names",
        what: `"${name}" says nothing about what is inside; name the thing or the act`,
      },
    ];
  }
  if (/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name)) return [];
  return [{ path, rule: "names", what: `"${name}" must be lower case with hyphens` }];
}

function opening({ path, text }: Source): Finding[] {
  const first = text.replace(/^#!.*\n/, "").slice(0, 200);
  if (/^(\/\/ |\/\*\*? )\S.{20}/.test(first)) return [];
  return [
    {
      path,
      line: 1,
      rule: "opening",
      what: "must open with a comment: what it is for, who calls it, what it promises",
    },
  ];
}

function undocumentedExports({ path, tree }: Source): Finding[] {
  const findings: Finding[] = [];
  for (const statement of tree.statements) {
    if (
      isSelfExplanatory(path, statement) ||
      !isExported(statement) ||
      hasDocComment(statement, tree.text)
    )
      continue;
    const what = `export ${exportName(statement)} needs a doc comment: /** what it promises, units, errors */`;
    findings.push({ path, line: lineOf(tree, statement), rule: "docs", what });
  }
  return findings;
}

/** Types and shapes of the contract are self-explanatory; their fields have their own comments. */
function isSelfExplanatory(path: string, statement: Node): boolean {
  return (
    isTypeAliasDeclaration(statement) ||
    (path.startsWith("contract/") && isVariableStatement(statement))
  );
}

function hasDocComment(statement: Node, text: string): boolean {
  return /\/\*\*[\s\S]*\*\/\s*$/.test(text.slice(statement.pos, statement.getStart()));
}
