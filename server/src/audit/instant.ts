// Parses all forms of RFC 3339 times, exact to any number of digits, and formats times of the
// database, which are exact to the microsecond. Pure.

/**
 * A point in time. `micros` counts from the epoch; `rest` has the decimals of the seconds from the
 * seventh on, without trailing zeros.
 */
export type Instant = { readonly micros: bigint; readonly rest: string };

/**
 * The groups are the date, the hour, the minute, the second and its decimals, then the sign, the
 * hours and the minutes of the offset, which are missing after `Z`.
 */
const form =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/**
 * Parses a time; null when it is not valid. A leap second, which is valid only at the end of a
 * month in UTC, counts as the start of the next second, since computer clocks have no leap seconds.
 */
export function readInstant(text: string): Instant | null {
  const match = form.exec(text);
  if (match === null) return null;
  const [, date = "", hour = "", minute = "", second = "", fraction = "", sign = "+", ...offset] =
    match;
  const [offsetHours = 0, offsetMinutes = 0] = offset.map((part) => Number(part ?? 0));
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return null;
  if (offsetHours > 23 || offsetMinutes > 59) return null;
  // February 30 is read as a day in March, so its text then differs from `date`.
  const dayMs = Date.parse(`${date}T00:00:00Z`);
  if (Number.isNaN(dayMs) || new Date(dayMs).toISOString().slice(0, 10) !== date) return null;
  const offsetSign = sign === "-" ? -1 : 1;
  const offsetMs = offsetSign * (offsetHours * 60 + offsetMinutes) * 60_000;
  const minuteOfDay = Number(hour) * 60 + Number(minute);
  const ms = dayMs + minuteOfDay * 60_000 + Number(second) * 1_000 - offsetMs;
  const micros = BigInt(ms) * 1_000n;
  if (second !== "60") {
    const microsOfSecond = BigInt(fraction.slice(0, 6).padEnd(6, "0"));
    return { micros: micros + microsOfSecond, rest: restOf(fraction) };
  }
  // With the second 60, `ms` is already the start of the next minute.
  return isBeginOfMonth(ms) ? { micros, rest: "" } : null;
}

/** True when `left` is after `right`. Decimals without trailing zeros are ordered as texts. */
export function isAfter(left: Instant, right: Instant): boolean {
  return left.micros === right.micros ? left.rest > right.rest : left.micros > right.micros;
}

/**
 * The first microsecond that is not before the instant, for comparisons with times in microseconds.
 */
export function microsFrom({ micros, rest }: Instant): bigint {
  return rest === "" ? micros : micros + 1n;
}

/** The instant of a time in milliseconds since the epoch. */
export function instantOfMs(ms: number): Instant {
  return { micros: BigInt(ms) * 1_000n, rest: "" };
}

/**
 * Formats microseconds since the epoch, which must not be negative, as an RFC 3339 time in UTC,
 * with six decimals of the seconds.
 */
export function timeOfMicros(micros: number | bigint): string {
  // Computes with a bigint: a number is not exact for times after the year 2255.
  const exact = BigInt(micros);
  const text = new Date(Number(exact / 1_000n)).toISOString();
  return `${text.slice(0, -1)}${String(exact % 1_000n).padStart(3, "0")}Z`;
}

/** The decimals from the seventh on, without trailing zeros. */
function restOf(fraction: string): string {
  let end = fraction.length;
  while (end > 6 && fraction[end - 1] === "0") end--;
  return fraction.slice(6, end);
}

/** True at midnight in UTC on the first day of a month. */
function isBeginOfMonth(ms: number): boolean {
  return ms % 86_400_000 === 0 && new Date(ms).getUTCDate() === 1;
}
