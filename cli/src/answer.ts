// Parses answers of the platform. A field that is missing or has the wrong type is an error.
// Unknown fields are ignored, so that this version can talk to a newer platform.
import { Refused } from "./refused.ts";

/** A JSON object of an answer. */
export type Fields = Readonly<Record<string, unknown>>;

/** The answer as an object. Throws `Refused` if it is not one. */
export function fieldsOf(answer: unknown): Fields {
  if (typeof answer === "object" && answer !== null && !Array.isArray(answer))
    return answer as Fields;
  throw odd("it is not a JSON object");
}

/** The answer as a list of objects. */
export function listOf(answer: unknown): Fields[] {
  if (!Array.isArray(answer)) throw odd("it is not a list");
  return answer.map(fieldsOf);
}

/** A required text field. */
export function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string") return value;
  throw odd(`its field ${name} is not a string`);
}

/** An optional text field; null when it is absent or null. */
export function textOrNull(fields: Fields, name: string): string | null {
  return fields[name] === undefined || fields[name] === null ? null : textOf(fields, name);
}

function odd(what: string): Refused {
  return new Refused(
    `Unexpected response from the platform: ${what}. Is this a Slipway platform with a similar version?`,
  );
}
