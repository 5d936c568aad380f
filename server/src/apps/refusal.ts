// Formats values in refusals and warnings: short, on one line, never a secret. Used by all checks
// of settings.
import { Fault } from "#lib/fault.ts";
import { closestName } from "#lib/closest-name.ts";

const shownMax = 80;

/**
 * A value for use in a sentence: JSON, truncated to 80 characters; lists and objects only when they
 * are small.
 */
export function shown(value: unknown): string {
  if (value === undefined) return "absent";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value instanceof Date) return "a date";
  if (Array.isArray(value)) return shownList(value);
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return typeof value === "boolean" ? String(value) : "null";
  const text = withoutKeys(value);
  return text.length > shownMax
    ? `${JSON.stringify(text.slice(0, shownMax))}…`
    : JSON.stringify(text);
}

/**
 * Removes the parts of a URL that often contain keys, its user and its query: refusals appear in
 * logs and in the audit log, where nothing can be deleted.
 */
function withoutKeys(text: string): string {
  const withoutUser = text.replace(/\/\/[^/?#]*@/g, "//[…]@");
  const scheme = withoutUser.indexOf("://");
  const query = scheme === -1 ? -1 : withoutUser.indexOf("?", scheme);
  return query === -1 ? withoutUser : `${withoutUser.slice(0, query)}?[…]`;
}

function shownList(values: readonly unknown[]): string {
  if (values.length > 8 || values.some((value) => typeof value === "object" && value !== null)) {
    return `a list of ${values.length}`;
  }
  const text = `[${values.map(shown).join(", ")}]`;
  return text.length > 3 * shownMax ? `a list of ${values.length}` : text;
}

/** The type of a body, for refusing it as a whole: its content may include secrets. */
export function kindOf(body: unknown): string {
  if (body === undefined) return "empty";
  if (body === null) return "null";
  return Array.isArray(body) ? "a list" : `a ${typeof body}`;
}

/** The refusal of a value: names the field, what was given and what is allowed. */
export function refused(what: {
  field: string;
  given: unknown;
  allowed: string;
  isSecret?: boolean;
}): Fault {
  const given = what.isSecret ? "not shown here" : shown(what.given);
  return new Fault("invalid", `${what.field} is ${given}, but must be ${what.allowed}.`);
}

/**
 * The end of a sentence about an unknown name: suggests the most similar known name, if there is
 * one.
 */
export function suggestion(given: string, known: Iterable<string>): string {
  const close = closestName(given, known);
  return close === undefined ? "" : `; did you mean ${close}?`;
}
