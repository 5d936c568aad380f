// Rows in columns for people, and the same as JSON for programs.
import type { Machine } from "./machine.ts";
import type { Option } from "./command.ts";
import { plain } from "./plain-text.ts";

/** The option of every command that lists something. */
export const jsonOption = {
  json: { value: null, about: "Print JSON." },
} as const satisfies Record<string, Option>;

/** Prints rows below their heads, columns two spaces apart. Control characters are left out: names are strangers' texts. */
export function printTable(machine: Machine, heads: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [heads, ...rows].map((line) => line.map(plain));
  const widths = heads.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
  for (const line of lines) {
    machine.print(
      line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  }
}
