// Finds and runs the command that was typed. `main.ts` calls it for this process, tests with a
// terminal of their own.
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import type { Command } from "./command.ts";
import { commands, topics, type Entry } from "./commands.ts";
import { helpOfCommands } from "./help.ts";
import type { Machine } from "./machine.ts";
import { plainMachine } from "./plain-machine.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";

const ownOptions = { "--help": "Show this text.", "--version": "Show the version." } as const;

/**
 * Runs the command that `parameters` name; resolves with its exit code, after a refusal is told to
 * the person.
 */
export async function dispatch(parameters: readonly string[], given: Machine): Promise<number> {
  const machine = plainMachine(given);
  if (parameters[0] === "--version" || parameters[0] === "-v") {
    machine.print(machine.version);
    return 0;
  }
  try {
    return await run(parameters, { words: [], entries: commands }, machine);
  } catch (error) {
    if (isOfSystem(error)) {
      // Such as a disk that is full, or a file that is gone: a stack trace helps nobody.
      machine.tell(`The command could not go on: ${error.message}`);
      return exitCodes.failed;
    }
    if (!(error instanceof Refused)) throw error;
    machine.tell(error.message);
    return error.exitCode;
  }
}

/** An error that the operating system reported. */
function isOfSystem(error: unknown): error is Error {
  return error instanceof Error && "syscall" in error && typeof error.syscall === "string";
}

/** A node of the command tree: the words that may follow, and the default when none does. */
type CommandNode = {
  readonly words: readonly string[];
  readonly entries: Readonly<Record<string, Entry>>;
  readonly otherwise?: string;
};

function help({ words, entries }: CommandNode): string {
  const shown = Object.entries(entries).filter(([, { isAlias }]) => isAlias !== true);
  const rowsOf = (of: typeof shown) => of.map(([name, { about }]) => [name, about] as const);
  if (words.length > 0)
    return helpOfCommands({ words, topics: [{ title: "", rows: rowsOf(shown) }] });
  const byTopic = topics.map((title) => ({
    title,
    rows: rowsOf(shown.filter(([, { topic }]) => topic === title)),
  }));
  const own = { title: "", rows: Object.entries(ownOptions) };
  return helpOfCommands({ words, topics: [...byTopic, own].filter(({ rows }) => rows.length > 0) });
}

/** Runs the command that `parameters` name. */
async function run(
  parameters: readonly string[],
  node: CommandNode,
  machine: Machine,
): Promise<number> {
  const { words, entries, otherwise } = node;
  const [word, ...rest] = parameters;
  if (word === "--help" || word === "-h" || (word === "help" && words.length === 0)) {
    // As in `slipway help apps scale`.
    if (word === "help" && rest.length > 0) return await run([...rest, "--help"], node, machine);
    machine.print(help(node));
    return 0;
  }
  if (otherwise !== undefined && (word === undefined || word.startsWith("-"))) {
    return await run([otherwise, ...parameters], { words, entries }, machine);
  }
  if (word === undefined) {
    machine.tell(help(node));
    return exitCodes.misused;
  }
  const entry = Object.hasOwn(entries, word) ? entries[word] : undefined;
  if (entry === undefined) throw unknown(word, { words, entries }, await verbOfApps(node));
  if ("load" in entry) return await (await entry.load())(rest, machine);
  const { verbs, otherwise: otherVerb } = entry;
  const next = { words: [...words, word], entries: verbs };
  return await run(
    rest,
    otherVerb === undefined ? next : { ...next, otherwise: otherVerb },
    machine,
  );
}

/**
 * The verb that was left out in `slipway builds hello`; undefined: no command of the node takes
 * only an app.
 */
async function verbOfApps({ words, entries }: CommandNode): Promise<string | undefined> {
  if (words.length === 0) return undefined;
  for (const verb of ["list", "show"]) {
    const entry = Object.hasOwn(entries, verb) ? entries[verb] : undefined;
    const found = entry !== undefined && "load" in entry ? await entry.load() : null;
    if (
      found !== null &&
      "shape" in found &&
      (found as Command).shape.operands?.[0]?.name === "app"
    )
      return verb;
  }
  return undefined;
}

/** Words for one thing, of which a command has one. */
const removers = ["remove", "delete", "rm", "del"];

function unknown(word: string, { words, entries }: CommandNode, verb: string | undefined): Refused {
  const known = [...Object.keys(entries), ...(words.length === 0 ? Object.keys(ownOptions) : [])];
  const remover = removers.includes(word) ? known.find((one) => removers.includes(one)) : undefined;
  const meant =
    remover ??
    closestName(word, known) ??
    (verb === undefined ? undefined : ["slipway", ...words, verb, word].join(" "));
  const typed = [...words, word].join(" ");
  const see = ["slipway", ...words, "--help"].join(" ");
  const hint = meant === undefined ? "." : `; did you mean ${meant}?`;
  return misuse(`"${typed}" is not a command${hint} See ${see}.`);
}
