// Closes the descriptors beyond standard input, output and error that this process inherited (`exec
// 200<FILE; npm start`, as `flock` and CI runners do), so that no child process inherits them.
// `run-platform.ts` calls it before anything else.
import { closeSync, readdirSync, readFileSync } from "node:fs";

/**
 * The FD_CLOEXEC bit in the flags that the kernel shows: a child process does not inherit a
 * descriptor with this bit.
 */
const closeOnExec = 0o2000000;

/**
 * Closes every descriptor above 2 that child processes would inherit, and returns their numbers.
 * Node.js already marks its own descriptors close-on-exec, including the channel to a parent
 * process and the lowest inherited ones. Returns null when the system does not list descriptors
 * (macOS, where Node.js starts programs so that they inherit nothing).
 */
export function closeInheritedDescriptors(): readonly number[] | null {
  let names: string[];
  try {
    names = readdirSync("/proc/self/fdinfo");
  } catch {
    return null;
  }
  const inherited = names
    .map(Number)
    .filter((descriptor) => descriptor > 2 && isInherited(descriptor));
  for (const descriptor of inherited) closeSync(descriptor);
  return inherited;
}

function isInherited(descriptor: number): boolean {
  let info: string;
  try {
    info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8");
  } catch {
    // It is the descriptor with which the list itself was read, and is closed by now.
    return false;
  }
  const flags = Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(info)?.[1] ?? "0", 8);
  // A child process inherits the descriptor if the bit is not set.
  return Math.floor(flags / closeOnExec) % 2 === 0;
}
