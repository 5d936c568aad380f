// The canonical text of a JSON value for hashing: equal values give equal bytes everywhere. It is
// PostgreSQL's text of a jsonb value, since the database computes the hashes;
// docs/guides/audit-log.md describes it.

/** Any JSON. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
/** An object with its members in any order. */
export type JsonObject = { readonly [name: string]: JsonValue };

/**
 * Object names are sorted by length in UTF-8 bytes, then by bytes; `, ` separates members and `: `
 * follows names, with no other white space; control characters in their short escapes or as
 * `\u001f`; numbers in full, without exponent.
 */
export function canonicalText(value: JsonValue): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "number") return plainDecimal(value);
  if (value === null || typeof value === "boolean") return String(value);
  if (isList(value)) return `[${value.map(canonicalText).join(", ")}]`;
  let text = "";
  for (const name of Object.keys(value).sort(compareNames)) {
    text += `${text === "" ? "" : ", "}${JSON.stringify(name)}: ${canonicalText(value[name] ?? null)}`;
  }
  return `{${text}}`;
}

/** `Array.isArray` does not narrow read-only arrays. */
function isList(value: JsonObject | readonly JsonValue[]): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** Orders names by length in UTF-8 bytes, then by bytes. */
export function compareNames(left: string, right: string): number {
  const length = Buffer.byteLength(left);
  const difference = length - Buffer.byteLength(right);
  if (difference !== 0) return difference;
  // As many bytes as code units: both names are ASCII.
  if (length === left.length && length === right.length)
    return left < right ? -1 : Number(left > right);
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

const exponentForm = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/;

/**
 * The shortest decimal that parses to this number, as JavaScript prints it, but never with an
 * exponent.
 */
function plainDecimal(value: number): string {
  // As in JSON, minus zero becomes zero.
  const text = JSON.stringify(value);
  const found = exponentForm.exec(text);
  if (found === null) return text;
  const [, sign = "", first = "", rest = "", exponent = ""] = found;
  const digits = first + rest;
  const places = Number(exponent);
  if (places < 0) return `${sign}0.${"0".repeat(-places - 1)}${digits}`;
  return `${sign}${digits.padEnd(places + 1, "0")}`;
}
