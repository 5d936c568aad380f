// How much processor time each test file took, with the processes that it started and waited for:
// what makes a run slow on two cores. A file's process writes its own when it exits; the runner
// reads them at the end. Only on Linux; elsewhere nothing is known.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { processStat } from "#process-stat.ts";

/** The variable with the folder that files write to. */
export const processorTimesVariable = "SLIPWAY_TEST_PROCESSOR_TIMES";

/** Seconds that this process has used, and those of its processes that have ended. */
export function processorSeconds(): number {
  return processStat(process.pid)?.seconds ?? 0;
}

/** Writes what this process has used to the folder, under the name of its test file. */
export function writeProcessorTime(folder: string, file: string): void {
  writeFileSync(join(folder, `${process.pid}`), `${processorSeconds()} ${file}`);
}

/** Seconds by file, the highest first. */
export function readProcessorTimes(folder: string): [file: string, seconds: number][] {
  const times = readdirSync(folder).map((name): [string, number] => {
    const [seconds = "", ...file] = readFileSync(join(folder, name), "utf8").split(" ");
    return [file.join(" "), Number(seconds)];
  });
  return times.toSorted(([, one], [, other]) => other - one);
}
