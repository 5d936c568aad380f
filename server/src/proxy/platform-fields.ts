// Extracts the fields that address the platform itself in async calls and calls with a forwarded
// answer; in all other calls these fields belong to the app. Pure.
import { Fault } from "#lib/fault.ts";
import { askingForIdentity } from "./accept-encoding.ts";
import { trimmed } from "./fields.ts";

/**
 * The values of the platform's fields; null: the field is missing, or the platform does not read
 * it.
 */
export type PlatformFields = {
  /** The lines of all other fields, each with its line end. */
  readonly lines: string;
  readonly webhookSecret: string | null;
  readonly idempotencyKey: string | null;
  readonly retries: number | null;
};

/** Says which of the fields the platform reads in a call. */
export type PlatformFieldUse = { readonly isAsync: boolean; readonly isForwarded: boolean };

const secretName = "X-Webhook-Secret";
const keyName = "Idempotency-Key";
const retriesName = "Slipway-Retries";
const secretLengthMax = 512;
const keyLengthMax = 255;
const retriesMax = 10;

const secretForm = new RegExp(`^[\\x20-\\x7e]{1,${secretLengthMax}}$`);
const keyForm = new RegExp(`^[\\x21-\\x7e]{1,${keyLengthMax}}$`);

/** Reads the fields from `lines`; a `Fault` when one is repeated or has an invalid value. */
export function readPlatformFields(
  lines: string,
  { isAsync, isForwarded }: PlatformFieldUse,
): PlatformFields | Fault {
  const names: string[] = [];
  if (isForwarded) names.push(secretName);
  if (isAsync) names.push(keyName, retriesName);
  const lowerNames = new Set(names.map((name) => name.toLowerCase()));
  const values = new Map<string, string>();
  const otherLines: string[] = [];
  for (const line of lines.split("\r\n")) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    if (!lowerNames.has(name)) {
      otherLines.push(line);
      continue;
    }
    if (values.has(name)) return invalid(`The field ${nameOf(names, name)} is given twice.`);
    values.set(name, trimmed(line, colon + 1, line.length));
  }
  const webhookSecret = values.get(secretName.toLowerCase()) ?? null;
  const idempotencyKey = values.get(keyName.toLowerCase()) ?? null;
  const retries = readRetries(values.get(retriesName.toLowerCase()));
  if (webhookSecret !== null && !secretForm.test(webhookSecret)) {
    return invalid(`${secretName} must have 1 to ${secretLengthMax} printable ASCII characters.`);
  }
  if (idempotencyKey !== null && !keyForm.test(idempotencyKey)) {
    return invalid(
      `${keyName} must have 1 to ${keyLengthMax} visible ASCII characters; it has ${idempotencyKey.length}.`,
    );
  }
  if (retries instanceof Fault) return retries;
  const rest = otherLines.join("\r\n");
  // Whoever reads an async call's answer might not accept the codings that the caller accepts.
  const linesForReplica = isAsync ? askingForIdentity(rest) : rest;
  return { lines: linesForReplica, webhookSecret, idempotencyKey, retries };
}

/** The name as it is usually written. */
function nameOf(names: readonly string[], lower: string): string {
  return names.find((name) => name.toLowerCase() === lower) ?? lower;
}

function readRetries(value: string | undefined): number | null | Fault {
  if (value === undefined) return null;
  const isNumber = /^[0-9]{1,2}$/.test(value);
  if (isNumber && Number(value) <= retriesMax) return Number(value);
  const isLong = value.length > 32;
  const shown = JSON.stringify(isLong ? `${value.slice(0, 32)}…` : value);
  return invalid(`${retriesName} must be a whole number from 0 to ${retriesMax}; given: ${shown}`);
}

function invalid(message: string): Fault {
  return new Fault("invalid", message);
}
