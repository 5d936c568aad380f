// `node tools/bench/main.ts <benchmark> [options]`: measures, prints, and writes a section of
// docs/benchmarks.md. Without a benchmark it lists them with their options.
import { benchmarks } from "./benchmarks.ts";
import { readCommand, type Command } from "./harness/command-line.ts";
import { inContext } from "./harness/context.ts";
import { sectionOf, writeSection } from "./harness/document.ts";

function command(): Command {
  try {
    return readCommand(process.argv.slice(2), benchmarks);
  } catch (error) {
    console.error((error as Error).message);
    process.exit(1);
  }
}

const { benchmark, options, isWritten } = command();
const report = await inContext((context) => benchmark.run(options, context));
const section = sectionOf(benchmark.heading, report);
console.log(`\n${section}`);
if (isWritten && report.isForDocument !== false) writeSection(section, benchmarks);
