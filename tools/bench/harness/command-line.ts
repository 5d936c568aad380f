// Reads the parameters of `main.ts`: which benchmark runs, and with which options.
import { parseArgs } from "node:util";
import type { Benchmark, Options } from "./benchmark.ts";

/** A benchmark to run. `isWritten`: its section is put into docs/benchmarks.md. */
export type Command = {
  readonly benchmark: Benchmark;
  readonly options: Options;
  readonly isWritten: boolean;
};

/** Throws an error that names what is wrong, followed by what there is. */
export function readCommand(
  parameters: readonly string[],
  benchmarks: readonly Benchmark[],
): Command {
  const [name = ""] = parameters;
  const benchmark = benchmarks.find((one) => one.name === name);
  if (benchmark === undefined) {
    const mistake = name === "" ? "Name a benchmark." : `There is no benchmark ${name}.`;
    throw new Error(`${mistake}\n\n${listOf(benchmarks)}`);
  }
  try {
    const { isWritten, options } = readOptions(parameters.slice(1), benchmark.options);
    return { benchmark, options, isWritten };
  } catch (error) {
    throw new Error(`${(error as Error).message}\n\n${listOf([benchmark])}`, { cause: error });
  }
}

function readOptions(parameters: readonly string[], defaults: Options): Omit<Command, "benchmark"> {
  const known: Record<string, { readonly type: "string" | "boolean" }> = {
    "no-write": { type: "boolean" },
  };
  for (const option of Object.keys(defaults)) known[option] = { type: "string" };
  const { values } = parseArgs({ args: parameters, options: known });
  const options: Record<string, number | string> = { ...defaults };
  for (const [option, byDefault] of Object.entries(defaults)) {
    const given = values[option];
    if (typeof given !== "string") continue;
    options[option] = typeof byDefault === "string" ? given : readNumber(option, given);
  }
  return { options, isWritten: values["no-write"] !== true };
}

function readNumber(option: string, given: string): number {
  if (/^[1-9]\d*$/.test(given)) return Number(given);
  throw new Error(`--${option} is "${given}", and must be a whole number of at least 1.`);
}

/** The options as one writes them, with their defaults. */
export function optionsText(options: Options): string {
  return Object.entries(options)
    .map(([option, byDefault]) => `--${option}=${byDefault === "" ? "…" : byDefault}`)
    .join(" ");
}

function listOf(benchmarks: readonly Benchmark[]): string {
  const rows = benchmarks.map(
    ({ name, measures, options }) =>
      `  ${name.padEnd(14)}${measures}\n  ${" ".repeat(14)}${optionsText(options)}`,
  );
  return [
    "node tools/bench/main.ts <benchmark> [options]",
    "",
    ...rows,
    "",
    "It prints a section of docs/benchmarks.md, and puts it there unless --no-write is given.",
  ].join("\n");
}
