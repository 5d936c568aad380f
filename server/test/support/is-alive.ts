// Whether a process is there, for tests of what becomes of processes.

/** True while there is a process of this id, a zombie too. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
