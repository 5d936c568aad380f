// The framework for commands: operands and options, and the refusal of unknown input. Every command
// has `--help` with examples, and `--json`. A command is one call of `command`, listed in
// `commands.ts`.
import { parseArgs, type ParseArgsConfig } from "node:util";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { helpOf } from "./help.ts";
import type { Machine } from "./machine.ts";
import { misuse, type Refused } from "./refused.ts";

/**
 * Runs a command with the arguments after its name; resolves with the exit code. Throws `Refused`.
 */
export type Run = (parameters: readonly string[], machine: Machine) => Promise<number>;

export type Option = {
  /** The placeholder of the value in the help, such as `<url>`; null: the option has no value. */
  readonly value: string | null;
  readonly about: string;
  /** One letter, such as `f` for `-f`. */
  readonly short?: string;
  /** The help does not list it. */
  readonly isHidden?: true;
};

export type Operand = {
  readonly name: string;
  readonly about: string;
  readonly isOptional?: true;
  /**
   * The first operand: it may be omitted although others follow, when one is missing; then its text
   * is "".
   */
  readonly isOfFolder?: true;
  /**
   * The form of an operand that comes after a folder: a first text of this form is this operand
   * when there is no other.
   */
  readonly form?: RegExp;
  /** The last operand: it takes all that follow, at least one unless it is optional. */
  readonly isMany?: true;
};

/** The parsed arguments. */
export type Given = {
  /** The operand's text; "" when it is optional and omitted. */
  operand(name: string): string;
  /** All texts of the operand that takes many. */
  operands(name: string): readonly string[];
  /** The option's value; undefined when it was not given. */
  text(name: string): string | undefined;
  /** True when the option was given. */
  has(name: string): boolean;
};

export type CommandShape = {
  /** The words after `slipway`, such as `service-accounts create`. */
  readonly name: string;
  /** What the command does, in a few sentences; the help wraps its lines. */
  readonly about: string;
  /** Whole command lines, without `slipway`; at least one. */
  readonly examples: readonly string[];
  readonly operands?: readonly Operand[];
  readonly options?: Readonly<Record<string, Option>>;
  /** It ends itself after Ctrl-C, to tidy up; by default the process ends at once. */
  readonly endsItself?: true;
  /** Resolves with the exit code; undefined means 0. */
  readonly run: (given: Given, machine: Machine) => Promise<number | void>;
};

/** A command with what it is made of. */
export type Command = Run & { readonly shape: CommandShape };

/** The options that every command has. */
export const commonOptions = {
  json: {
    value: null,
    about:
      "Print JSON; logs, and commands that follow something, print a line of JSON for each thing.",
  },
  help: { value: null, about: "Show this text.", short: "h" },
} as const satisfies Record<string, Option>;

/** Makes a command that answers `--help` and refuses unknown arguments. */
export function command(shape: CommandShape): Command {
  const run: Run = async (parameters, machine) => {
    const given = parse(shape, parameters);
    if (given === null) {
      machine.print(helpOf(shape, commonOptions));
      return 0;
    }
    if (shape.endsItself !== true) machine.endOnInterrupt();
    return (await shape.run(given, machine)) ?? 0;
  };
  return Object.assign(run, { shape });
}

/** Null: help was requested. */
function parse(shape: CommandShape, parameters: readonly string[]): Given | null {
  const options = { ...shape.options, ...commonOptions };
  const config = Object.fromEntries(
    Object.entries(options).map(([name, { value, short }]: [string, Option]) => [
      name,
      {
        type: value === null ? ("boolean" as const) : ("string" as const),
        ...(short === undefined ? {} : { short }),
      },
    ]),
  );
  const { values, positionals: typed } = parseTyped(shape, parameters, config);
  if (values["help"] === true) return null;
  const operands = shape.operands ?? [];
  const countMin = operands.filter(({ isOptional }) => isOptional !== true).length;
  const isNext = typed.length === 1 && operands[1]?.form?.test(typed[0] ?? "") === true;
  const isOmitted = operands[0]?.isOfFolder === true && (typed.length === countMin - 1 || isNext);
  const positionals = isOmitted ? ["", ...typed] : typed;
  const missing = operands.find(
    ({ isOptional }, index) => isOptional !== true && positionals[index] === undefined,
  );
  if (missing !== undefined)
    throw misused(shape, `${missing.name} is missing: ${lowered(missing.about)}`);
  const tooMany = operands.at(-1)?.isMany === true ? undefined : positionals[operands.length];
  if (tooMany !== undefined) throw misused(shape, `"${tooMany}" is an unexpected argument`);
  const textOf = (name: string): string | undefined => {
    const value = values[name];
    return typeof value === "string" ? value : undefined;
  };
  const indexOf = (name: string): number => operands.findIndex((one) => one.name === name);
  return {
    operand: (name) => positionals[indexOf(name)] ?? "",
    operands: (name) => positionals.slice(indexOf(name)),
    text: textOf,
    has: (name) => values[name] !== undefined,
  };
}

function parseTyped(
  shape: CommandShape,
  parameters: readonly string[],
  options: NonNullable<ParseArgsConfig["options"]>,
): { values: Readonly<Record<string, unknown>>; positionals: readonly string[] } {
  for (const parameter of parameters) {
    if (parameter === "--") break;
    const name = /^--([^=]+)/.exec(parameter)?.[1];
    if (name === undefined || Object.hasOwn(options, name)) continue;
    const meant = closestName(name, Object.keys(options));
    throw misused(
      shape,
      `--${name} is not a valid option${meant === undefined ? "" : `; did you mean --${meant}?`}`,
    );
  }
  try {
    return parseArgs({ args: [...parameters], options, allowPositionals: true });
  } catch (error) {
    // Only errors of parseArgs itself have a code; their first sentence says what is wrong.
    if (!(error instanceof TypeError) || !("code" in error)) throw error;
    throw misused(shape, (error.message.split(/\.\s|\n/, 1)[0] ?? "").replace(/\.$/, ""), error);
  }
}

function misused(shape: CommandShape, what: string, cause?: unknown): Refused {
  const sentence = what.replace(/[?.]?$/, (end) => (end === "?" ? end : "."));
  return misuse(`${sentence} See slipway ${shape.name} --help.`, cause);
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
