// Runs several small test files in one process, since most of their time would be loading the same
// modules again: a file for the runner imports them. Files that start processes, or change their
// own, run alone.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { secondsOf, slowFirst } from "./file-times.ts";

/** How many files run in one process. */
const batchSize = 12;
/** A file that takes longer runs alone. */
const smallSecondsMax = 10;
/** Any of it in a file lets it run alone. */
const alone = [
  /node:child_process|\bprocess\.|\bglobalThis\.|\bmock\./,
  // Tests seem to be in the file that draws them, and a file that differs draws all of its cases.
  /\b(?:drawTests|drawCases|countOf)\(/,
  // They start processes, or replace what the process prints.
  /\b(?:platform-on-test-server|command-line)\.ts"/,
  // The others do not wait while such a file is loaded, and the end of their tests is taken for the
  // end of all.
  /^(?:const|let|for|await)\b.*\bawait\b/m,
];

/** Whether it is one that runs others. */
export function isBatchFile(path: string): boolean {
  return path.endsWith(".batch.mjs");
}

/**
 * The files to run instead: the slow ones, the batches, which are written to the folder, and the
 * others that run alone.
 */
export function writeBatches(
  files: readonly string[],
  { cwd, folder }: { readonly cwd: string; readonly folder: string },
): string[] {
  const isAlone = (file: string): boolean => {
    if (secondsOf(file) > smallSecondsMax) return true;
    const source = readFileSync(join(cwd, file), "utf8");
    return alone.some((mark) => mark.test(source));
  };
  const slow = slowFirst(files).filter((file) => secondsOf(file) > smallSecondsMax);
  const rest = files.filter((file) => !slow.includes(file));
  const small = rest.filter((file) => !isAlone(file));
  const count = Math.ceil(small.length / batchSize);
  const batches = Array.from({ length: count }, (_, index) => {
    const path = join(folder, `${index + 1}.batch.mjs`);
    // Neighbours in a folder take about as long: each batch gets some of all.
    const its = small.filter((__, place) => place % count === index);
    writeFileSync(
      path,
      its.map((file) => `import "${pathToFileURL(join(cwd, file)).href}";\n`).join(""),
    );
    return path;
  });
  return [...slow, ...batches, ...rest.filter(isAlone)];
}
