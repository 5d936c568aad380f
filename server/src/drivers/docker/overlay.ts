// Where the kernel puts what is written to an overlay. Pure.

/**
 * The folder with the changes to what is mounted there, in a text as of /proc/…/mountinfo; null: it
 * is no overlay.
 */
export function upperFolder(mounts: string, mountPoint: string): string | null {
  const line = mounts.split("\n").find((one) => one.split(" ")[4] === mountPoint);
  return /[ ,]upperdir=([^, ]+)/.exec(line ?? "")?.[1] ?? null;
}
