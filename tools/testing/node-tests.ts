// Runs test files with node's own runner, the slow ones first, and streams their output. Counts and
// skipped tests are returned, so that they are printed last.
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { relative } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { run } from "node:test";
import { spec as SpecReporter, type TestEvent } from "node:test/reporters";
import { isBatchFile, writeBatches } from "./batches.ts";
import { slowFirst } from "./file-times.ts";

/**
 * The number of parallel files: one more than cores, because each sometimes waits for processes and
 * the database.
 */
export const filesAtOnce = availableParallelism() + 1;
/** A test that takes longer is considered hung. */
const testWaitMs = 300_000;
/** Ends a file that hangs. */
const fileDeadline = new URL("file-deadline.ts", import.meta.url).href;

/** The result of a run. */
export type Outcome = {
  ok: boolean;
  /** Files that failed. */
  readonly failed: string[];
  /** Each skipped test, with its file and the reason. */
  readonly skipped: string[];
  /** The number of tests, passed tests and failed tests. */
  readonly counts: string[];
  /** How long each file took, in milliseconds. */
  readonly durations: Map<string, number>;
  /** How long all of them took together, several at once. */
  tookMs: number;
};

/** The test files that match the patterns, in alphabetical order; throws if there are none. */
export function findTests(patterns: readonly string[], cwd: string): string[] {
  const files = globSync(patterns, { cwd }).sort();
  if (files.length === 0) throw new Error(`there is no test file ${patterns.join(" ")}`);
  return files;
}

/** Runs the files. `options` are passed to the node that runs a file. */
export async function runNodeTests(given: {
  readonly files: readonly string[];
  readonly options: readonly string[];
  readonly cwd: string;
  readonly signal: AbortSignal;
  /** A folder for files that run several; null: each runs in a process of its own. */
  readonly batchFolder: string | null;
}): Promise<Outcome> {
  const { options, cwd, signal, batchFolder } = given;
  const all = slowFirst(given.files);
  const files = batchFolder === null ? all : writeBatches(all, { cwd, folder: batchFolder });
  const execArgv = [...options, "--import", fileDeadline];
  const settings = { concurrency: filesAtOnce, timeout: testWaitMs, execArgv };
  const events = run({ files, cwd, signal, ...settings });
  const begunAt = performance.now();
  const outcome: Outcome = {
    ok: false,
    failed: [],
    skipped: [],
    counts: [],
    durations: new Map(),
    tookMs: 0,
  };
  await pipeline(
    Readable.from(withoutCounts(events, outcome, cwd)),
    new SpecReporter(),
    process.stdout,
    {
      end: false,
    },
  );
  outcome.tookMs = performance.now() - begunAt;
  return outcome;
}

/** Passes on the output to print, and collects the rest in the outcome. */
async function* withoutCounts(
  events: AsyncIterable<TestEvent>,
  outcome: Outcome,
  cwd: string,
): AsyncGenerator<TestEvent, void> {
  // The durations of the tests of one process, whose events come together.
  let durations = new Map<string, number>();
  let failed = new Set<string>();
  for await (const event of events) {
    // Events without a file concern the whole run.
    if (event.type === "test:diagnostic" && event.data.file === undefined) {
      outcome.counts.push(`ℹ ${event.data.message}`);
      continue;
    }
    if (event.type === "test:pass" || event.type === "test:fail") {
      const { name, nesting, details, skip } = event.data;
      const file = relative(cwd, event.data.file ?? "");
      if (nesting === 0) durations.set(file, (durations.get(file) ?? 0) + details.duration_ms);
      if (event.type === "test:fail") failed.add(file);
      else if (skip !== undefined) {
        outcome.skipped.push(`${file}: ${name}${typeof skip === "string" ? ` (${skip})` : ""}`);
      }
    }
    if (event.type === "test:summary") {
      const { file, success, duration_ms } = event.data;
      if (file === undefined) outcome.ok = success;
      else {
        const isBatch = isBatchFile(file) && durations.size > 0;
        const name = relative(cwd, file);
        for (const [one, ms] of isBatch ? durations : [[name, duration_ms] as const])
          outcome.durations.set(one, ms);
        if (!success) outcome.failed.push(...(isBatch && failed.size > 0 ? failed : [name]));
        durations = new Map();
        failed = new Set();
      }
    }
    yield event;
  }
}

/** The files that took longest. */
export function slowestOf({ durations }: Pick<Outcome, "durations">, max: number): string {
  const all = [...durations].toSorted(([, one], [, other]) => other - one).slice(0, max);
  return all.map(([file, ms]) => `${file} ${Math.round(ms / 1000)} s`).join(", ");
}
