// Lets one process at a time install or build; the others wait and find everything done. The lock
// is a file with the id of the process that holds it, so that one whose holder was killed is taken
// over.
import { closeSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { adviceFor, SetupRefused } from "./npm.mjs";

/** The longest time that one installation may take before another one stops waiting for it. */
const waitMs = 15 * 60_000;

/**
 * Holds the lock during `work`. Throws SetupRefused when another process does not give it back.
 * @param {string} path @param {() => Promise<void>} work
 */
export async function withLock(path, work) {
  await takeLock(path);
  try {
    await work();
  } finally {
    rmSync(path, { force: true });
  }
}

async function takeLock(path) {
  const giveUpAt = Date.now() + waitMs;
  for (;;) {
    try {
      const file = openSync(path, "wx");
      writeFileSync(file, String(process.pid));
      closeSync(file);
      return;
    } catch (error) {
      if (error.code !== "EEXIST") {
        throw new SetupRefused(`${error.message}. ${adviceFor(error.code, dirname(path))}`, {
          cause: error,
        });
      }
    }
    if (isStale(path)) rmSync(path, { force: true });
    else if (Date.now() > giveUpAt)
      throw new SetupRefused(`Another setup holds ${path}; remove it if none runs.`);
    else await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** True when the process that wrote the file has exited. */
function isStale(path) {
  try {
    const pid = Number(readFileSync(path, "utf8"));
    // A process killed between creating the file and writing its id leaves it empty.
    if (pid === 0) return Date.now() - statSync(path).mtimeMs > 5_000;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}
