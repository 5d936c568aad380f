// The framework for commands: operands and options, the help text generated from them, and the refusal of unknown input.
// A command is one call of `command` in its own file, listed in `commands.ts`.
import { parseArgs, type ParseArgsConfig } from "node:util";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";

/** Runs a command with the arguments after its name; resolves with the exit code. Throws `Refused`. */
export type Run = (parameters: readonly string[], machine: Machine) => Promise<number>;

export type Option = {
  /** The placeholder of the value in the help, such as `<url>`; null: the option has no value. */
  readonly value: string | null;
  readonly about: string;
  /** One letter, such as `f` for `-f`. */
  readonly short?: string;
};

export type Operand = {
  readonly name: string;
  readonly about: string;
  readonly isOptional?: true;
};

/** The parsed arguments. */
export type Given = {
  /** The operand's text; "" when it is optional and omitted. */
  operand(name: string): string;
  /** The option's value; undefined when it was not given. */
  text(name: string): string | undefined;
  /** True when the option was given. */
  has(name: string): boolean;
};

export type CommandShape = {
  /** The words after `slipway`, such as `service-accounts create`. */
  readonly name: string;
  /** What the command does, in a few lines. */
  readonly about: string;
  readonly operands?: readonly Operand[];
  readonly options?: Readonly<Record<string, Option>>;
  /** Resolves with the exit code; undefined means 0. */
  readonly run: (given: Given, machine: Machine) => Promise<number | void>;
};

const helpOption = { help: { value: null, about: "Show this text.", short: "h" } } as const satisfies Record<
  string,
  Option
>;
/** The second column of the help. */
const columnAt = 24;

/** Makes a command that answers `--help` and refuses unknown arguments. */
export function command(shape: CommandShape): Run {
  return async (parameters, machine) => {
    const given = parse(shape, parameters);
    if (given === null) {
      machine.print(helpOf(shape));
      return 0;
    }
    return (await shape.run(given, machine)) ?? 0;
  };
}

/** Null: help was requested. */
function parse(shape: CommandShape, parameters: readonly string[]): Given | null {
  const options = { ...shape.options, ...helpOption };
  const config = Object.fromEntries(
    Object.entries(options).map(([name, { value, short }]: [string, Option]) => [
      name,
      { type: value === null ? ("boolean" as const) : ("string" as const), ...(short === undefined ? {} : { short }) },
    ]),
  );
  const { values, positionals } = parseTyped(shape, parameters, config);
  if (values["help"] === true) return null;
  const operands = shape.operands ?? [];
  const missing = operands.find(({ isOptional }, index) => isOptional !== true && positionals[index] === undefined);
  if (missing !== undefined) throw misused(shape, `${missing.name} is missing: ${lowered(missing.about)}`);
  const tooMany = positionals[operands.length];
  if (tooMany !== undefined) throw misused(shape, `"${tooMany}" is an unexpected argument`);
  const textOf = (name: string): string | undefined => {
    const value = values[name];
    return typeof value === "string" ? value : undefined;
  };
  return {
    operand: (name) => positionals[operands.findIndex((one) => one.name === name)] ?? "",
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
    throw misused(shape, `--${name} is not a valid option${meant === undefined ? "" : `; did you mean --${meant}?`}`);
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
  return new Refused(
    `${what.replace(/[?.]?$/, (end) => (end === "?" ? end : "."))} See slipway ${shape.name} --help.`,
    {
      exitCode: 2,
      cause,
    },
  );
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

function helpOf({ name, about, operands = [], options = {} }: CommandShape): string {
  const shown = operands.map((one) => (one.isOptional === true ? `[<${one.name}>]` : `<${one.name}>`));
  const all: Readonly<Record<string, Option>> = { ...options, ...helpOption };
  const rows = [
    ...operands.map((one) => row(`<${one.name}>`, one.about)),
    ...Object.entries(all).map(([key, { value, about: what, short }]) =>
      row(`${short === undefined ? "" : `-${short}, `}--${key}${value === null ? "" : ` ${value}`}`, what),
    ),
  ];
  return [`Usage: slipway ${[name, ...shown, "[options]"].join(" ")}`, "", about.trim(), "", ...rows].join("\n");
}

/** One line of the help: the words to type, and what they do. */
export function row(left: string, right: string): string {
  const gap = left.length + 4 > columnAt ? `\n${" ".repeat(columnAt)}` : " ".repeat(columnAt - left.length - 2);
  return `  ${left}${gap}${right}`;
}
