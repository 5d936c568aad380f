// How a benchmark is declared. Each is a command of `main.ts`, a row of the list at the top of
// docs/benchmarks.md, and a section below it.
import type { Context } from "./context.ts";

/**
 * The options of a benchmark by name. A number is a whole one of at least 1; an empty text means
 * that the option is not given.
 */
export type Options = Readonly<Record<string, number | string>>;

/** What a section says below its heading. */
export type Report = {
  /** In sentences: under which conditions it was measured, such as the number of rounds. */
  readonly conditions: string;
  /** Programs and packages besides Node that took part, such as `nginx 1.22.1`. */
  readonly versions?: readonly string[];
  /** Lines of Markdown. */
  readonly body: readonly string[];
  /** False: it is only printed, since it is about something else than the section. */
  readonly isForDocument?: boolean;
};

/** A benchmark with the options that it knows. */
export type Benchmark<Known extends Options = Options> = {
  /** The name in the command: `node tools/bench/main.ts <name>`. */
  readonly name: string;
  /** What it measures, for the list of benchmarks. */
  readonly measures: string;
  /** The heading of its section. */
  readonly heading: string;
  /** The options with their defaults. */
  readonly options: Known;
  /** Measures, and prints as it goes. Rejects when something does not work as it must. */
  run(options: Known, context: Context): Promise<Report>;
};
