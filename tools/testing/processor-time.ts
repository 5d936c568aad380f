// How much processor time each test file took, with the processes that it started and waited for:
// what makes a run slow on two cores. A file's process writes its own when it exits; the runner
// reads them at the end. Only on Linux; elsewhere nothing is known.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The variable with the folder that files write to. */
export const processorTimesVariable = "SLIPWAY_TEST_PROCESSOR_TIMES";

/** Ticks per second in /proc; 100 on all common systems. */
const ticksPerSecond = 100;

/** Seconds that this process has used, and those of its processes that have ended. */
export function processorSeconds(): number {
  try {
    // The name in parentheses may contain spaces. The fields 14 to 17 are the user and the system
    // time of the process, and those of the processes that it waited for.
    const fields = readFileSync("/proc/self/stat", "latin1")
      .replace(/^.*\) /s, "")
      .split(" ");
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return ticks / ticksPerSecond;
  } catch {
    return 0;
  }
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
