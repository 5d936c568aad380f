// Import this in a test file, and the file fails when, after its tests, there is still a child process, an open server,
// connection or timer, or a temporary folder of it: `import "#test/support/leftovers.ts";`.
import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { after } from "node:test";
import { temporaryPrefix } from "./folder.ts";

/** What is open when the file starts: the connection to the runner and standard output. */
const openAtStart = countByName(process.getActiveResourcesInfo());

/** How long the process may take to end after its tests: databases and servers that it started are stopped in that time. */
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

/** How long a child that is about to end has: what it was there for may be known before it is gone. */
const childEndMs = 3_000;

/** Children that do not end by themselves; waits for the others, in one piece, since nothing else runs at an exit. */
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
    // There is no /proc here; the open ProcessWrap says it too.
    return [];
  }
}

/** False for one that has ended and was only not asked for its exit code. */
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

// What is open keeps the process alive. Unless it ends by itself after the last test, it is ended with a list of why.
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
