// Reads answers of the platform: a field that is missing or of another kind is said, not guessed at. Fields that this
// version does not know are left alone, so that it can talk to a newer platform.
import { Refused } from "./refused.ts";

/** A JSON object of an answer. */
export type Fields = Readonly<Record<string, unknown>>;

/** The answer as an object. Throws `Refused` when it is none. */
export function fieldsOf(answer: unknown): Fields {
  if (typeof answer === "object" && answer !== null && !Array.isArray(answer)) return answer as Fields;
  throw odd("it is not a JSON object");
}

/** The answer as a list of objects. */
export function listOf(answer: unknown): Fields[] {
  if (!Array.isArray(answer)) throw odd("it is not a list");
  return answer.map(fieldsOf);
}

/** A field that must be a text. */
export function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === "string") return value;
  throw odd(`its field ${name} is not a string`);
}

/** A field that may be a text; null when it is absent or null. */
export function textOrNull(fields: Fields, name: string): string | null {
  return fields[name] === undefined || fields[name] === null ? null : textOf(fields, name);
}

function odd(what: string): Refused {
  return new Refused(
    `Unexpected response from the platform: ${what}. Is this a Slipway platform with a similar version?`,
  );
}
