// Rules about direct access to what should be injected: the clock, timers, randomness, the
// environment. Each exception has its reason in `rules.ts`, and an exception that is no longer
// needed is a finding too.
import type { Node } from "typescript/unstable/ast";
import {
  isCallExpression,
  isIdentifier,
  isNewExpression,
  isPropertyAccessExpression,
} from "typescript/unstable/ast/is";
import { clockReaders, environmentReaders, type Exception } from "#rules.ts";
import { isTest, lineOf, walk, type Finding, type Source } from "./source.ts";

/**
 * Calls that read the time or set a timer. AbortSignal.timeout is not among them: it bounds a wait
 * for something outside, which a moved clock would not speed up.
 */
const clockCalls = new Set([
  "Date.now",
  "performance.now",
  "process.hrtime",
  "process.hrtime.bigint",
  "process.uptime",
  "setTimeout",
  "setInterval",
  "globalThis.setTimeout",
  "globalThis.setInterval",
]);
/** In tests only waiting is forbidden, not deadlines and timestamps. */
const sleepCalls = new Set(["setTimeout", "setInterval"]);

/** The lists of exceptions; tests of the rule pass their own. */
export type Allowed = {
  readonly clock: readonly Exception[];
  readonly environment: readonly Exception[];
};

/** Every access to the clock or the environment by a file without an exception. */
export function reachFindings(
  sources: readonly Source[],
  allowed: Allowed = { clock: clockReaders, environment: environmentReaders },
): Finding[] {
  const findings: Finding[] = [];
  const used = new Set<string>();
  for (const source of sources) {
    if (isTest(source.path)) findings.push(...sleepsIn(source));
    if (!isOnDuty(source.path)) continue;
    for (const use of usesIn(source)) {
      const exception = allowed[use.rule].find(
        ({ path }) => source.path === path || (path.endsWith("/") && source.path.startsWith(path)),
      );
      if (exception === undefined) findings.push({ ...use, path: source.path });
      else used.add(`${use.rule} ${exception.path}`);
    }
  }
  return [...findings, ...idleExceptions(sources, allowed, used)];
}

/**
 * The server and its simulations get everything injected; tools, the command line and tests may
 * access it directly.
 */
function isOnDuty(path: string): boolean {
  return /^(server\/(src|sim)|contract\/src)\//.test(path) && !isTest(path);
}

type Use = { readonly rule: "clock" | "environment"; readonly line: number; readonly what: string };

function usesIn({ tree, imports }: Source): Use[] {
  const uses: Use[] = [];
  for (const { specifier, line } of imports) {
    if (specifier.startsWith("node:timers"))
      uses.push({ rule: "clock", line, what: `${specifier} ${clockAdvice}` });
  }
  walk(tree, (node) => {
    const clock = clockUse(node);
    if (clock !== null)
      uses.push({ rule: "clock", line: lineOf(tree, node), what: `${clock} ${clockAdvice}` });
    if (!isPropertyAccessExpression(node)) return;
    if (node.getText(tree) === "Math.random") {
      const what =
        "Math.random cannot be repeated; draw from a Clock of lib/clock.ts, or from node:crypto what nobody may guess";
      uses.push({ rule: "clock", line: lineOf(tree, node), what });
    }
    if (node.getText(tree) === "process.env") {
      const what = "process.env is read by config.ts only; let platform.ts hand over the setting";
      uses.push({ rule: "environment", line: lineOf(tree, node), what });
    }
  });
  return uses;
}

const clockAdvice = "reads the machine's clock; take a Clock of lib/clock.ts instead";

function clockUse(node: Node): string | null {
  if (
    isNewExpression(node) &&
    node.expression.getText() === "Date" &&
    (node.arguments?.length ?? 0) === 0
  )
    return "new Date()";
  if (!isCallExpression(node)) return null;
  const called = node.expression.getText();
  return clockCalls.has(called) ? called : null;
}

function sleepsIn({ path, tree, imports }: Source): Finding[] {
  if (path.startsWith("server/test/support/")) return [];
  const what = "a test must not sleep: wait for a condition with a deadline, or move the clock";
  const findings: Finding[] = [];
  for (const { specifier, line } of imports) {
    if (specifier === "node:timers/promises") findings.push({ path, line, rule: "sleep", what });
  }
  walk(tree, (node) => {
    if (
      !isCallExpression(node) ||
      !isIdentifier(node.expression) ||
      !sleepCalls.has(node.expression.text)
    )
      return;
    findings.push({ path, line: lineOf(tree, node), rule: "sleep", what });
  });
  return findings;
}

function idleExceptions(
  sources: readonly Source[],
  allowed: Allowed,
  used: ReadonlySet<string>,
): Finding[] {
  const findings: Finding[] = [];
  for (const rule of ["clock", "environment"] as const) {
    for (const { path } of allowed[rule]) {
      const isHere = sources.some((source) => source.path.startsWith(path));
      if (!isHere || used.has(`${rule} ${path}`)) continue;
      findings.push({
        path: "tools/rules.ts",
        rule,
        what: `the exception for ${path} is not needed any more; remove it`,
      });
    }
  }
  return findings;
}
