// Rules about tests: a name is a promise in words, unique in its file; no test is skipped silently,
// none runs alone (`only`).
import type { Node } from "typescript/unstable/ast";
import {
  isCallExpression,
  isObjectLiteralExpression,
  isPropertyAssignment,
  isStringLiteral,
} from "typescript/unstable/ast/is";
import { lineOf, walk, type Finding, type Source } from "./source.ts";

/** The calls that declare a test. */
const testCalls = /^(test|it)(\.only|\.skip|\.todo)?$/;

/** Every test whose name is not a promise, and every test file without tests. */
export function testFindings(sources: readonly Source[]): Finding[] {
  return sources.filter(({ path }) => path.endsWith(".test.ts")).flatMap(findingsIn);
}

function findingsIn({ path, tree, imports }: Source): Finding[] {
  const findings: Finding[] = [];
  const names = new Set<string>();
  let count = 0;
  walk(tree, (node) => {
    if (!isCallExpression(node) || !testCalls.test(node.expression.getText(tree))) return;
    count++;
    const [first, ...rest] = node.arguments;
    const name = first !== undefined && isStringLiteral(first) ? first.text : null;
    const what = complaint(node.expression.getText(tree), name, names) ?? silentSkip(rest);
    if (what !== null) findings.push({ path, line: lineOf(tree, node), rule: "tests", what });
    if (name !== null) names.add(name);
  });
  // A conformance suite declares the tests of each file that calls it.
  const isSuiteCaller = imports.some(({ specifier }) => specifier.endsWith("/conformance.ts"));
  if (count === 0 && !isSuiteCaller) findings.push({ path, rule: "tests", what: "holds no test" });
  return findings;
}

function complaint(called: string, name: string | null, names: ReadonlySet<string>): string | null {
  if (/\.(only|skip|todo)$/.test(called))
    return `${called} must not be committed; a skip is { skip: "the reason" }`;
  if (name === null) return null;
  if (names.has(name)) return `two tests of this file are called "${name}"`;
  if (/^(should|test|works)\b/i.test(name) || name.trim().split(/\s+/).length < 3) {
    return `"${name}" is no promise; say in words what holds, as in "a full line refuses the next call"`;
  }
  return null;
}

function silentSkip(options: readonly Node[]): string | null {
  const given = options.find(isObjectLiteralExpression);
  const skip = given?.properties.find(
    (one) => isPropertyAssignment(one) && one.name.getText() === "skip",
  );
  if (skip === undefined || !isPropertyAssignment(skip) || skip.initializer.getText() !== "true")
    return null;
  return `skip: true hides a test; write skip: "the reason"`;
}
