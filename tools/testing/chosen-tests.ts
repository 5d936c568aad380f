// What a short run of the tests has: the files that are chosen by what differs from the main
// branch, and what else they need.
import { parseSources } from "#tidy/source.ts";
import { readTree } from "#tidy/tree.ts";
import { chooseFiles, importersOf, partsCount, reachedFrom } from "./choice.ts";
import { sourceFiles } from "./choice-rules.ts";
import { readDifference, type Difference } from "./difference.ts";
import { minutesOf, secondsOf } from "./file-times.ts";
import { filesAtOnce } from "./node-tests.ts";

/** The choice, and what to print about it. */
export type ChosenTests = {
  readonly files: readonly string[];
  /** The test files among them that differ themselves. */
  readonly changed: readonly string[];
  /** The Python runtime differs, or its tests are the next. */
  readonly isPython: boolean;
  /** A file among them asks for the Docker engine. */
  readonly isDocker: boolean;
  readonly lines: readonly string[];
};

const engine = "server/test/support/docker-engine.ts";
/** So many names are printed of each reason. */
const namesMax = 6;

/** Chooses among the test files of the project in the folder. */
export function chooseTests(tests: readonly string[], folder: string): ChosenTests {
  const difference = readDifference(folder, process.env["SLIPWAY_TEST_BASE"]);
  const { changed, turn } = difference;
  const sources = parseSources(readTree(sourceFiles));
  const { files, reasons } = chooseFiles({ tests, sources, changed, turn, seconds: secondsOf });
  const onEngine = reachedFrom([engine], importersOf(sources));
  const isPython =
    turn % partsCount === 0 || changed.some((path) => path.startsWith("runtimes/python/"));
  return {
    files,
    changed: files.filter((file) => changed.includes(file)),
    isPython,
    isDocker: files.some((file) => onEngine.has(file)),
    lines: [
      `ℹ ${files.length} of ${tests.length} test files run: ${sayDifference(difference)}`,
      ...reasons.map(({ why, files: its }) => `ℹ   ${its.length} ${why}: ${shortList(its)}`),
      `ℹ   the tests of the Python runtime ${isPython ? "too" : "do not: nothing of it differs"}`,
      `ℹ about ${minutesOf(files, filesAtOnce)} of ${minutesOf(tests, filesAtOnce)} minutes as kept from an earlier run; all: SLIPWAY_TEST_COMPLETE=files npm test`,
    ],
  };
}

function sayDifference({ base, changed }: Difference): string {
  if (base === null)
    return "there is no main branch to compare with (SLIPWAY_TEST_BASE names a revision)";
  if (changed.length === 0) return `nothing differs from ${base}`;
  return `${changed.length} files differ from ${base}`;
}

function shortList(files: readonly string[]): string {
  const names = files.slice(0, namesMax).map((file) => file.replace(/^server\/test\//, ""));
  return `${names.join(", ")}${files.length > namesMax ? ", …" : ""}`;
}
