// Reads the machine's mounts, which sandboxes need for two reasons: a read-only mount of a folder
// does not affect file systems that are mounted below it, and in a user namespace a mount must keep
// its flags. Pure.

/** One mount of the machine. */
export type SystemMount = {
  /** The path at which the file system is mounted. */
  readonly at: string;
  /** The mount's flags that cannot be removed, each followed by a comma: `nosuid,nodev,`. */
  readonly flags: string;
};

/** The flags that a mount in a user namespace must keep. */
const keptFlags = ["nosuid", "nodev", "noexec"];

/**
 * Parses /proc/self/mountinfo, whose lines are `id parent device root path options …`, with special
 * characters of a path in octal. Of several mounts at one path, returns only the last, which covers
 * the others.
 */
export function readMounts(mountinfo: string): readonly SystemMount[] {
  const found = new Map<string, SystemMount>();
  for (const line of mountinfo.split("\n")) {
    const [, , , , path, options] = line.split(" ");
    if (path === undefined || options === undefined) continue;
    const at = path.replaceAll(/\\([0-7]{3})/g, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 8)),
    );
    const flags = keptFlags.filter((flag) => options.split(",").includes(flag));
    // Deleted first, so that the mount moves to the end of the map's order.
    found.delete(at);
    found.set(at, { at, flags: flags.map((flag) => `${flag},`).join("") });
  }
  return [...found.values()];
}

/** The flags of the file system that a path lies on. */
export function flagsAt(path: string, mounts: readonly SystemMount[]): string {
  let nearest: SystemMount | undefined;
  for (const mount of mounts) {
    if (isBelow(path, mount.at) && mount.at.length >= (nearest?.at.length ?? 0)) nearest = mount;
  }
  return nearest?.flags ?? "";
}

/** The mounts below a folder; a mount comes before those inside it. */
export function mountsBelow(
  folder: string,
  mounts: readonly SystemMount[],
): readonly SystemMount[] {
  const below = mounts.filter(({ at }) => at !== folder && isBelow(at, folder));
  return below.toSorted((a, b) => a.at.length - b.at.length);
}

/** True when `path` is `folder` or inside it. */
export function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}
