// Parses the lifetime of a new token: `90d`, `12h`, a timestamp, or `never`.
import { misuse, type Refused } from "./refused.ts";

const unitMs: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};
const form = /^(\d{1,6})([smhdw])$/;
const timeForm = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/;

/** The expiry in RFC 3339; null for `never`. `option` is named in the refusal. Pure. */
export function endOf(
  given: string,
  { option, nowMs }: { option: string; nowMs: number },
): string | null {
  if (given === "never") return null;
  const ms = durationMs(given);
  const endMs = ms === null ? timeIn(given) : nowMs + ms;
  const end = new Date(endMs);
  if (!Number.isNaN(end.getTime())) return end.toISOString();
  throw misread(option, given, "90d, 12h, a time such as 2027-01-31T12:00:00Z, or never");
}

/** Converts `24h`, `7d` and the like to seconds. Pure. */
export function secondsOf(given: string, option: string): number {
  const ms = given === "0" ? 0 : durationMs(given);
  if (ms !== null) return ms / 1000;
  throw misread(option, given, "30m, 24h, 7d or 0");
}

/** The time in RFC 3339 that is `given` (`10m`, `2h`, …) ago, or that `given` says. Pure. */
export function timeBefore(
  given: string,
  { option, nowMs }: { option: string; nowMs: number },
): string {
  const ms = durationMs(given);
  const startMs = ms === null ? timeIn(given) : nowMs - ms;
  const start = new Date(startMs);
  if (!Number.isNaN(start.getTime())) return start.toISOString();
  throw misread(option, given, "10m, 2h, 7d, or a time such as 2027-01-31T12:00:00Z");
}

/** The time that is given, in milliseconds; NaN: it is none. */
function timeIn(given: string): number {
  return timeForm.test(given) ? Date.parse(given) : Number.NaN;
}

function durationMs(given: string): number | null {
  const [, count, unit = ""] = form.exec(given) ?? [];
  return count === undefined ? null : Number(count) * (unitMs[unit] ?? 0);
}

function misread(option: string, given: string, allowed: string): Refused {
  return misuse(`${option} is "${given}", but must be ${allowed}.`);
}
