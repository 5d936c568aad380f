// Whether a process exists, for tests that start or kill processes.

/** True if a process with this id exists, including a zombie. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
