// Estimates how large an app's Dockerfile becomes when its variables are replaced by their values.
// BuildKit does that in the engine's process and without a limit: ten lines, each of which uses the
// variable of the line before ten times, would use up the engine's memory. BuildKit also builds up
// each word character by character, and copies the word each time: a word of a million characters
// would keep the engine busy for minutes, even after the build has ended. Pure.

/**
 * The assumed length of a variable that only the base image may define. What an image holds is not
 * known here: if it has longer variables, or instructions of its own (ONBUILD), the growth can be
 * larger than computed.
 */
const unknownCharacters = 200;
/**
 * No size grows beyond this, which is far more than is allowed: if sizes could become infinite, the
 * difference of two sizes could be NaN.
 */
const sizeMax = 1e15;
/** The beginning of a reference to a variable, `$name` or `${name`. */
const reference = /\$\{?(\w*)/g;
/** `${name//pattern/replacement}` may insert the replacement beside each character of the value. */
const replacing = /\$\{(\w*)\/\//g;
/** White space that BuildKit and the patterns below may treat differently. */
const oddBlank = /[^\S\t\n\v\f\r ]|\u0085/;
/** White space as BuildKit knows it. */
const blank = "(?:(?!\\uFEFF)\\s|\\u0085)";
/** A comment or an empty line. */
const ignoredForm = new RegExp(`^${blank}*(?:#|$)`);
/** An instruction: its word, without ONBUILD before it, and what follows. */
const instructionForm = new RegExp(`^${blank}*(?:ONBUILD${blank}+)*(\\w+)${blank}(.*)$`, "is");

/** The size of a variable's value, by its name. */
type SizeOf = (name: string) => number;

/** Upper bounds of what BuildKit handles when it replaces the variables of a Dockerfile. */
export type Growth = {
  /** The characters of all instructions, and of the variables that each step gets, together. */
  readonly characters: number;
  /** The characters that BuildKit copies, as the sum of the squared sizes of instructions. */
  readonly copied: number;
};

/** How a Dockerfile is read. */
type Reading = {
  /** The character that continues a line. */
  readonly escape: string;
  /** The arguments of the build. */
  readonly variables: Readonly<Record<string, string>>;
};

/** Returns how large the instructions become. */
export function growthOf(lines: readonly string[], { escape, variables }: Reading): Growth {
  // The character as a regular expression needs it.
  const sign = escape === "`" ? "`" : "\\\\";
  const given = new Map(Object.entries(variables).map(([name, value]) => [name, value.length]));
  // In the first reading, a doubled sign at the end does not continue the line; for older readers
  // of Dockerfiles it does. In both forms, `$1` is what has to stay of the match.
  const readings = [`(^|[^${sign}])${sign}[ \\t]*$`, `()${sign}[ \\t]*$`].map((form) =>
    growthOfAll(joined(lines, new RegExp(form)), sign, given),
  );
  return {
    characters: Math.max(...readings.map(({ characters }) => characters)),
    copied: Math.max(...readings.map(({ copied }) => copied)),
  };
}

/**
 * The growth of all instructions, in one of the two readings. `given`: the sizes of the build's
 * arguments.
 */
function growthOfAll(
  instructions: readonly string[],
  sign: string,
  given: ReadonlyMap<string, number>,
): Growth {
  const sizes = new Map<string, number>();
  /** The size of the largest instruction of which it is unclear which variables it sets. */
  let unreadSize = 0;
  const sizeOf: SizeOf = (name) =>
    Math.max(sizes.get(name) ?? unknownCharacters, given.get(name) ?? 0, unreadSize);
  let variablesSize = 0;
  let characters = 0;
  let copied = 0;
  for (const line of instructions) {
    const [, instruction = "", rest = ""] = instructionForm.exec(line) ?? [];
    // In these instructions the shell replaces the variables, and the step gets all of them.
    if (/^(?:RUN|CMD|ENTRYPOINT)$/i.test(instruction)) {
      characters += line.length + variablesSize;
      continue;
    }
    const size = grownSize(line, sizeOf);
    characters += size;
    copied += size * size;
    if (!/^(?:ARG|ENV)$/i.test(instruction)) continue;
    const { variables, isRead } = variablesIn(rest, sign);
    const pairs = variables.map(({ name, value }) => ({ name, size: grownSize(value, sizeOf) }));
    // The rest of the line, which is in no pair, counts for each variable.
    const remainder = size - pairs.reduce((sum, pair) => sum + pair.size, 0);
    for (const pair of pairs) {
      const before = sizes.get(pair.name) ?? 0;
      const after = Math.max(remainder + pair.size, given.get(pair.name) ?? 0, before);
      sizes.set(pair.name, after);
      variablesSize += after - before;
    }
    if (isRead) continue;
    unreadSize = Math.max(unreadSize, size);
    variablesSize += size;
  }
  return { characters, copied };
}

/**
 * An upper bound of the text's length after its variables are replaced. Within the replacement of
 * `${name//…}`, there may be another such form, so the factors of all of them are multiplied.
 */
function grownSize(text: string, sizeOf: SizeOf): number {
  const sizesIn = (form: RegExp): number[] =>
    [...text.matchAll(form)].map(([, name = ""]) => sizeOf(name));
  const size = sizesIn(reference).reduce((sum, valueSize) => sum + valueSize, text.length);
  return Math.min(
    sizeMax,
    sizesIn(replacing).reduce((product, valueSize) => product * (valueSize + 1), size),
  );
}

/**
 * The variables of ARG or ENV: any number of `name=value`, or one in the old form `name value`.
 * `isRead` is false when others may be set, too, as by `"name"=value`.
 */
function variablesIn(
  text: string,
  sign: string,
): {
  readonly variables: readonly { readonly name: string; readonly value: string }[];
  readonly isRead: boolean;
} {
  // A piece of a value: a quoted text, a character after a sign, or any other character.
  const word = `"(?:${sign}.|[^"${sign}])*"|'[^']*'|${sign}.|[^\\s"'${sign}]`;
  const form = new RegExp(`(?<=^|\\s)(\\w+)=((?:${word})*)`, "gs");
  const variables = [...text.matchAll(form)].map(([, name = "", value = ""]) => ({ name, value }));
  if (variables.length > 0)
    return { variables, isRead: !oddBlank.test(text) && text.replaceAll(form, "").trim() === "" };
  const [, name, value = ""] = /^\s*(\w+)(?:\s+(.*))?$/s.exec(text) ?? [];
  if (name === undefined) return { variables: [], isRead: false };
  return { variables: [{ name, value }], isRead: !oddBlank.test(text) && !value.includes("=") };
}

/** The instructions, each as one line, without comments. `continued` matches a sign at the end. */
function joined(lines: readonly string[], continued: RegExp): string[] {
  const instructions: string[] = [];
  let unfinished: string | null = null;
  for (const line of lines) {
    if (ignoredForm.test(line)) continue;
    const isContinued = continued.test(line);
    const text: string = (unfinished ?? "") + line.replace(continued, "$1");
    if (!isContinued) instructions.push(text);
    unfinished = isContinued ? text : null;
  }
  return unfinished === null ? instructions : [...instructions, unfinished];
}
