// How long each test file took in a complete run: the runner starts with the slow ones, and says
// about how long others would take. SLIPWAY_TEST_TIMES=<file> writes the times of a run, for
// file-seconds.json.
import { readFileSync, writeFileSync } from "node:fs";

const kept = new URL("file-seconds.json", import.meta.url);
/** Files that take less are not listed. */
const listedMin = 3;
/** What such a file takes. */
const othersSeconds = 1;

/** Seconds by path in the project, of a machine with two cores that ran three files at once. */
export const fileSeconds = JSON.parse(readFileSync(kept, "utf8")) as Readonly<
  Record<string, number>
>;

/** What the file took in the run that is kept. */
export function secondsOf(file: string): number {
  return fileSeconds[file] ?? othersSeconds;
}

/** The slowest first, so that none runs alone at the end. */
export function slowFirst(files: readonly string[]): string[] {
  return files.toSorted((one, other) => secondsOf(other) - secondsOf(one));
}

/** Minutes that the files take on that machine, rounded up. */
export function minutesOf(files: readonly string[], filesAtOnce: number): number {
  const sum = files.reduce((total, file) => total + secondsOf(file), 0);
  return Math.ceil(sum / filesAtOnce / 60);
}

/** Writes times in milliseconds as they are kept. */
export function writeTimes(path: string, durations: ReadonlyMap<string, number>): void {
  const listed = [...durations]
    .map(([file, ms]) => [file, Math.round(ms / 1000)] as const)
    .filter(([, seconds]) => seconds >= listedMin)
    .toSorted(([a, one], [b, other]) => other - one || a.localeCompare(b));
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(listed), null, 2)}\n`);
}
