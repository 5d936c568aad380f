// The one text that a JSON value has when it is hashed, so that everybody gets the same bytes from the same value. It is
// the text that PostgreSQL gives a jsonb value, since the database makes the hashes; docs/guides/audit-log.md describes it.

/** Any JSON. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
/** Its members in any order. */
export type JsonObject = { readonly [name: string]: JsonValue };

/**
 * The names of an object by length in UTF-8 bytes, then by bytes; `, ` between members and `: ` after names, no other
 * white space; control characters in their short escapes or as `\u001f`; numbers in full, without exponent.
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

/** The order of names: by length in UTF-8 bytes, then by bytes. */
export function compareNames(left: string, right: string): number {
  const length = Buffer.byteLength(left);
  const difference = length - Buffer.byteLength(right);
  if (difference !== 0) return difference;
  // As many bytes as units: all of them are ASCII.
  if (length === left.length && length === right.length) return left < right ? -1 : Number(left > right);
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

const exponentForm = /^(-?)(\d)(?:\.(\d+))?e([+-]\d+)$/;

/** The shortest decimal that reads as this number, as JavaScript prints it, but never with an exponent. */
function plainDecimal(value: number): string {
  // As JSON: minus zero is zero.
  const text = JSON.stringify(value);
  const found = exponentForm.exec(text);
  if (found === null) return text;
  const [, sign = "", first = "", rest = "", exponent = ""] = found;
  const digits = first + rest;
  const places = Number(exponent);
  if (places < 0) return `${sign}0.${"0".repeat(-places - 1)}${digits}`;
  return `${sign}${digits.padEnd(places + 1, "0")}`;
}
