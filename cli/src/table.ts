// Prints lists: as a table for people, as JSON for programs.
import type { Machine } from "./machine.ts";
import type { Option } from "./command.ts";
import { plain } from "./plain-text.ts";

/** The option of every list command. */
export const jsonOption = {
  json: { value: null, about: "Print JSON." },
} as const satisfies Record<string, Option>;

/** Prints rows below a header, columns two spaces apart. Control characters are removed, because names are untrusted text. */
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
