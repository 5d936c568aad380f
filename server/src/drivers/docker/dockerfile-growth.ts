// Estimates how large an app's Dockerfile becomes when its variables are replaced by their values.
// BuildKit does that in the engine's process and without a limit: ten lines, each of which uses the
// variable of the line before ten times, would use up the engine's memory. BuildKit also builds up
// each word character by character, and copies the word each time: a word of a million characters
// would keep the engine busy for minutes, even after the build has ended. Pure.
import { hereDocumentsOf } from "./here-documents.ts";

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
/** An instruction. Its groups are its word, without ONBUILD before it, and what follows. */
const instructionForm = new RegExp(`^${blank}*(?:ONBUILD${blank}+)*(\\w+)${blank}(.*)$`, "is");
/** The flags at the beginning of what follows RUN, as far as they have no quotes or escapes. */
const flagsForm = new RegExp(`^(?:--[^\\s\\u0085"'\\\\\`]*(?:${blank}+|$))*`);
/** The beginning of an instruction for later stages, and of a stage. */
const triggerForm = new RegExp(`^${blank}*ONBUILD${blank}`, "i");
const stageForm = new RegExp(`^${blank}*FROM${blank}`, "i");
/** The maximum of the characters that are read again because of ONBUILD. */
const triggersMax = 1_000_000;
/** The maximum number of here-documents in COPY and ADD: each takes a search for its end. */
const hereDocumentsMax = 100;

/** The size of a variable's value, by its name. */
type SizeOf = (name: string) => number;

/** Upper bounds of what BuildKit handles when it replaces the variables of a Dockerfile. */
export type Growth = {
  /** The total of the characters of all instructions, and of the variables that each step gets. */
  readonly characters: number;
  /**
   * The characters that BuildKit copies: the sum of the squares of the sizes of instructions and of
   * their here-documents.
   */
  readonly copied: number;
  /**
   * An instruction for which the bounds do not hold, because it is unclear where its here-documents
   * end, or because there are more than `hereDocumentsMax`; null: there is none.
   */
  readonly unclear: string | null;
};

/** An instruction as one line, and the index of the line after it. */
type Instruction = { readonly text: string; readonly next: number };

/** How a Dockerfile is read. */
type Reading = {
  /** The character that continues a line. */
  readonly escape: string;
  /** The arguments of the build. */
  readonly variables: Readonly<Record<string, string>>;
};

/** Returns how large the instructions become. */
export function growthOf(lines: readonly string[], { escape, variables }: Reading): Growth {
  // The sign of continuation, as a regular expression needs it.
  const sign = escape === "`" ? "`" : "\\\\";
  const given = new Map(Object.entries(variables).map(([name, value]) => [name, value.length]));
  // A line that ends in two signs continues only for older readers of Dockerfiles, for which the
  // second form is. What the group of a form matches is kept.
  const readings = [`(^|[^${sign}])${sign}[ \\t]*$`, `()${sign}[ \\t]*$`].map((form) =>
    growthOfAll(lines, { continued: new RegExp(form), sign, given }),
  );
  return {
    characters: Math.max(...readings.map(({ characters }) => characters)),
    copied: Math.max(...readings.map(({ copied }) => copied)),
    unclear: readings.map(({ unclear }) => unclear).find((text) => text !== null) ?? null,
  };
}

type LineReading = {
  /** Matches the sign of continuation at the end of a line. */
  readonly continued: RegExp;
  /** This sign, as a regular expression needs it. */
  readonly sign: string;
  /** The sizes of the build's arguments. */
  readonly given: ReadonlyMap<string, number>;
};

/**
 * The growth of all instructions, in one of the two readings. The lines of here-documents count as
 * instructions, too: older engines read them so.
 */
function growthOfAll(lines: readonly string[], { continued, sign, given }: LineReading): Growth {
  const sizes = new Map<string, number>();
  /** The size of the largest instruction that may set variables which are not found here. */
  let unreadSize = 0;
  const sizeOf: SizeOf = (name) =>
    Math.max(sizes.get(name) ?? unknownCharacters, given.get(name) ?? 0, unreadSize);
  /** The total size of all variables, which each step gets. */
  let variablesSize = 0;
  let characters = 0;
  let copied = 0;
  let hereDocuments = 0;
  const addGrown = (size: number): void => {
    characters += size;
    copied += size * size;
  };
  const instructions = withTriggers(joined(lines, continued));
  if (instructions === null) return { characters: sizeMax, copied, unclear: null };
  for (const { text, next } of instructions) {
    const [, word = "", rest = ""] = instructionForm.exec(text) ?? [];
    const documents =
      hereDocuments > hereDocumentsMax ? null : hereDocumentsOf({ word, rest, lines, next });
    if (documents === null) return { characters, copied, unclear: text };
    for (const { body, hasVariables } of documents) {
      hereDocuments++;
      addGrown(hasVariables ? grownSize(body, sizeOf) : body.length);
    }
    // In these instructions the shell replaces the variables, and the step gets all of them.
    // BuildKit replaces them only in the flags of RUN.
    if (/^(?:RUN|CMD|ENTRYPOINT)$/i.test(word)) {
      addGrown(grownSize(flagsOf(rest), sizeOf));
      characters += text.length + variablesSize;
      continue;
    }
    const size = grownSize(text, sizeOf);
    addGrown(size);
    if (!/^(?:ARG|ENV)$/i.test(word)) continue;
    const { variables, isRead } = variablesIn(rest, sign);
    const pairs = variables.map(({ name, value }) => ({ name, size: grownSize(value, sizeOf) }));
    // The part of the line that is in no pair counts for each variable.
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
  return { characters, copied, unclear: null };
}

/**
 * The instructions as the build carries them out. What stands after ONBUILD may happen in any later
 * stage, with the variables that there are by then, so it is repeated at each FROM. Null: this is
 * more than `triggersMax`.
 */
function withTriggers(instructions: readonly Instruction[]): Instruction[] | null {
  const all: Instruction[] = [];
  const triggers: Instruction[] = [];
  let triggersSize = 0;
  let repeated = 0;
  for (const instruction of instructions) {
    all.push(instruction);
    if (triggerForm.test(instruction.text)) {
      triggers.push(instruction);
      triggersSize += instruction.text.length;
    } else if (stageForm.test(instruction.text)) {
      repeated += triggersSize;
      if (repeated > triggersMax) return null;
      all.push(...triggers);
    }
  }
  return all;
}

/** The flags at the beginning of what follows RUN; all of it, if it is unclear where they end. */
function flagsOf(rest: string): string {
  const [flags = ""] = flagsForm.exec(rest) ?? [];
  return rest.startsWith("--", flags.length) ? rest : flags;
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

/**
 * The instructions, without comments. `continued` matches the sign of continuation at the end of a
 * line.
 */
function joined(lines: readonly string[], continued: RegExp): Instruction[] {
  const instructions: Instruction[] = [];
  let unfinished: string | null = null;
  for (const [index, line] of lines.entries()) {
    if (ignoredForm.test(line)) continue;
    const isContinued = continued.test(line);
    const text: string = (unfinished ?? "") + line.replace(continued, "$1");
    if (!isContinued) instructions.push({ text, next: index + 1 });
    unfinished = isContinued ? text : null;
  }
  if (unfinished !== null) instructions.push({ text: unfinished, next: lines.length });
  return instructions;
}
