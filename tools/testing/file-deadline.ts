// Loaded before each test file: a file that something still holds open long after its tests should
// have ended is ended, and fails. Node's runner would wait for it for ever. It also notes the
// processor time of the file.
import { processorTimesVariable, writeProcessorTime } from "./processor-time.ts";

/** Longer than any file takes in a run that draws cases; the complete forms take hours. */
const fileMaxMs = 1_200_000;
const isDrawn =
  process.env["SLIPWAY_TEST_COMPLETE"] !== "1" && process.env["SLIPWAY_TEST_FAULTS"] !== "full";

function end(): void {
  const held = process.getActiveResourcesInfo().join(", ");
  const minutes = fileMaxMs / 60_000;
  process.stderr.write(`This test file did not end in ${minutes} minutes. It still has: ${held}\n`);
  process.exit(1);
}

if (isDrawn) setTimeout(end, fileMaxMs).unref();

const timesFolder = process.env[processorTimesVariable];
const [, file] = process.argv;
if (timesFolder !== undefined && file !== undefined)
  process.once("exit", () => writeProcessorTime(timesFolder, file));
