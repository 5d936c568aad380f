// How values are shown in refusals and warnings: short, on one line, never a secret. Used wherever settings are checked.
import { Fault } from "#lib/fault.ts";
import { closestName } from "#lib/closest-name.ts";

const shownMax = 80;

/** A given value, for a sentence about it: JSON, cut to 80 characters; lists and objects only when they are small. */
export function shown(value: unknown): string {
  if (value === undefined) return "absent";
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (value instanceof Date) return "a date";
  if (Array.isArray(value)) return shownList(value);
  if (typeof value === "object" && value !== null) return "an object";
  if (typeof value !== "string") return typeof value === "boolean" ? String(value) : "null";
  const text = withoutKeys(value);
  return text.length > shownMax ? `${JSON.stringify(text.slice(0, shownMax))}…` : JSON.stringify(text);
}

/**
 * A URL without what is often a key in it, its user and its query: refusals stand in logs and in the audit log, from which
 * nothing can be taken out.
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

/** What kind of thing a body is, for the refusal of a whole body: its content may hold secrets. */
export function kindOf(body: unknown): string {
  if (body === undefined) return "empty";
  if (body === null) return "null";
  return Array.isArray(body) ? "a list" : `a ${typeof body}`;
}

/** The refusal of a value: names the field, what was given and what is allowed. */
export function refused(what: { field: string; given: unknown; allowed: string; isSecret?: boolean }): Fault {
  const given = what.isSecret ? "not shown here" : shown(what.given);
  return new Fault("invalid", `${what.field} is ${given}, but must be ${what.allowed}.`);
}

/** The end of a sentence about an unknown name: the known one that was probably meant, if there is one. */
export function suggestion(given: string, known: Iterable<string>): string {
  const close = closestName(given, known);
  return close === undefined ? "" : `; did you mean ${close}?`;
}
