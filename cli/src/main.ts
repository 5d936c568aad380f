#!/usr/bin/env node
// The command line: finds and runs the command that was typed and exits with its exit code. 0: success; 1: failure with
// a message; 2: the command was not understood.
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { row } from "./command.ts";
import { commands, type Entry } from "./commands.ts";
import { thisMachine, type Machine } from "./machine.ts";
import { Refused } from "./refused.ts";

const ownOptions = { "--help": "Show this text.", "--version": "Show the version." } as const;

function help(words: readonly string[], entries: Readonly<Record<string, Entry>>): string {
  const usage = ["Usage: slipway", ...words, "<command>"].join(" ");
  const rows = Object.entries(entries).map(([name, { about }]) => row(name, about));
  const options = words.length === 0 ? Object.entries(ownOptions).map(([name, about]) => row(name, about)) : [];
  const more = `slipway ${[...words, "<command>", "--help"].join(" ")} explains a command.`;
  return [usage, "", ...rows, ...options, "", more].join("\n");
}

/** A node of the command tree: the words that may follow, and the default when none does. */
type Place = {
  readonly words: readonly string[];
  readonly entries: Readonly<Record<string, Entry>>;
  readonly otherwise?: string;
};

/** Runs the command that `parameters` name. */
async function run(
  parameters: readonly string[],
  { words, entries, otherwise }: Place,
  machine: Machine,
): Promise<number> {
  const [word, ...rest] = parameters;
  if (word === "--help" || word === "-h" || (word === "help" && words.length === 0)) {
    machine.print(help(words, entries));
    return 0;
  }
  if (otherwise !== undefined && (word === undefined || word.startsWith("-"))) {
    return await run([otherwise, ...parameters], { words, entries }, machine);
  }
  if (word === undefined) {
    machine.tell(help(words, entries));
    return 2;
  }
  const entry = Object.hasOwn(entries, word) ? entries[word] : undefined;
  if (entry === undefined) throw unknown(word, words, entries);
  if ("load" in entry) return await (await entry.load())(rest, machine);
  const { verbs, otherwise: otherVerb } = entry;
  const place = { words: [...words, word], entries: verbs };
  return await run(rest, otherVerb === undefined ? place : { ...place, otherwise: otherVerb }, machine);
}

function unknown(word: string, words: readonly string[], entries: Readonly<Record<string, Entry>>): Refused {
  const known = [...Object.keys(entries), ...(words.length === 0 ? Object.keys(ownOptions) : [])];
  const meant = closestName(word, known);
  const typed = [...words, word].join(" ");
  const see = ["slipway", ...words, "--help"].join(" ");
  const hint = meant === undefined ? "." : `; did you mean ${meant}?`;
  return new Refused(`"${typed}" is not a command${hint} See ${see}.`, { exitCode: 2 });
}

async function main(parameters: readonly string[], machine: Machine): Promise<number> {
  if (parameters[0] === "--version" || parameters[0] === "-v") {
    machine.print(machine.version);
    return 0;
  }
  try {
    return await run(parameters, { words: [], entries: commands }, machine);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    machine.tell(error.message);
    return error.exitCode;
  }
}

// As in `slipway logs … | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));
process.exitCode = await main(process.argv.slice(2), thisMachine());
