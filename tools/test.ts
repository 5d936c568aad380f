// `npm test`: everything that is tested, once. Prepares the machine, starts one database for all files, runs the Python
// runtime's tests and then node's, and fails when the run leaves processes, files or databases behind.
// `npm test -- server/test/foo.test.ts` runs one file; options such as --test-name-pattern=… are passed to node.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { startRunServer, type RunServer } from "./testing/databases.ts";
import { makeRunFolder, type RunFolder } from "./testing/leftovers.ts";
import { prepareMachine } from "./testing/machine.ts";
import { runNodeTests, type Outcome } from "./testing/node-tests.ts";
import { projectDir } from "./tidy/tree.ts";

/** Where tests are; benchmarks are run on their own. */
const testFiles = [
  "contract/**/*.test.ts",
  "server/src/**/*.test.ts",
  "server/test/**/*.test.ts",
  "server/sim/**/*.test.ts",
  "cli/**/*.test.ts",
  "tools/!(bench)/**/*.test.ts",
  "tools/*.test.ts",
];
const pythonTests = "runtimes/python/tests/run.py";

/** The one child that runs at the moment; a signal to the runner is passed on to it. */
let running: ChildProcess | undefined;

async function runPython(): Promise<boolean> {
  if (!existsSync(join(projectDir, pythonTests))) return true;
  print("Tests of the Python runtime:");
  const child = spawn("python3", [pythonTests], {
    cwd: projectDir,
    stdio: ["ignore", "inherit", "inherit"],
  });
  running = child;
  return new Promise((resolve) => {
    child.on("error", (error) => {
      print(`The tests of the Python runtime are skipped: python3 cannot be run (${error.message}).`);
      resolve(true);
    });
    child.on("close", (status) => resolve(status === 0));
  });
}

/** One line about each thing that the tests left. Ends what still runs, by its id. */
async function leftovers(folder: RunFolder, server: RunServer): Promise<string[]> {
  const databases = await server.databasesLeft();
  await server.stop();
  const processes = folder.processesLeft();
  for (const { pid } of processes) process.kill(pid, "SIGKILL");
  return [
    ...databases.map((name) => `left behind: the database ${name}`),
    ...processes.map(({ pid, command }) => `left behind: process ${pid}: ${command}`),
    ...folder.filesLeft().map((name) => `left behind: ${join(folder.path, name)}`),
  ];
}

async function main(parameters: readonly string[]): Promise<boolean> {
  const options = parameters.filter((one) => one.startsWith("-"));
  const files = parameters.filter((one) => !one.startsWith("-"));
  prepareMachine(print);
  const folder = makeRunFolder();
  process.env["TMPDIR"] = folder.path;
  let server: RunServer | undefined;
  try {
    server = await startRunServer();
    const pythonOk = files.length > 0 || (await runPython());
    const outcome = await runNodeTests({
      files: files.length > 0 ? files : testFiles,
      options,
      cwd: projectDir,
      environment: { ...process.env, SLIPWAY_TEST_DATABASE: server.url },
      onStart: (child) => (running = child),
    });
    return report(outcome, pythonOk, await leftovers(folder, server));
  } finally {
    await server?.stop();
    folder.remove();
  }
}

/** Prints what is wrong besides failed tests, then the closing lines, and says whether all is well. */
function report(outcome: Outcome, pythonOk: boolean, left: readonly string[]): boolean {
  for (const line of outcome.failures) print(line);
  for (const line of left) print(`✖ ${line}`);
  if (left.length > 0) print("✖ Each test removes what it makes: register it with t.after().");
  if (!pythonOk) print(`✖ The tests of the Python runtime failed; see above, or run: python3 ${pythonTests}`);
  for (const line of outcome.closingLines) print(line);
  return outcome.ok && pythonOk && left.length === 0;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => running?.kill(signal));
process.exitCode = (await main(process.argv.slice(2))) ? 0 : 1;
