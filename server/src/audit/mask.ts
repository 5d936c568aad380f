// What may be kept of a change in the audit log: no secret, and no more than there is room for.
import { Secret } from "#lib/secret.ts";

/** One field before and after. A side that is absent was not there. */
export type Change = { readonly old?: unknown; readonly new?: unknown };
export type Changes = Readonly<Record<string, Change>>;

/** Any JSON. */
export type Kept = string | number | boolean | null | readonly Kept[] | { readonly [name: string]: Kept };

const hidden = "[secret]";
const textLengthMost = 1_000;
const entriesMost = 100;
const depthMost = 6;
const totalLengthMost = 32_000;

/** Names of fields whose values are secret wherever they stand; compared without case, dashes and underscores. */
const secretFields = new Set(
  (
    "password passwordhash secret secrets token tokens accesstoken refreshtoken apikey authorization cookie " +
    "dockerauth credential credentials privatekey sshkey value env"
  ).split(" "),
);

/** Ends of names that give a secret away: `github_token`, `DB_PASSWORD`. */
const secretEnd = /(password|secret|token|credentials?|private_?key|api_?key|sealed)$/i;

/** The changes with secrets replaced and everything cut to size; a set of changes that is too large keeps its field names only. */
export function maskChanges(changes: Changes): Record<string, Kept> {
  const masked: Record<string, Kept> = {};
  for (const [field, change] of Object.entries(changes).slice(0, entriesMost)) {
    const sides: Record<string, Kept> = {};
    if (change.old !== undefined) sides["old"] = maskField(field, change.old, 0);
    if (change.new !== undefined) sides["new"] = maskField(field, change.new, 0);
    masked[cutText(field, 200)] = sides;
  }
  if (JSON.stringify(masked).length <= totalLengthMost) return masked;
  return Object.fromEntries(Object.keys(masked).map((field) => [field, "[too large]"]));
}

/** Text of at most `most` characters that PostgreSQL can hold, with a mark where it was cut. */
export function cutText(text: string, most: number = textLengthMost): string {
  const clean = text.replaceAll("\0", "").toWellFormed();
  return clean.length <= most ? clean : `${clean.slice(0, most - 1).toWellFormed()}…`;
}

function maskField(name: string, value: unknown, depth: number): Kept {
  if (value === null || value === undefined) return null;
  if (secretFields.has(name.toLowerCase().replaceAll(/[-_]/g, "")) || secretEnd.test(name)) return hidden;
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
  if (depth >= depthMost) return "[too deep]";
  if (Array.isArray(value)) return value.slice(0, entriesMost).map((item: unknown) => maskValue(item, depth + 1));
  const entries = Object.entries(value).slice(0, entriesMost);
  return Object.fromEntries(
    entries.map(([name, item]) => [cutText(name, 200), maskField(name, item, depth + 1)] as const),
  );
}
