// The tables of the sections in docs/benchmarks.md, and how numbers are written in them.
import { median } from "./statistics.ts";

/** A table, and an empty line after it. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line), ""];
}

/** Two cells, as `95.5 ms` and `66.1 – 137.1 ms`. `unit`: with the space before it. */
export function medianAndRange(
  values: readonly number[],
  show: (value: number) => string,
  unit = "",
): [string, string] {
  const range = `${show(Math.min(...values))} – ${show(Math.max(...values))}`;
  return [`${show(median(values))}${unit}`, `${range}${unit}`];
}

/** Shows a number with so many digits after the point. */
export function digits(count: number): (value: number) => string {
  return (value) => value.toFixed(count);
}

/** A number as `12.3k`. */
export function thousands(value: number): string {
  return `${(value / 1000).toFixed(1)}k`;
}

/** A time as `12.34 ms`. */
export function milliseconds(value: number, digitsAfterPoint: number): string {
  return `${value.toFixed(digitsAfterPoint)} ms`;
}
