// Reduces the fields of a change to what the audit log may store: no secrets, and bounded sizes.
import { Secret } from "#lib/secret.ts";

/** One field before and after. An absent side means that the field did not exist. */
export type Change = { readonly old?: unknown; readonly new?: unknown };
export type Changes = Readonly<Record<string, Change>>;

/** A JSON value as it is kept, after masking. */
export type Kept =
  | string
  | number
  | boolean
  | null
  | readonly Kept[]
  | { readonly [name: string]: Kept };

const hidden = "[secret]";
const tooLarge = "[too large]";
const tooMany = "[too many]";
/** The bounds of what is kept of one entry, so that no request can fill the audit log. */
const nameLengthMax = 200;
const textLengthMax = 1_000;
/** The maximum number of fields of a change, of items of a list and of members of an object. */
const membersMax = 100;
const depthMax = 6;
const totalLengthMax = 32_000;

/**
 * Names of fields whose values are always secret; compared without case, dashes and underscores.
 */
const secretFields = new Set(
  (
    "password passwordhash secret secrets token tokens accesstoken refreshtoken apikey authorization cookie " +
    "dockerauth credential credentials privatekey sshkey value env"
  ).split(" "),
);

/** Suffixes of secret names: `github_token`, `DB_PASSWORD`. */
const secretSuffix = /(password|secret|token|credentials?|private_?key|api_?key|sealed)$/i;

/**
 * The changes with secrets replaced and everything cut to size. Fields that do not fit keep only
 * their names, and names that do not fit are counted: nothing is lost without a trace.
 */
export function maskChanges(changes: Changes): Record<string, Kept> {
  const fields = Object.entries(changes);
  // Built at once instead of by assignment: a field may have the name of a property that every
  // object has, such as `__proto__`.
  const masked = Object.fromEntries(
    fields.slice(0, membersMax).map(([field, change]) => maskChange(field, change)),
  );
  const names = fields.slice(membersMax).map(([field]) => cutText(field, nameLengthMax));
  const all = { ...masked, ...Object.fromEntries(names.map((name) => [name, tooMany])) };
  if (JSON.stringify(all).length <= totalLengthMax) return all;
  return namesOnly(fields.map(([field]) => cutText(field, nameLengthMax)));
}

function maskChange(field: string, change: Change): [string, Kept] {
  const sides: Record<string, Kept> = {};
  if (change.old !== undefined) sides["old"] = maskField(field, change.old, 0);
  if (change.new !== undefined) sides["new"] = maskField(field, change.new, 0);
  return [cutText(field, nameLengthMax), sides];
}

/** Quotes, colon and comma of a member. */
const memberExtraLength = 4;
/** The maximum length of the member that counts the names that do not fit. */
const countLengthMax = 100;

/** The names of the fields, as many as fit, each with `[too large]` in place of its values. */
function namesOnly(names: readonly string[]): Record<string, Kept> {
  const fitting: string[] = [];
  let length = 0;
  for (const name of names) {
    length += JSON.stringify(name).length + tooLarge.length + memberExtraLength;
    if (length < totalLengthMax - countLengthMax) fitting.push(name);
  }
  const rest = names.length - fitting.length;
  // The last member counts the names that do not fit.
  const count = rest === 0 ? {} : { "(more fields)": { new: rest } };
  return { ...Object.fromEntries(fitting.map((name) => [name, tooLarge])), ...count };
}

/** Text of at most `max` characters that PostgreSQL can hold, with a mark if it was cut. */
export function cutText(text: string, max: number = textLengthMax): string {
  const clean = text.replaceAll("\0", "").toWellFormed();
  return clean.length <= max ? clean : `${clean.slice(0, max - 1).toWellFormed()}…`;
}

function maskField(name: string, value: unknown, depth: number): Kept {
  if (value === null || value === undefined) return null;
  if (secretFields.has(name.toLowerCase().replaceAll(/[-_]/g, "")) || secretSuffix.test(name))
    return hidden;
  return maskValue(value, depth);
}

function maskValue(value: unknown, depth: number): Kept {
  if (value instanceof Secret) return hidden;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (typeof value === "string") return cutText(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "boolean" || value === null) return value;
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object") return null;
  if (depth >= depthMax) return "[too deep]";
  if (Array.isArray(value)) {
    const items = value.slice(0, membersMax).map((item: unknown) => maskValue(item, depth + 1));
    return value.length > membersMax ? [...items, `[${value.length - membersMax} more]`] : items;
  }
  const entries = Object.entries(value);
  const masked = entries
    .slice(0, membersMax)
    .map(
      ([name, item]) => [cutText(name, nameLengthMax), maskField(name, item, depth + 1)] as const,
    );
  const rest = entries.length - masked.length;
  return Object.fromEntries(rest > 0 ? [...masked, ["(more)", rest]] : masked);
}
