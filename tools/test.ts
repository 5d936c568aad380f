// `npm test`: runs all tests once. Prepares the machine, starts one database for all files, runs
// node's tests and in parallel those of the Python runtime, and fails when the run leaves
// processes, files or databases behind. `npm test -- server/test/foo.test.ts` runs one file;
// options such as --test-name-pattern=… are passed to node. It draws some of the files and cases
// that are similar and slow (see drawn-files.ts and drawn-cases.ts). With
// SLIPWAY_TEST_COMPLETE=files, as in .ci/run, it runs all files, tests the Python runtime with
// every installed Python, and fails without Chromium, a Docker engine or Python instead of skipping
// tests that need them; with SLIPWAY_TEST_COMPLETE=1 all cases too.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pipSeedVariable } from "@slipway/server/test/support/give-pip.ts";
import { makePipSeed } from "@slipway/server/test/support/pip-seed.ts";
import { engineServiceVariable } from "@slipway/server/test/support/docker-engine.ts";
import { testDatabaseVariable } from "@slipway/server/test/support/test-server.ts";
import { startRunServer, type RunServer } from "./testing/databases.ts";
import { startEngineService, type EngineService } from "./testing/engine.ts";
import { makeRunFolder, type RunFolder } from "./testing/leftovers.ts";
import { prepareMachine } from "./testing/machine.ts";
import { runNodeTests, slowestOf, type Outcome } from "./testing/node-tests.ts";
import { runPythonTests, type PythonOutcome } from "./testing/python-tests.ts";
import { projectDir } from "./tidy/tree.ts";

/** All files run, and nothing may be skipped. */
const isComplete = ["files", "1"].includes(process.env["SLIPWAY_TEST_COMPLETE"] ?? "");

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

/** Of a run that leaves the Python tests out. */
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
  // A run of named files executes all cases, unless a draw is being repeated.
  if (files.length > 0 && process.env["SLIPWAY_TEST_SEED"] === undefined)
    process.env["SLIPWAY_TEST_CASES"] = "all";
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
    const python = files.length > 0 ? Promise.resolve(nothing) : runPython();
    const pip = files.length > 0 ? null : makePipSeed(folder.apart("pip"));
    pip?.catch(() => undefined);
    server = await startRunServer();
    process.env[testDatabaseVariable] = server.url;
    engine = await startEngineService(folder.apart("docker"), {
      isEager: isWhole,
      isDemanded: isComplete,
    });
    process.env[engineServiceVariable] = engine.socketPath;
    if (pip !== null) process.env[pipSeedVariable] = await pip;
    const outcome = await runNodeTests({
      patterns: files.length > 0 ? files : testFiles,
      isShort: isWhole && !isComplete,
      options,
      cwd: projectDir,
      signal: ending.signal,
      batchFolder: isWhole ? folder.apart("batches") : null,
    });
    return report(outcome, await python, await leftovers(folder, server, engine));
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
  const outcome = await runPythonTests({ isComplete, cwd: projectDir, signal: ending.signal });
  process.stdout.write(outcome.output);
  return outcome;
}

/**
 * Prints problems other than failed tests, then the summary, and returns whether everything passed.
 */
function report(outcome: Outcome, python: PythonOutcome, left: readonly string[]): boolean {
  for (const line of outcome.skipped) print(`skipped: ${line}`);
  for (const file of outcome.failed) print(`✖ ${file} failed`);
  for (const line of left) print(`✖ ${line}`);
  if (left.length > 0) print("✖ Each test removes what it makes: register it with t.after().");
  if (!python.ok) print("✖ The tests of the Python runtime failed; see above.");
  if (outcome.durations.size > slowestMax)
    print(`ℹ slowest files: ${slowestOf(outcome, slowestMax)}`);
  for (const line of outcome.counts) print(line);
  return outcome.ok && python.ok && left.length === 0;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => ending.abort());
process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1;
