// Reads requests of older clients of the published interface: leaves out what they repeat, as the
// contract's table `older-clients` says. What contradicts the rest of the request is refused, never
// ignored.
import { repeatedProject } from "@slipway/contract/older-clients.ts";
import { refused } from "#apps/refusal.ts";
import type { Log } from "#lib/log.ts";

type Values = Readonly<Record<string, unknown>>;

export type RepeatedParts = {
  /** The project in the path. */
  readonly projectId: string | undefined;
  /** The names that the document has; others may be repetitions. */
  readonly known: Values;
};

/**
 * The query without repetitions. Throws `Fault("invalid")` for a value that differs from what it
 * repeats.
 */
export function queryOnce(
  query: Values,
  { projectId, known, body }: RepeatedParts & { readonly body: unknown },
): { readonly query: Values; readonly ignored: readonly string[] } {
  const once: Record<string, unknown> = {};
  const ignored: string[] = [];
  for (const [name, given] of Object.entries(query)) {
    const value = isList(known[name]) ? given : sameValue(name, given);
    const expected = Object.hasOwn(known, name) ? undefined : repeatedValue(name, projectId, body);
    if (expected === undefined) {
      once[name] = value;
    } else if (value === expected) {
      ignored.push(name);
    } else {
      const allowed = `${expected}, as in the ${name === repeatedProject ? "path" : "body"}`;
      throw refused({ field: `${name} in the query`, given: value, allowed });
    }
  }
  return { query: once, ignored };
}

/**
 * The body without the project's id, where the document has no such field. Throws
 * `Fault("invalid")` for another project's.
 */
export function bodyOnce(body: unknown, { projectId, known }: RepeatedParts): unknown {
  const isRepeated = projectId !== undefined && !Object.hasOwn(known, repeatedProject);
  if (!isRepeated || !isMap(body) || !Object.hasOwn(body, repeatedProject)) return body;
  const { [repeatedProject]: given, ...rest } = body;
  if (given === projectId) return rest;
  throw refused({ field: repeatedProject, given, allowed: `${projectId}, as in the path` });
}

/** Notes ignored names in the platform's log, once for each route and name. */
export class IgnoredNames {
  readonly #log: Log;
  readonly #noted = new Set<string>();

  constructor(log: Log) {
    this.#log = log;
  }

  note(path: string, names: readonly string[]): void {
    for (const name of names) {
      const key = `${path} ${name}`;
      // The names are of a table or of a body that the document knows, so there are few.
      if (this.#noted.has(key)) continue;
      this.#noted.add(key);
      this.#log.info({ path, name }, "a client repeats a value, which is ignored");
    }
  }
}

/** What a parameter that the document does not have repeats; undefined: nothing. */
function repeatedValue(
  name: string,
  projectId: string | undefined,
  body: unknown,
): string | undefined {
  if (name === repeatedProject) return projectId;
  if (!isMap(body) || !Object.hasOwn(body, name)) return undefined;
  const value = body[name];
  const isSimple =
    typeof value === "string" || typeof value === "number" || typeof value === "boolean";
  return isSimple ? String(value) : undefined;
}

/** A parameter that may come several times. */
function isList(field: unknown): boolean {
  return isMap(field) && field["kind"] === "list";
}

function sameValue(name: string, value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  const [first, ...others] = value as unknown[];
  const other = others.find((one) => one !== first);
  if (other === undefined) return first;
  throw refused({
    field: name,
    given: other,
    allowed: `${String(first)}, which it also is in this query`,
  });
}

function isMap(body: unknown): body is Record<string, unknown> {
  return typeof body === "object" && body !== null && !Array.isArray(body);
}
