// Import this in a test file to make the file fail if a child process, an open server, connection
// or timer, or a temporary folder remains after its tests: `import "#test/support/leftovers.ts";`.
import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after } from "node:test";
import { temporaryPrefix } from "./folder.ts";

/** What is open when the file starts: the connection to the runner and standard output. */
const openAtStart = countByName(process.getActiveResourcesInfo());

/**
 * The deadline for the process to exit after its tests; it includes stopping its databases and
 * servers.
 */
const endWaitMs = 20_000;

function openHandles(): string[] {
  const open = countByName(process.getActiveResourcesInfo());
  return [...open].flatMap(([name, count]) => {
    const extra = count - (openAtStart.get(name) ?? 0);
    return extra > 0 ? [`${extra} × open ${name}`] : [];
  });
}

function countByName(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/**
 * The grace time for exiting children: a test may see a child's result before the child is gone.
 */
const childEndMs = 3_000;

/**
 * Children that do not exit on their own. Blocks while it waits for the others, since no event loop
 * runs during exit.
 */
function childProcesses(): string[] {
  const endsAt = performance.now() + childEndMs;
  const pause = new Int32Array(new SharedArrayBuffer(4));
  let alive = livingChildren();
  while (alive.length > 0 && performance.now() < endsAt) {
    Atomics.wait(pause, 0, 0, 10);
    alive = livingChildren();
  }
  return alive.map((pid) => `child process ${pid}`);
}

function livingChildren(): string[] {
  try {
    const pids = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim();
    return pids === "" ? [] : pids.split(" ").filter(isRunning);
  } catch {
    // No /proc on this system; the open ProcessWrap reports the child too.
    return [];
  }
}

/** False for a zombie: it has exited, but its exit code was not read yet. */
function isRunning(pid: string): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

function temporaryFolders(): string[] {
  return readdirSync(tmpdir())
    .filter((name) => name.startsWith(temporaryPrefix))
    .map((name) => `temporary folder ${name}`);
}

function complain(left: readonly string[]): void {
  process.stderr.write(`The tests of this file left: ${left.join(", ")}\n`);
  process.exitCode = 1;
}

// Open handles keep the process alive. If it does not exit after the last test, it is ended with a
// list of the handles.
after(() => {
  const timer = setTimeout(() => {
    complain(openHandles());
    process.exit(1);
  }, endWaitMs);
  timer.unref();
});

process.once("exit", () => {
  const left = [...childProcesses(), ...temporaryFolders()];
  if (left.length > 0) complain(left);
});
