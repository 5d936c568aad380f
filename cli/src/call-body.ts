// The body of a call from what was typed: pairs of names and values, JSON, or a file.
import { readFile } from "node:fs/promises";
import type { Given, Option } from "./command.ts";
import { errorMessage } from "./error-message.ts";
import { readInput } from "./prompt.ts";
import { misuse } from "./refused.ts";

/** The options that give a body. */
export const bodyOptions = {
  data: { value: "<json>", about: "The whole body, as JSON.", short: "d" },
  file: { value: "<file>", about: 'A file with the body; "-" for standard input.' },
} as const satisfies Record<string, Option>;

/** The body and its type. Throws `Refused` when several are given, or JSON is invalid. */
export async function bodyOf(
  given: Given,
  pairs: readonly string[],
): Promise<{ readonly bytes: Buffer; readonly type: string }> {
  const data = given.text("data");
  const file = given.text("file");
  if ([pairs.length > 0, data !== undefined, file !== undefined].filter(Boolean).length > 1) {
    throw misuse("Use either name=value, --data or --file, not several of them.");
  }
  if (file !== undefined) {
    const bytes = file === "-" ? await readInput() : await fileBytes(file);
    return {
      bytes,
      type: isJson(bytes.toString()) ? "application/json" : "application/octet-stream",
    };
  }
  if (data !== undefined && !isJson(data))
    throw misuse(`--data is not valid JSON: ${data.slice(0, 200)}`);
  return { bytes: Buffer.from(data ?? JSON.stringify(fieldsOf(pairs))), type: "application/json" };
}

/**
 * `name=value` pairs as fields. A value that is valid JSON is taken as JSON, else as text;
 * `name:=value` must be JSON. Pure.
 */
export function fieldsOf(pairs: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [, name, sign, value = ""] = /^([^=]+?)(:?=)(.*)$/s.exec(pair) ?? [];
      if (name === undefined)
        throw misuse(`"${pair}" must be of the form name=value, or name:=json.`);
      if (isJson(value)) return [name, JSON.parse(value) as unknown];
      if (sign === ":=")
        throw misuse(`The value of ${name} is not valid JSON: ${value.slice(0, 200)}`);
      return [name, value];
    }),
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // The answer to the question.
    return false;
  }
}

async function fileBytes(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw misuse(`${file} cannot be read: ${errorMessage(error)}.`, error);
  }
}
