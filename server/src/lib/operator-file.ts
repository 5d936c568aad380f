// Reads and parses the operator's TOML files (plans, prices, pools), and composes the texts that
// refuse them. The callers know which fields are valid.
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parse, TomlError } from "smol-toml";
import { isObject } from "./is-object.ts";
import { CannotStart } from "./cannot-start.ts";
import { closestName } from "./closest-name.ts";

/** The error of an invalid file; its message is for the operator. */
export class OperatorFileRefused extends Error {
  override readonly name = "OperatorFileRefused";
}

/** A table of the file, with unchecked values. */
export type Table = Readonly<Record<string, unknown>>;

/** The depth to which tables may be nested: no field is as deep. */
const depthMax = 10;
/** A longer value is cut off in messages. */
const shownLengthMax = 60;

/**
 * Returns the result of `read` for the file's text. Throws `CannotStart` when the file cannot be
 * read, or when `read` refuses it.
 */
export function readOperatorFile<Content>(
  setting: string,
  file: string,
  read: (text: string) => Content,
): Content {
  try {
    return read(readFileSync(resolve(file), "utf8"));
  } catch (error) {
    // The errors of the file system have a code.
    const isExpected =
      error instanceof OperatorFileRefused || (error instanceof Error && "code" in error);
    if (!isExpected) throw error;
    const isMissing = "code" in error && error.code === "ENOENT";
    const reason = isMissing ? `there is no file ${resolve(file)}.` : error.message;
    throw new CannotStart(`${setting} (${file}) cannot be used: ${reason}`, { cause: error });
  }
}

/** Parses the whole file as a table. Throws `OperatorFileRefused`. */
export function parseFile(text: string): Table {
  try {
    return parse(text, { maxDepth: depthMax });
  } catch (error) {
    const { at, reason } = tomlProblem(error);
    throw new OperatorFileRefused(`${at}: it is not valid TOML: ${reason}.`, { cause: error });
  }
}

/** Says where a text is not valid TOML, and why. Rethrows an error that is not the parser's. */
export function tomlProblem(error: unknown): { readonly at: string; readonly reason: string } {
  if (!(error instanceof TomlError)) throw error;
  const [first = ""] = error.message.split("\n");
  const reason = first.replace(/^Invalid TOML document: /, "");
  return { at: `line ${error.line}, column ${error.column}`, reason };
}

/**
 * Returns the value as a table. `where`: its location, for the message. Throws
 * `OperatorFileRefused`.
 */
export function tableOf(where: string, value: unknown): Table {
  if (!isObject(value) || value instanceof Date) throw operatorFileRefused(where, value, "a table");
  return value;
}

/**
 * Throws `OperatorFileRefused` for an unknown key. `whereOf`: the location of a key, for the
 * message.
 */
export function refuseUnknown(
  table: Table,
  known: readonly string[],
  whereOf: (key: string) => string,
): void {
  for (const key of Object.keys(table)) {
    if (known.includes(key)) continue;
    const closest = closestName(key, known);
    const hint =
      closest === undefined ? `allowed: ${known.join(", ")}.` : `did you mean ${closest}?`;
    throw new OperatorFileRefused(`${whereOf(key)} is unknown; ${hint}`);
  }
}

/** Returns the value as one of these choices. Throws `OperatorFileRefused`. */
export function readChoice<Choice>(
  where: string,
  value: unknown,
  choices: readonly Choice[],
): Choice {
  const chosen = choices.find((choice) => choice === value);
  if (chosen === undefined) throw operatorFileRefused(where, value, `one of ${choices.join(", ")}`);
  return chosen;
}

type Range = { readonly min: number; readonly max: number; readonly isWhole?: true };

/** Returns the value as a number within the range. Throws `OperatorFileRefused`. */
export function readNumber(where: string, value: unknown, { min, max, isWhole }: Range): number {
  const isInRange = typeof value === "number" && value >= min && value <= max;
  const isOfKind = isWhole !== true || Number.isInteger(value);
  if (isInRange && isOfKind) return value;
  const kind = isWhole === true ? "whole number" : "number";
  throw operatorFileRefused(where, value, `a ${kind} from ${min} to ${max}`);
}

/**
 * Throws `OperatorFileRefused` for a key that an earlier entry has. `allowed`: what a key must be,
 * for the message.
 */
export function refuseTwice(
  keys: readonly string[],
  whereOf: (index: number) => string,
  allowed: string,
): void {
  const index = keys.findIndex((key, at) => keys.indexOf(key) !== at);
  if (index !== -1) throw operatorFileRefused(whereOf(index), keys[index], allowed);
}

/** Returns the refusal of a value, with its location and the allowed values. */
export function operatorFileRefused(
  where: string,
  value: unknown,
  allowed: string,
): OperatorFileRefused {
  return new OperatorFileRefused(`${where} is ${shown(value)}, but must be ${allowed}.`);
}

function shown(value: unknown): string {
  if (value === undefined) return "missing";
  if (value instanceof Date) return String(value.toISOString());
  if (typeof value === "object") return Array.isArray(value) ? "a list" : "a table";
  const text = typeof value === "number" ? String(value) : (JSON.stringify(value) ?? "nothing");
  return text.length > shownLengthMax ? `${text.slice(0, shownLengthMax)}…` : text;
}
