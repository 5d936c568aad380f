// Finds the folder in which the kernel stores the changes to an overlay. Pure.

/**
 * Returns the folder with the changes to the overlay at this mount point; null when there is no
 * overlay. `mounts` is the text of a file /proc/…/mountinfo.
 */
export function upperFolder(mounts: string, mountPoint: string): string | null {
  // The fifth field of a line is the mount point.
  const line = mounts.split("\n").find((mount) => mount.split(" ")[4] === mountPoint);
  return /[ ,]upperdir=([^, ]+)/.exec(line ?? "")?.[1] ?? null;
}
