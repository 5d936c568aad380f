// Times for people: how long ago, or in how long. Pure.

/**
 * The largest unit that fits at least once; seconds in milliseconds, …; months and years are said
 * as a day.
 */
const units: readonly (readonly [string, number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
];
/** Beyond it the day says more. */
const daysMax = 30;

/**
 * Words for a time, such as `3 min ago`, `in 2 h` or `2026-01-31`; a text that is no time is
 * returned unchanged.
 */
export function sinceText(at: string, nowMs: number): string {
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return at;
  const apart = Math.abs(nowMs - ms);
  if (apart < 1000) return "now";
  const [unit, unitMs] = units.find(([, one]) => apart >= one) ?? ["s", 1000];
  const count = Math.floor(apart / unitMs);
  if (unit === "d" && count > daysMax) return at.slice(0, 10);
  return ms <= nowMs ? `${count} ${unit} ago` : `in ${count} ${unit}`;
}

/** A span of time, such as `250 ms`, `3.2 s` or `2 min 5 s`. */
export function spanText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const [unit, below] = ms < 3_600_000 ? (["min", "s"] as const) : (["h", "min"] as const);
  const unitMs = unit === "min" ? 60_000 : 3_600_000;
  return `${Math.floor(ms / unitMs)} ${unit} ${Math.floor((ms % unitMs) / (unitMs / 60))} ${below}`;
}
