// Formats values in refusals and warnings: short, on one line, never a secret. Used by all checks
// of settings.
import { Fault } from "#lib/fault.ts";
import { closestName } from "#lib/closest-name.ts";

/** The maximum number of characters of a value in a sentence. */
const shownMax = 80;

/**
 * A value for use in a sentence: as JSON, cut off after 80 characters. Of a long list only the
 * length is shown, and of an object nothing.
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
 * Removes the user and the query of a URL, which often contain keys. Refusals appear in logs and in
 * the audit log, where nothing can be deleted.
 */
function withoutKeys(text: string): string {
  const withoutUser = text.replace(/\/\/[^/?#]*@/g, "//[…]@");
  const scheme = withoutUser.indexOf("://");
  const query = scheme === -1 ? -1 : withoutUser.indexOf("?", scheme);
  return query === -1 ? withoutUser : `${withoutUser.slice(0, query)}?[…]`;
}

/**
 * A list as JSON if it has at most eight values, all of them plain, and the text is short; only the
 * length of any other list.
 */
function shownList(values: readonly unknown[]): string {
  if (values.length > 8 || values.some((value) => typeof value === "object" && value !== null)) {
    return `a list of ${values.length}`;
  }
  // Three values of the maximum length fit, or more that are shorter.
  const text = `[${values.map(shown).join(", ")}]`;
  return text.length > 3 * shownMax ? `a list of ${values.length}` : text;
}

/** The type of a body, for refusing it as a whole: its content may include secrets. */
export function kindOf(body: unknown): string {
  if (body === undefined) return "empty";
  if (body === null) return "null";
  return Array.isArray(body) ? "a list" : `a ${typeof body}`;
}

/** The refusal of a value: names the field, the given value and the allowed values. */
export function refused(refusal: {
  field: string;
  given: unknown;
  allowed: string;
  isSecret?: boolean;
}): Fault {
  const { field, given, allowed, isSecret } = refusal;
  const value = isSecret ? "not shown here" : shown(given);
  return new Fault("invalid", `${field} is ${value}, but must be ${allowed}.`);
}

/**
 * The end of a sentence about an unknown name: suggests the most similar known name, if there is
 * one.
 */
export function suggestion(unknownName: string, known: Iterable<string>): string {
  const closest = closestName(unknownName, known);
  return closest === undefined ? "" : `; did you mean ${closest}?`;
}
