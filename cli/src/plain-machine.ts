// Keeps texts that strangers decide (names of files and apps, settings, a server's messages) from
// steering the terminal, whichever command shows them. `dispatch.ts` gives commands such a machine.
import type { Machine } from "./machine.ts";
import { plainLines } from "./plain-text.ts";

/** What `Machine.paint` begins and ends a colour with. */
const colours = /(\x1b\[(?:1|2|22|31|32|33|39)m)/;

/**
 * The same machine, but messages have no control characters, and results none but its own colours.
 * `write` stays as it is: it is for bytes that somebody asked for.
 */
export function plainMachine(machine: Machine): Machine {
  return {
    ...machine,
    tell: (text) => machine.tell(plainLines(text)),
    print: (text) => machine.print(plainBetweenColours(text)),
  };
}

function plainBetweenColours(text: string): string {
  return text
    .split(colours)
    .map((part) => (colours.test(part) ? part : plainLines(part)))
    .join("");
}
