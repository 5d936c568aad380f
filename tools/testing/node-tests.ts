// Runs test files with node's own runner, the slow ones first, and streams their output. Counts and
// skipped tests are returned, so that they are printed last.
import { globSync } from "node:fs";
import { availableParallelism } from "node:os";
import { relative } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { run } from "node:test";
import { spec as SpecReporter, type TestEvent } from "node:test/reporters";
import { unseenSeed } from "@slipway/server/test/support/drawn-seed.ts";
import { drawFiles } from "./drawn-files.ts";
import { isBatchFile, writeBatches } from "./batches.ts";
import { slowFiles } from "./slow-files.ts";

/**
 * The number of parallel files: one more than cores, because each sometimes waits for processes and
 * the database.
 */
const filesAtOnce = availableParallelism() + 1;
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
};

/**
 * Runs the files, which may be patterns. `options` are passed to the node that runs a file. With
 * `isShort` it leaves out some files of each group in `drawn-files.ts`, and prints which.
 */
export async function runNodeTests(given: {
  readonly patterns: readonly string[];
  readonly options: readonly string[];
  readonly cwd: string;
  readonly signal: AbortSignal;
  readonly isShort: boolean;
  /** A folder for files that run several; null: each runs in a process of its own. */
  readonly batchFolder: string | null;
}): Promise<Outcome> {
  const { patterns, options, cwd, signal, isShort, batchFolder } = given;
  const found = globSync(patterns, { cwd }).sort();
  const all = slowFilesFirst(isShort ? drawn(found) : found);
  const files = batchFolder === null ? all : writeBatches(all, { cwd, folder: batchFolder });
  if (files.length === 0) throw new Error(`there is no test file ${patterns.join(" ")}`);
  const execArgv = [...options, "--import", fileDeadline];
  const settings = { concurrency: filesAtOnce, timeout: testWaitMs, execArgv };
  const events = run({ files, cwd, signal, ...settings });
  const outcome: Outcome = { ok: false, failed: [], skipped: [], counts: [], durations: new Map() };
  await pipeline(
    Readable.from(withoutCounts(events, outcome, cwd)),
    new SpecReporter(),
    process.stdout,
    {
      end: false,
    },
  );
  return outcome;
}

function drawn(all: readonly string[]): readonly string[] {
  const { files, lines } = drawFiles(all, Number(process.env["SLIPWAY_TEST_SEED"] ?? unseenSeed()));
  for (const line of lines) process.stdout.write(`${line}\n`);
  return files;
}

function slowFilesFirst(files: readonly string[]): string[] {
  const slow = slowFiles.filter((file) => files.includes(file));
  return [...slow, ...files.filter((file) => !slow.includes(file))];
}

/** Passes on the output to print, and collects the rest in the outcome. */
async function* withoutCounts(
  events: AsyncIterable<TestEvent>,
  outcome: Outcome,
  cwd: string,
): AsyncGenerator<TestEvent, void> {
  // Of the tests of one process, whose events come together.
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

/** The files that took longest, for `slow-files.ts`. */
export function slowestOf({ durations }: Pick<Outcome, "durations">, max: number): string {
  const all = [...durations].toSorted(([, one], [, other]) => other - one).slice(0, max);
  return all.map(([file, ms]) => `${file} ${Math.round(ms / 1000)} s`).join(", ");
}
