// Puts in place of a link that leads out of the app's folder what it leads to in the same
// repository, as for code that the apps of a monorepo share. Called by `git.ts` after the checkout.
// It takes files from git's objects alone, never from where a link leads on this machine, and it
// bounds how many there are.
import { readlink, rm } from "node:fs/promises";
import { join, posix } from "node:path";
import type { BuildLog } from "#drivers/builder.ts";
import type { GitResult, GitRun } from "./git-command.ts";
import { joined, TreeReader, type TreeLimits, type TreeListing } from "./git-tree.ts";

/** More are left out, as every link that leads elsewhere. */
const followedMax = 20;

type LinkRequest = {
  readonly commit: string;
  /** The app's folder in the repository, and on this machine. */
  readonly folder: string;
  readonly appDir: string;
  readonly listing: TreeListing;
  readonly limits: TreeLimits;
  readonly log: BuildLog;
  /** Runs git, and ends it when the app's folder becomes too large. */
  readonly git: (
    args: readonly string[],
    options?: { onOutput?: GitRun["onOutput"] },
  ) => Promise<GitResult>;
};

/** A folder whose links are looked at: where it is in the app and in the repository. */
type Base = {
  readonly at: string;
  readonly origin: string;
  readonly links: readonly string[];
  /** The origins of the folders that this one was put into. */
  readonly around: readonly string[];
};

/**
 * The listing with what was put in place, and where in the repository that is. What cannot be
 * followed stays a link.
 */
export async function followLinks(
  request: LinkRequest,
): Promise<{ readonly listing: TreeListing; readonly sharedPaths: readonly string[] }> {
  const { folder, log } = request;
  let { listing } = request;
  const bases: Base[] = [{ at: "", origin: folder, links: listing.links, around: [] }];
  const sharedPaths: string[] = [];
  let count = 0;
  for (const base of bases) {
    for (const link of base.links) {
      const target = await targetOf(request, base, link);
      if (target === null || count === followedMax) continue;
      count += 1;
      const at = posix.join(base.at, link);
      const found = await putInPlace({ ...request, listing }, { at, target });
      if (found === null) continue;
      log(
        "source",
        "platform",
        `The link ${at} leads to ${target} of the repository: what is there was put in its place.`,
      );
      bases.push({ at, origin: target, links: found.links, around: [...base.around, base.origin] });
      sharedPaths.push(target);
      const submodules = found.submodules.map((one) => ({
        ...one,
        origin: posix.join(target, one.origin),
      }));
      listing = joined(listing, { ...found, submodules }, at);
    }
  }
  return { listing, sharedPaths };
}

/**
 * Where in the repository a link leads; null: into its own folder, out of the repository, or around
 * in a circle.
 */
async function targetOf(
  { appDir }: LinkRequest,
  { at, origin, around }: Base,
  link: string,
): Promise<string | null> {
  const written = await readlink(join(appDir, at, link)).catch(() => null);
  if (written === null || written.startsWith("/") || written.includes("\\")) return null;
  const own = posix.join(origin, link);
  const target = posix.join(posix.dirname(own), written).replace(/\/$/, "");
  const isOutside = target === ".." || target.startsWith("../");
  if (isOutside || isBelow(target, origin) || isBelow(own, target)) return null;
  return around.some((one) => isBelow(one, target)) ? null : target;
}

function isBelow(path: string, folder: string): boolean {
  return folder === "" || folder === "." || path === folder || path.startsWith(`${folder}/`);
}

/** What is there now; null: the link stays. */
async function putInPlace(
  { git, commit, appDir, listing, limits }: LinkRequest,
  { at, target }: { readonly at: string; readonly target: string },
): Promise<TreeListing | null> {
  const named = await git(["ls-tree", "-z", commit, "--", target]);
  const [, mode = "", type = "", id = ""] =
    /^(\d+) (blob|tree) ([0-9a-f]+)\t/.exec(named.output) ?? [];
  if (type === "" || mode === "120000") return null;
  const left = {
    filesMax: limits.filesMax - listing.files,
    bytesMax: limits.bytesMax - listing.bytes,
  };
  const reader = new TreeReader(left);
  const listArgs =
    type === "tree"
      ? ["ls-tree", "-r", "-t", "-l", "-z", id]
      : ["ls-tree", "-l", "-z", commit, "--", target];
  await git(listArgs, { onOutput: (chunk) => reader.push(chunk) });
  const found = reader.result();
  if (!found.ok) return null;
  await git(["update-index", "--force-remove", "--", at]);
  await rm(join(appDir, at), { force: true });
  if (type === "tree") {
    const { isOk } = await git(["read-tree", `--prefix=${at}/`, "-u", id]);
    return isOk ? found.value : null;
  }
  await git(["update-index", "--add", "--cacheinfo", `${mode},${id},${at}`]);
  const { isOk } = await git(["checkout-index", "--force", "--", at]);
  return isOk ? { ...found.value, attributeFiles: [], smallFiles: [] } : null;
}
