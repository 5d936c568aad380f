// Prints what a command has to show: JSON for programs that ask for it, else a text for people.
import type { Given } from "./command.ts";
import type { Machine } from "./machine.ts";
import { plainJson } from "./plain-text.ts";

/** Prints the value as JSON if the command got `--json`, else what `shown` prints. */
export function output(given: Given, machine: Machine, value: unknown, shown: () => void): void {
  if (given.has("json")) printJson(machine, value);
  else shown();
}

/** Prints JSON: in one line for programs, indented on a terminal. */
export function printJson(machine: Machine, value: unknown): void {
  machine.print(plainJson(value, machine.columns === null ? 0 : 2));
}
