// A time in words, as a reader of the language writes it. Pure.

/** The distance from now, or the date when that is a day or more. */
export function timeText(at: string, nowMs: number): string {
  const seconds = Math.round((nowMs - Date.parse(at)) / 1000);
  if (Math.abs(seconds) > nearSeconds) return day.format(new Date(at));
  if (seconds < 0) return dayTime.format(new Date(at));
  if (seconds < 5) return "now";
  let rest = seconds;
  for (const [size, unit] of steps) {
    if (rest < size) return `${Math.floor(rest)} ${unit} ago`;
    rest /= size;
  }
  return dayTime.format(new Date(at));
}

const dayTime = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
/** Further away the day says enough, and the year matters. */
const nearSeconds = 180 * 86_400;
const steps: readonly (readonly [number, string])[] = [
  [60, "s"],
  [60, "min"],
  [24, "h"],
];
