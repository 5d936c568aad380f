// Reads requests of older clients of the published interface, which send some values twice: leaves
// out the repetitions that the contract's file `older-clients.ts` allows. A value that contradicts
// the rest of the request is refused, never ignored.
import { repeatedProject } from "@slipway/contract/older-clients.ts";
import { refused } from "#apps/refusal.ts";
import { isObject } from "#lib/is-object.ts";
import type { Log } from "#lib/log.ts";

type Values = Readonly<Record<string, unknown>>;

export type RepeatedParts = {
  /** The project in the path. */
  readonly projectId: string | undefined;
  /** The fields of the query or the body that the route defines. Other names may be repetitions. */
  readonly known: Values;
};

/**
 * Returns the query without repetitions, and the names that it left out. Throws `Fault("invalid")`
 * when a repetition has another value.
 */
export function queryOnce(
  query: Values,
  { projectId, known, body }: RepeatedParts & { readonly body: unknown },
): { readonly query: Values; readonly ignored: readonly string[] } {
  const remaining: Record<string, unknown> = {};
  const ignored: string[] = [];
  for (const [name, values] of Object.entries(query)) {
    const value = isList(known[name]) ? values : singleValue(name, values);
    const expected = Object.hasOwn(known, name) ? undefined : repeatedValue(name, projectId, body);
    if (expected === undefined) {
      remaining[name] = value;
    } else if (value === expected) {
      ignored.push(name);
    } else {
      const source = name === repeatedProject ? "path" : "body";
      const allowed = `${expected}, as in the ${source}`;
      throw refused({ field: `${name} in the query`, given: value, allowed });
    }
  }
  return { query: remaining, ignored };
}

/**
 * Returns the body without the id of the project, unless the route defines such a field. Throws
 * `Fault("invalid")` for the id of another project.
 */
export function bodyOnce(body: unknown, { projectId, known }: RepeatedParts): unknown {
  const mayRepeat = projectId !== undefined && !Object.hasOwn(known, repeatedProject);
  if (!mayRepeat || !isObject(body) || !Object.hasOwn(body, repeatedProject)) return body;
  const { [repeatedProject]: bodyId, ...rest } = body;
  if (bodyId === projectId) return rest;
  throw refused({ field: repeatedProject, given: bodyId, allowed: `${projectId}, as in the path` });
}

/**
 * The maximum number of pairs of a route and a name that are written to the log. Older clients
 * repeat only a few names.
 */
const notedMax = 1_000;

/** Writes ignored names to the platform's log, once for each route and name. */
export class IgnoredNames {
  readonly #log: Log;
  readonly #noted = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  note(path: string, names: readonly string[]): void {
    for (const name of names) {
      const key = `${path} ${name}`;
      // A caller may make names up, so the number of noted names is limited.
      if (this.#noted.has(key) || this.#noted.size === notedMax) continue;
      this.#noted.add(key);
      this.#log.info({ path, name }, "a client repeats a value, which is ignored");
    }
  }
}

/**
 * The value that a parameter repeats which the route does not define; undefined: it repeats none.
 */
function repeatedValue(
  name: string,
  projectId: string | undefined,
  body: unknown,
): string | undefined {
  if (name === repeatedProject) return projectId;
  if (!isObject(body) || !Object.hasOwn(body, name)) return undefined;
  const value = body[name];
  const isSimple =
    typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  return isSimple ? String(value) : undefined;
}

/** Whether a parameter may be sent several times. */
function isList(field: unknown): boolean {
  return isObject(field) && field["kind"] === "list";
}

/** The value of a parameter that was sent once, or several times with the same value. */
function singleValue(name: string, values: unknown): unknown {
  if (!Array.isArray(values)) return values;
  const [first, ...others] = values as unknown[];
  const different = others.find((other) => other !== first);
  if (different === undefined) return first;
  throw refused({
    field: name,
    given: different,
    allowed: `${String(first)}, since the query also says so`,
  });
}
