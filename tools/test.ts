// `npm test`: runs tests once. Prepares the machine, starts one database for all files, runs node's
// tests and in parallel those of the Python runtime, and fails when the run leaves processes, files
// or databases behind. Which files run is chosen by what differs from the main branch (see
// testing/choice.ts). `npm test -- server/test/foo.test.ts` runs one file; options such as
// --test-name-pattern=… are passed to node. With SLIPWAY_TEST_COMPLETE=files, as in .ci/run, it
// runs all files, and the Python runtime's tests with the oldest and the newest Python, and fails
// without Chromium, a Docker engine or Python instead of skipping tests that need them; with
// SLIPWAY_TEST_COMPLETE=1 all cases (see drawn-cases.ts) and every Python too.
import { spawnSync } from "node:child_process";
import { join, relative } from "node:path";
import { pipSeedVariable } from "@slipway/server/test/support/give-pip.ts";
import { makePipSeed } from "@slipway/server/test/support/pip-seed.ts";
import { engineServiceVariable } from "@slipway/server/test/support/docker-engine.ts";
import { testDatabaseVariable } from "@slipway/server/test/support/test-server.ts";
import { startRunServer, type RunServer } from "./testing/databases.ts";
import { startEngineService, type EngineService } from "./testing/engine.ts";
import { makeRunFolder, type RunFolder } from "./testing/leftovers.ts";
import { prepareMachine } from "./testing/machine.ts";
import { minutesOf, writeTimes } from "./testing/file-times.ts";
import {
  processorSeconds,
  processorTimesVariable,
  readProcessorTimes,
} from "./testing/processor-time.ts";
import {
  filesAtOnce,
  findTests,
  runNodeTests,
  slowestOf,
  type Outcome,
} from "./testing/node-tests.ts";
import { runPythonTests, type PythonOutcome } from "./testing/python-tests.ts";
import { chooseTests } from "./testing/chosen-tests.ts";
import { projectDir } from "./tidy/tree.ts";

/** All files run, and nothing may be skipped. */
const isComplete = ["files", "1"].includes(process.env["SLIPWAY_TEST_COMPLETE"] ?? "");
/** All cases of them run, and every Python. */
const hasAllCases = process.env["SLIPWAY_TEST_COMPLETE"] === "1";

/** Where tests are; benchmarks run separately. */
const testFiles = [
  "contract/**/*.test.ts",
  "server/src/**/*.test.ts",
  "server/test/**/*.test.ts",
  "server/sim/**/*.test.ts",
  "cli/**/*.test.ts",
  "tools/!(bench)/**/*.test.ts",
  "tools/*.test.ts",
  "dashboard/src/**/*.test.ts",
];

/** So many of the slowest files are named at the end of a run of more. */
const slowestMax = 40;

/** The outcome of a run that leaves the Python tests out. */
const nothing: PythonOutcome = { ok: true, output: "" };

/** A signal to the runner ends everything that it started. */
const ending = new AbortController();

/** One line for each thing that the tests left behind. Ends processes that still run, by id. */
async function leftovers(
  folder: RunFolder,
  server: RunServer,
  engine: EngineService,
): Promise<string[]> {
  const databases = await server.databasesLeft();
  await server.stop();
  const onEngine = await engine.stop();
  const processes = folder.processesLeft();
  for (const { pid } of processes) process.kill(pid, "SIGKILL");
  return [
    ...databases.map((name) => `left behind: the database ${name}`),
    ...onEngine.map((name) => `left behind: ${name}`),
    ...processes.map(({ pid, command }) => `left behind: process ${pid}: ${command}`),
    ...folder.filesLeft().map((name) => `left behind: ${join(folder.path, name)}`),
  ];
}

async function main(parameters: readonly string[]): Promise<boolean> {
  const options = parameters.filter((one) => one.startsWith("-"));
  const files = parameters.filter((one) => !one.startsWith("-"));
  /** Whoever names tests finds them in every file. */
  const isWhole =
    files.length === 0 && !options.some((one) => one.startsWith("--test-name-pattern"));
  const missing = prepareMachine(print);
  if (isComplete && missing.length > 0) {
    print(
      `✖ Nothing may be skipped here, but ${missing.join(" and ")} cannot be had: install it, or run npm test.`,
    );
    return false;
  }
  const all = findTests(files.length > 0 ? files : testFiles, projectDir);
  const chosen = isWhole && !isComplete ? chooseTests(all, projectDir) : null;
  for (const line of chosen?.lines ?? []) print(line);
  // A run of named files executes all cases, and so does a file that differs itself, unless a draw
  // is being repeated.
  if (process.env["SLIPWAY_TEST_SEED"] === undefined)
    process.env["SLIPWAY_TEST_CASES"] =
      files.length > 0 ? "all" : (chosen?.changed ?? []).join(",");
  if (!buildDashboard()) {
    print("✖ The dashboard was not built: tests of its pages fail.");
    if (isComplete) return false;
  }
  const folder = makeRunFolder();
  process.env["TMPDIR"] = folder.path;
  // A connection to the package index that stalls is given up soon, whatever the machine says, and
  // tried again.
  process.env["PIP_DEFAULT_TIMEOUT"] = "30";
  process.env["UV_HTTP_TIMEOUT"] = "30";
  // Each test file and each platform is a separate process, and compiling the same code again takes
  // over half of its start.
  process.env["NODE_COMPILE_CACHE"] ??= join(projectDir, "node_modules/.cache/compiled");
  let server: RunServer | undefined;
  let engine: EngineService | undefined;
  try {
    // While the database starts. A single file seldom needs pip, and installs it itself.
    const isPython = isWhole && (chosen?.isPython ?? true);
    const python = isPython ? runPython() : Promise.resolve(nothing);
    const pip = files.length > 0 ? null : makePipSeed(folder.apart("pip"));
    pip?.catch(() => undefined);
    server = await startRunServer();
    process.env[testDatabaseVariable] = server.url;
    const processorTimes = folder.apart("processor-times");
    process.env[processorTimesVariable] = processorTimes;
    engine = await startEngineService(folder.apart("docker"), {
      isEager: isWhole && (chosen?.isDocker ?? true),
      isDemanded: isComplete,
    });
    process.env[engineServiceVariable] = engine.socketPath;
    if (pip !== null) process.env[pipSeedVariable] = await pip;
    const outcome = await runNodeTests({
      files: chosen?.files ?? all,
      options,
      cwd: projectDir,
      signal: ending.signal,
      batchFolder: isWhole ? folder.apart("batches") : null,
    });
    if (process.env["SLIPWAY_TEST_TIMES"] !== undefined)
      writeTimes(process.env["SLIPWAY_TEST_TIMES"], outcome.durations);
    const pythonOutcome = await python;
    const left = await leftovers(folder, server, engine);
    const times = isWhole ? sayTimes(outcome, all) : [];
    if (all.length > 1) times.push(sayProcessorTime(processorTimes));
    return report(outcome, pythonOutcome, left, times);
  } finally {
    ending.abort();
    await server?.stop();
    await engine?.stop();
    folder.remove();
  }
}

/**
 * Tests look at the pages as they are built; it takes milliseconds when they are. Returns whether
 * they are there.
 */
function buildDashboard(): boolean {
  const built = spawnSync(process.execPath, ["tools/dashboard.mjs"], {
    cwd: projectDir,
    stdio: ["ignore", "inherit", "inherit"],
  });
  return built.status === 0;
}

async function runPython(): Promise<PythonOutcome> {
  const outcome = await runPythonTests({
    isComplete,
    hasAll: hasAllCases,
    cwd: projectDir,
    signal: ending.signal,
  });
  process.stdout.write(outcome.output);
  return outcome;
}

/**
 * Prints problems other than failed tests, then the summary, and returns whether everything passed.
 */
function report(
  outcome: Outcome,
  python: PythonOutcome,
  left: readonly string[],
  times: readonly string[],
): boolean {
  for (const line of outcome.skipped) print(`skipped: ${line}`);
  for (const file of outcome.failed) print(`✖ ${file} failed`);
  for (const line of left) print(`✖ ${line}`);
  if (left.length > 0) print("✖ Each test removes what it makes: register it with t.after().");
  if (!python.ok) print("✖ The tests of the Python runtime failed; see above.");
  if (outcome.durations.size > slowestMax)
    print(`ℹ slowest files: ${slowestOf(outcome, slowestMax)}`);
  for (const line of [...outcome.counts, ...times]) print(line);
  return outcome.ok && python.ok && left.length === 0;
}

/** What the files of this run took, and what all of them would. */
function sayTimes({ durations, tookMs }: Outcome, all: readonly string[]): string[] {
  // A failed test may have been started by a helper, which is no test file.
  const ran = all.filter((file) => durations.has(file)).length;
  const minutes = (tookMs / 60_000).toFixed(1);
  const allMinutes = minutesOf(all, filesAtOnce);
  return [
    `ℹ ${ran} of ${all.length} test files took ${minutes} minutes; all take about ${allMinutes}`,
  ];
}

/** What all of the run took, and which files took the most. What containers did is not known. */
function sayProcessorTime(folder: string): string {
  const files = readProcessorTimes(folder)
    .filter(([, seconds]) => seconds >= 1)
    .slice(0, slowestMax)
    .map(([file, seconds]) => `${relative(projectDir, file)} ${Math.round(seconds)} s`);
  const minutes = (processorSeconds() / 60).toFixed(1);
  return `ℹ ${minutes} minutes of processor time, without containers; the most: ${files.join(", ")}`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => ending.abort());
process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1;
