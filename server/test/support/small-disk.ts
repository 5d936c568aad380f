// A small file system for tests that fill it: a tmpfs, which only root can mount.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folder.ts";
import { cleanLast, type WithAfter } from "./clean-last.ts";

/** Why a test that needs one is skipped; false when it can be mounted. */
export const noSmallDisk: string | false =
  process.platform === "linux" && process.getuid?.() === 0
    ? false
    : "only root can mount a small disk";

/** Mounts one; unmounted after the test. Returns its folder. */
export function smallDisk(
  t: WithAfter,
  options: { readonly megabytes: number; readonly files?: number },
): string {
  const folder = join(temporaryFolder(t, "disk"), "disk");
  mkdirSync(folder);
  const size = `size=${options.megabytes}m,nr_inodes=${options.files ?? 0},mode=700`;
  execFileSync("mount", ["-t", "tmpfs", "-o", size, "tmpfs", folder]);
  cleanLast(t, () => void execFileSync("umount", ["--lazy", folder]));
  return folder;
}
