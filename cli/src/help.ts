// The help texts: of a command, generated from its shape, and of a list of commands by topic. At
// most 100 columns wide. Pure.
import { wrapped } from "./plain-text.ts";

/** Wide enough for the texts, and narrow enough for two windows side by side. */
const widthMax = 100;
/** The second column of the help. */
const columnAt = 24;

type Explained = { readonly about: string };
type ExplainedOption = Explained & {
  readonly value: string | null;
  readonly short?: string;
  readonly isHidden?: true;
};
type ExplainedOperand = Explained & {
  readonly name: string;
  readonly isOptional?: true;
  readonly isOfFolder?: true;
  readonly isMany?: true;
};

/** What the help of a command says. */
type ExplainedCommand = Explained & {
  readonly name: string;
  readonly examples: readonly string[];
  readonly operands?: readonly ExplainedOperand[];
  readonly options?: Readonly<Record<string, ExplainedOption>>;
};

/** The help of a command. */
export function helpOf(
  { name, about, examples, operands = [], options = {} }: ExplainedCommand,
  commonOptions: Readonly<Record<string, ExplainedOption>>,
): string {
  const shown = operands.map(({ name: word, isMany, isOptional, isOfFolder }) => {
    const many = isMany === true ? `<${word}>...` : `<${word}>`;
    return isOptional === true || isOfFolder === true ? `[${many}]` : many;
  });
  const rows = [
    ...operands.map((one) => row(`<${one.name}>`, one.about)),
    ...Object.entries({ ...options, ...commonOptions })
      .filter(([, { isHidden }]: [string, ExplainedOption]) => isHidden !== true)
      .map(([key, { value, about: what, short }]: [string, ExplainedOption]) =>
        row(
          `${short === undefined ? "" : `-${short}, `}--${key}${value === null ? "" : ` ${value}`}`,
          what,
        ),
      ),
  ];
  const exampleRows = examples.map((example) => `  slipway ${example}`);
  return [
    `Usage: slipway ${[name, ...shown, "[options]"].join(" ")}`,
    "",
    ...wrapped(about, widthMax),
    "",
    ...rows,
    "",
    "Examples:",
    ...exampleRows,
  ].join("\n");
}

/** The help of several commands. `topics`: their titles and rows; a title of "" is not shown. */
export function helpOfCommands({
  words,
  topics,
}: {
  readonly words: readonly string[];
  readonly topics: readonly {
    readonly title: string;
    readonly rows: readonly (readonly [string, string])[];
  }[];
}): string {
  const lines = topics.flatMap(({ title, rows }) => [
    "",
    ...(title === "" ? [] : [title]),
    ...rows.map(([word, about]) => row(word, about)),
  ]);
  const more = `slipway ${[...words, "<command>", "--help"].join(" ")} explains a command.`;
  return [["Usage: slipway", ...words, "<command>"].join(" "), ...lines, "", more].join("\n");
}

/** One line of the help, or more: the words to type, and what they do. */
function row(left: string, right: string): string {
  const indent = " ".repeat(columnAt);
  const [first = "", ...more] = wrapped(right, widthMax - columnAt);
  const start =
    left.length + 4 > columnAt ? `  ${left}\n${indent}` : `  ${left.padEnd(columnAt - 2)}`;
  return [`${start}${first}`, ...more.map((line) => indent + line)].join("\n");
}
