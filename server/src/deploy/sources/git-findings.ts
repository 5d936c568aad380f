// Checks the files of a checkout: reports in the build's log what was not fetched, and removes
// links that point outside the folder. Both the work and the number of log lines are limited,
// whatever a repository has. Called by `git.ts`.
import { lstat, readFile, readlink, realpath, rm } from "node:fs/promises";
import { dirname, join, resolve, sep } from "node:path";
import type { BuildLog } from "#drivers/builder.ts";
import { readPointers, type Pointer } from "./git-lfs.ts";
import { followedMax } from "./git-links.ts";
import type { Fetch, GitRuns } from "./git-runs.ts";
import type { TreeListing } from "./git-tree.ts";

const lfsFilter = "filter=lfs";
/** The maximum number of folders in which to look for attributes; each takes a run of git. */
const foldersAboveMax = 20;
/** How many names a warning lists; it counts the others. */
const namesShownMax = 5;
/** How many links have a warning of their own; the others are counted. */
const linksShownMax = 20;

type CheckOptions = {
  readonly log: BuildLog;
  /** Throws after the deadline of the fetch. */
  readonly checkTime: () => void;
  /** True when the app's settings ask for submodules. */
  readonly isSubmodulesOn: boolean;
  /** True when the app's settings ask for Git LFS. */
  readonly isLfsOn: boolean;
  /** True when a folder above the app's has attributes for Git LFS. */
  readonly hasAttributes: boolean;
};

/** Checks the files, and returns the pointers of Git LFS among them. */
export async function reportFindings(
  appDir: string,
  listing: TreeListing,
  { log, checkTime, isSubmodulesOn, isLfsOn, hasAttributes }: CheckOptions,
): Promise<Pointer[]> {
  const warn = (text: string): void => log("source", "platform", `Warning: ${text}`);
  if (listing.submodules.length > 0) {
    const paths = named(listing.submodules.map(({ path }) => path));
    const how = isSubmodulesOn ? "" : ` To fetch them: ${howToSet("gitSubmodules", "submodules")}.`;
    warn(`submodules are not fetched; these folders are empty: ${paths}.${how}`);
  }
  const root = await realpath(appDir);
  let removedCount = 0;
  for (const link of listing.links) {
    checkTime();
    const target = await outsideTarget(root, link);
    if (target === null) continue;
    await rm(join(root, link), { force: true });
    removedCount += 1;
    if (removedCount > linksShownMax) continue;
    warn(
      `the link ${link} points outside the app's folder, to ${target}, and was left out. Only links to a file or folder of the same repository are followed, at most ${followedMax} of them, while the files are not too many or too large. Copy the files into the app's folder, or set gitPath to a folder that also contains them.`,
    );
  }
  const moreCount = removedCount - linksShownMax;
  if (moreCount > 0)
    warn(`${moreCount} more links point outside the app's folder and were left out.`);
  const isUsed = hasAttributes || (await usesLfs(root, listing.attributeFiles));
  const pointers = isUsed ? await readPointers(root, listing.smallFiles, checkTime) : [];
  if (pointers.length > 0 && !isLfsOn) {
    const paths = named(pointers.map(({ path }) => path));
    const how = `To fetch them: ${howToSet("gitLfs", "lfs")}. Or download them when the app starts`;
    warn(
      `files stored in Git LFS are not fetched; these contain only a pointer: ${paths}. ${how}.`,
    );
  }
  return pointers;
}

/** The target of a link that points outside the folder; null when it points inside. */
async function outsideTarget(root: string, link: string): Promise<string | null> {
  const path = join(root, link);
  // `git-links.ts` may have put files in the link's place.
  if (!(await lstat(path)).isSymbolicLink()) return null;
  const target = await readlink(path);
  const isInside = (path: string | null): boolean =>
    path === root || path?.startsWith(root + sep) === true;
  const folder = dirname(path);
  // Both must be inside: the path that the link names, and where other links on this path lead.
  const staysInside =
    isInside(resolve(folder, target)) && isInside(await realTarget(folder, target));
  return staysInside ? null : target.slice(0, 200);
}

/**
 * The path of a link's target after other links on the way are followed, as far as they exist. Null
 * when it cannot be known.
 */
async function realTarget(from: string, target: string): Promise<string | null> {
  // `join` would drop `..` together with the part before it. If this part is a link, `..` means the
  // parent of the link's target.
  const parts = `${from}/${target}`.split("/");
  // If a part exists, so do all parts before it: a binary search finds the last that exists in few
  // steps, however long the target is. The first part is the empty text before the first "/". It
  // stands for the root, which exists. The first `existing` parts exist, and the first `missing`
  // parts do not: at the beginning `missing` is more than there are.
  let existing = 1;
  let missing = parts.length + 1;
  let real = "/";
  while (missing - existing > 1) {
    const middle = Math.floor((existing + missing) / 2);
    const path = parts.slice(0, middle).join("/");
    const found = await realpath(path === "" ? "/" : path).catch(() => null);
    if (found === null) missing = middle;
    else {
      existing = middle;
      real = found;
    }
  }
  const rest = parts.slice(existing);
  return rest.includes("..") ? null : join(real, ...rest);
}

/** Whether a `.gitattributes` in a folder above the app's assigns files to Git LFS. */
export async function hasAttributesAbove(
  runs: GitRuns,
  fetch: Fetch,
  commit: string,
): Promise<boolean> {
  if (fetch.folder === "") return false;
  const parts = fetch.folder.split("/").slice(0, foldersAboveMax);
  // Begins with the root of the repository, and ends before the app's own folder.
  for (const [depth] of parts.entries()) {
    const path = [...parts.slice(0, depth), ".gitattributes"].join("/");
    const { output } = await runs.run(fetch, ["cat-file", "blob", `${commit}:${path}`]);
    if (output.includes(lfsFilter)) return true;
  }
  return false;
}

function howToSet(field: string, key: string): string {
  return `set ${field} of the app to true, or ${key} = true below [slipway.git] in its slipway.toml`;
}

async function usesLfs(root: string, attributeFiles: readonly string[]): Promise<boolean> {
  for (const name of attributeFiles) {
    if ((await readFile(join(root, name), "utf8")).includes(lfsFilter)) return true;
  }
  return false;
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, namesShownMax).join(", ");
  return names.length > namesShownMax ? `${shown} and ${names.length - namesShownMax} more` : shown;
}
