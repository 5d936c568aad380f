// Reads query parameters and JSON bodies by rows of the contract's tables, with the same wording for every refusal.
import { allowedText, fieldSchema, type Field } from "@slipway/contract/field.ts";
import { kindOf, refused, shown, suggestion } from "#apps/refusal.ts";
import { Fault } from "#lib/fault.ts";

type Fields = Readonly<Record<string, Field>>;
type Value = string | number | boolean | null;

/** The parameters of a query; `""` counts as absent, and absent ones get their default. Throws `Fault("invalid")`. */
export function readQuery(fields: Fields, query: Readonly<Record<string, unknown>>): Record<string, Value> {
  for (const name of Object.keys(query)) {
    if (!Object.hasOwn(fields, name)) throw unknown(name, "parameter", fields);
  }
  return readFields(fields, (name, field) => {
    const given = Object.hasOwn(query, name) ? query[name] : undefined;
    return given === "" ? undefined : fromText(field, given);
  });
}

/** The fields of a body; null counts as absent. Throws `Fault("malformed" | "invalid")`. */
export function readBody(
  shape: { readonly fields: Fields; readonly required: readonly string[] },
  body: unknown,
): Record<string, Value> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new Fault("malformed", `The body is ${kindOf(body)}, but must be a JSON object.`);
  }
  const given = new Map<string, unknown>(Object.entries(body).filter(([, value]) => value !== null));
  for (const name of given.keys()) {
    if (!Object.hasOwn(shape.fields, name)) throw unknown(name, "field", shape.fields);
  }
  for (const name of shape.required) {
    const field = shape.fields[name];
    if (field !== undefined && !given.has(name)) {
      throw new Fault("invalid", `${name} is missing; it must be ${allowedText(field)}.`);
    }
  }
  return readFields(shape.fields, (name) => given.get(name));
}

/**
 * A time whose syntax was validated; `name` is the parameter or field. Throws `Fault("invalid")` for a day that does not exist.
 */
export function readTime(name: string, given: unknown): Date {
  const at = new Date(String(given));
  const [year = 0, month = 0, day = 0] = String(given).split(/[-T]/i, 3).map(Number);
  // A day such as February 30 would silently become one in March.
  const hasDay = new Date(Date.UTC(year, month - 1, day)).getUTCDate() === day;
  if (!Number.isNaN(at.getTime()) && hasDay) return at;
  const form = "a valid time of the form 2026-01-31T12:00:00Z";
  throw new Fault("invalid", `${name} is ${shown(given)}, but must be ${form}.`);
}

function readFields(fields: Fields, read: (name: string, field: Field) => unknown): Record<string, Value> {
  const values: Record<string, Value> = {};
  for (const [name, field] of Object.entries(fields)) {
    const given = read(name, field);
    if (given !== undefined && !fieldSchema(field).safeParse(given).success) {
      throw refused({ field: name, given, allowed: allowedText(field), isSecret: "isSecret" in field });
    }
    // The schema is derived from the row, whose types here are text, number, boolean and choice.
    values[name] = (given ?? field.default) as Value;
  }
  return values;
}

/** Converts the text of a query to the type of its row; invalid text stays text and is refused. */
function fromText(field: Field, given: unknown): unknown {
  if (typeof given !== "string") return given;
  if (field.kind === "boolean" && (given === "true" || given === "false")) return given === "true";
  const isNumber = (field.kind === "integer" || field.kind === "number") && /^-?\d{1,15}(?:\.\d{1,15})?$/.test(given);
  return isNumber ? Number(given) : given;
}

function unknown(name: string, what: string, fields: Fields): Fault {
  const hint = suggestion(name, Object.keys(fields)) || `; allowed: ${Object.keys(fields).join(", ")}.`;
  return new Fault("invalid", `${shown(name)} is not a ${what} of this request${hint}`);
}
