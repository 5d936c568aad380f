// Rules about imports: the direction between areas, the form of specifiers, the packages that a
// workspace may use, no re-exports, no cycles (including types).
import { builtinModules } from "node:module";
import { posix } from "node:path";
import { importTable, packageOwners, type Area } from "#rules.ts";
import { isTest, type Finding, type Import, type Source } from "./source.ts";

/**
 * The packages that each workspace (contract, server, cli, tools) declares; `tests` may use both
 * lists.
 */
export type Declared = Readonly<
  Record<string, { readonly source: readonly string[]; readonly tests: readonly string[] }>
>;

/**
 * The target of a specifier: a file of the project, a package, or an error that says how to write
 * it.
 */
type Target =
  | { readonly file: string }
  | { readonly package: string }
  | { readonly mistake: string }
  | null;

/** Every import that violates a rule. */
export function importFindings(sources: readonly Source[], declared: Declared): Finding[] {
  const findings: Finding[] = [];
  for (const source of sources) {
    for (const one of source.imports) {
      const what = checkImport(source.path, one, declared);
      if (what !== null)
        findings.push({ path: source.path, line: one.line, rule: "imports", what });
    }
  }
  return [...findings, ...cycleFindings(sources)];
}

/** The file of the project that an import refers to; null: a package, or an error. */
export function importedFile(path: string, specifier: string): string | null {
  const target = resolveSpecifier(path, specifier);
  return target !== null && "file" in target ? target.file : null;
}

/** The area of a file of the server or the contract; null for files that may import everything. */
export function areaOf(path: string): Area | null {
  if (path.startsWith("contract/src/")) return "contract";
  const area = /^server\/src\/([^/]+)\//.exec(path)?.[1];
  return area !== undefined && Object.hasOwn(importTable, area) ? (area as Area) : null;
}

function checkImport(path: string, one: Import, declared: Declared): string | null {
  if (one.isReexport) return `"${one.specifier}" is exported again; import it where it is defined`;
  const target = resolveSpecifier(path, one.specifier);
  if (target === null) return null;
  if ("mistake" in target) return target.mistake;
  if ("package" in target) return checkPackage(path, target.package, declared);
  return checkDirection(path, target.file);
}

function checkDirection(path: string, target: string): string | null {
  if (isTest(path) || path.startsWith("tools/")) return null;
  if (isTest(target)) return `${target} is for tests only`;
  const from = areaOf(path);
  const to = areaOf(target);
  if (from === null || from === to) return null;
  const allowed: readonly string[] = importTable[from];
  if (to === null)
    return `${from} may not import ${target}; let platform.ts hand over what it needs`;
  if (allowed.includes(to)) return null;
  return `${from} may import ${allowed.join(", ") || "nothing"}, not ${to}; declare an interface in ${from} and let platform.ts connect it`;
}

function checkPackage(path: string, name: string, declared: Declared): string | null {
  const workspace = path.split("/")[0] ?? "";
  const lists = declared[workspace];
  const usable =
    isTest(path) || workspace === "tools" || path.startsWith("dashboard/build/")
      ? lists?.tests
      : lists?.source;
  if (usable?.includes(name) !== true)
    return `${name} is not among the dependencies in ${workspace}/package.json`;
  const owners = packageOwners[name];
  const area = areaOf(path);
  if (owners === undefined || area === null || owners.includes(area) || isTest(path)) return null;
  return `only ${owners.join(" and ")} uses the package ${name}; ask that area instead`;
}

function resolveSpecifier(path: string, specifier: string): Target {
  if (specifier.startsWith("node:")) return null;
  if (builtinModules.includes(specifier)) return { mistake: `write node:${specifier}` };
  if (specifier.startsWith("./")) return { file: posix.join(posix.dirname(path), specifier) };
  if (specifier.startsWith("../")) return relativeMistake(path, specifier);
  if (specifier.startsWith("#")) return resolveHash(path, specifier.slice(1));
  const own = /^@slipway\/(\w+)\/(.+)$/.exec(specifier);
  if (own?.[1] === "client") return { file: `client/src/${own[2]}` };
  if (own?.[1] === "contract") return { file: `contract/src/${own[2]}` };
  if (own?.[1] === "server") return resolveServer(path, own[2] ?? "");
  if (own?.[1] === "cli" && (isTest(path) || path.startsWith("tools/")))
    return { file: `cli/${own[2]}` };
  const parts = specifier.split("/");
  return { package: specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? "") };
}

function relativeMistake(path: string, specifier: string): Target {
  const file = posix.join(posix.dirname(path), specifier);
  const short = file
    .replace(/^(server\/src|tools|dashboard\/src)\//, "")
    .replace(/^server\/test\//, "test/");
  return { mistake: `"${specifier}" leads upward; write "#${short}"` };
}

function resolveHash(path: string, rest: string): Target {
  const own = /^(?:tools|dashboard\/src)\//.exec(path)?.[0];
  const file =
    own !== undefined ? `${own}${rest}` : `server/${rest.startsWith("test/") ? "" : "src/"}${rest}`;
  const beside = `${posix.dirname(path)}/`;
  // From the parent folder of all areas, # is required.
  if (!file.startsWith(beside) || beside === "server/src/" || beside === own || isTest(file))
    return { file };
  return {
    mistake: `"#${rest}" is below this file's own folder; write "./${file.slice(beside.length)}"`,
  };
}

function resolveServer(path: string, rest: string): Target {
  if (path.startsWith("tools/") || path.startsWith("cli/")) return { file: `server/${rest}` };
  return {
    mistake: `"@slipway/server/${rest}" is for tools and cli; write "#${rest.replace(/^src\//, "")}"`,
  };
}

/** One finding for each import cycle. */
function cycleFindings(sources: readonly Source[]): Finding[] {
  const edges = new Map<string, string[]>();
  for (const source of sources) {
    const targets = source.imports.map((one) => resolveSpecifier(source.path, one.specifier));
    edges.set(
      source.path,
      targets.flatMap((target) => (target !== null && "file" in target ? [target.file] : [])),
    );
  }
  const findings: Finding[] = [];
  const done = new Set<string>();
  for (const path of edges.keys()) {
    const circle = findCircle(path, edges, done, []);
    if (circle === null) continue;
    const what = `files import each other in a circle: ${circle.join(" → ")}; let the lower one declare what it needs`;
    findings.push({ path: circle[0] ?? path, rule: "cycles", what });
  }
  return findings;
}

/**
 * The first cycle found by depth-first search from `path`; files in `done` are known to lead to no
 * new one.
 */
function findCircle(
  path: string,
  edges: ReadonlyMap<string, string[]>,
  done: Set<string>,
  trail: string[],
): string[] | null {
  const again = trail.indexOf(path);
  if (again !== -1) return [...trail.slice(again), path];
  if (done.has(path)) return null;
  let circle: string[] | null = null;
  for (const next of edges.get(path) ?? [])
    circle ??= findCircle(next, edges, done, [...trail, path]);
  done.add(path);
  return circle;
}
