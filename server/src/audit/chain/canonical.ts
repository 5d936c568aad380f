// The canonical text of a JSON value for hashing: equal values give equal bytes everywhere. It is
// PostgreSQL's text of a jsonb value, since the database computes the hashes;
// docs/guides/audit-log.md describes it.

/** Any value that JSON can express. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
/** An object with its members in any order. */
export type JsonObject = { readonly [name: string]: JsonValue };

/**
 * Writes a value as canonical text. Names of an object are sorted by length in UTF-8 bytes, then by
 * bytes; `, ` separates members and `: ` follows names, with no other white space. Control
 * characters are written as their short escapes or like `\u001f`, numbers in full, without
 * exponent.
 */
export function canonicalText(value: JsonValue): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return plainDecimal(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (isList(value)) return `[${value.map(canonicalText).join(", ")}]`;
  const names = Object.keys(value).sort(compareNames);
  const members = names.map((name) => {
    const text = canonicalText(value[name] ?? null);
    return `${JSON.stringify(name)}: ${text}`;
  });
  return `{${members.join(", ")}}`;
}

/** Narrows the type also for read-only arrays, which `Array.isArray` does not. */
function isList(value: JsonObject | readonly JsonValue[]): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** Orders names by length in UTF-8 bytes, then by bytes. */
export function compareNames(left: string, right: string): number {
  const bytes = Buffer.byteLength(left);
  const difference = bytes - Buffer.byteLength(right);
  if (difference !== 0) return difference;
  const areAscii = bytes === left.length && bytes === right.length;
  // For ASCII the order of texts is the order of bytes; `Number` gives 1, or 0 for equal names.
  if (areAscii) return left < right ? -1 : Number(left > right);
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

/** A number with an exponent as JavaScript writes it: sign, first digit, other digits, exponent. */
const exponentForm = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/;

/**
 * The shortest decimal that parses to this number, as JavaScript prints it, but never with an
 * exponent.
 */
function plainDecimal(value: number): string {
  // As in JSON, minus zero becomes zero.
  const text = JSON.stringify(value);
  const match = exponentForm.exec(text);
  if (match === null) return text;
  const [, sign = "", first = "", rest = "", exponent = ""] = match;
  const digits = first + rest;
  const power = Number(exponent);
  // The first digit is the decimal number `-power` after the point; zeros fill those before it.
  if (power < 0) return `${sign}0.${"0".repeat(-power - 1)}${digits}`;
  // JavaScript writes a positive exponent only from 10^21 on, and never more than 17 digits, so all
  // digits are before the point.
  return `${sign}${digits.padEnd(power + 1, "0")}`;
}
