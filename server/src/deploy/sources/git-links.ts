// Replaces links that lead out of the app's folder with their targets in the same repository, such
// as code that the apps of a monorepo share. Takes files from git's objects alone, never from the
// target of a link on this machine, and bounds their number and size. Called by `git.ts` after the
// checkout.
import { readlink, rm } from "node:fs/promises";
import { join, posix } from "node:path";
import type { BuildLog } from "#drivers/builder.ts";
import type { GitResult, GitRun } from "./git-command.ts";
import { joined, TreeReader, type TreeLimits, type TreeListing } from "./git-tree.ts";

/** The maximum number of links that are replaced; the others stay links. */
export const followedMax = 20;

type LinkRequest = {
  readonly commit: string;
  /** The path of the app's folder in the repository; `appDir` is that folder on this machine. */
  readonly folder: string;
  readonly appDir: string;
  readonly listing: TreeListing;
  readonly limits: TreeLimits;
  readonly log: BuildLog;
  /** Runs git, which only reads. */
  readonly read: (
    args: readonly string[],
    options?: { onOutput?: NonNullable<GitRun["onOutput"]> },
  ) => Promise<GitResult>;
  /** Runs git, which writes files. Rejects with a `BuildFailed` when git fails. */
  readonly write: (args: readonly string[]) => Promise<void>;
};

/**
 * A folder whose links are followed. `at` is its path in the app, `origin` its path in the
 * repository.
 */
type Base = {
  readonly at: string;
  readonly origin: string;
  readonly links: readonly string[];
  /** The origins of the folders that contain this folder. */
  readonly around: readonly string[];
};

/**
 * The listing with the files that replaced links, and the paths in the repository that they came
 * from. A link that cannot be followed stays.
 */
export async function followLinks(
  request: LinkRequest,
): Promise<{ readonly listing: TreeListing; readonly sharedPaths: readonly string[] }> {
  const { folder, log } = request;
  let { listing } = request;
  const bases: Base[] = [{ at: "", origin: folder, links: listing.links, around: [] }];
  const sharedPaths: string[] = [];
  let count = 0;
  // The loop also comes to the bases that it adds itself.
  for (const base of bases) {
    for (const link of base.links) {
      const target = await targetOf(request, base, link);
      if (target === null || count === followedMax) continue;
      count += 1;
      const at = posix.join(base.at, link);
      const replacement = await replaceLink({ ...request, listing }, { at, target });
      if (replacement === null) continue;
      log(
        "source",
        "platform",
        `The link ${at} leads to ${target} of the repository: what is there was put in its place.`,
      );
      bases.push({
        at,
        origin: target,
        links: replacement.links,
        around: [...base.around, base.origin],
      });
      sharedPaths.push(target);
      const submodules = replacement.submodules.map((submodule) => ({
        ...submodule,
        origin: posix.join(target, submodule.origin),
      }));
      listing = joined(listing, { ...replacement, submodules }, at);
    }
  }
  return { listing, sharedPaths };
}

/**
 * The path in the repository to which a link leads; null: it leads into its own folder, out of the
 * repository, or in a circle.
 */
async function targetOf(
  { appDir }: LinkRequest,
  { at, origin, around }: Base,
  link: string,
): Promise<string | null> {
  const linkText = await readlink(join(appDir, at, link)).catch(() => null);
  if (linkText === null || linkText.startsWith("/") || linkText.includes("\\")) return null;
  const linkPath = posix.join(origin, link);
  const target = posix.join(posix.dirname(linkPath), linkText).replace(/\/$/, "");
  const isOutside = target === ".." || target.startsWith("../");
  // A link into its own folder works as it is. A folder that contains the link, or one of the
  // folders around it, would go into itself without end.
  if (isOutside || isBelow(target, origin) || isBelow(linkPath, target)) return null;
  return around.some((outer) => isBelow(outer, target)) ? null : target;
}

function isBelow(path: string, folder: string): boolean {
  return folder === "" || folder === "." || path === folder || path.startsWith(`${folder}/`);
}

/**
 * Returns the listing of the files that replace the link; null: the link stays. Nothing is changed
 * before it is known that the files are there and within the limits.
 */
async function replaceLink(
  { read, write, commit, appDir, listing, limits }: LinkRequest,
  { at, target }: { readonly at: string; readonly target: string },
): Promise<TreeListing | null> {
  const entry = await read(["ls-tree", "-z", commit, "--", target]);
  const [, mode = "", type = "", id = ""] =
    /^(\d+) (blob|tree) ([0-9a-f]+)\t/.exec(entry.output) ?? [];
  // Without a type, the commit has no such file or folder. A target that is itself a link (mode
  // 120000) is not followed.
  if (type === "" || mode === "120000") return null;
  const remaining = {
    filesMax: limits.filesMax - listing.files,
    bytesMax: limits.bytesMax - listing.bytes,
  };
  const reader = new TreeReader(remaining);
  // `-l` lists the sizes too, and `-r -t` the folders below the target with what they contain.
  const listArgs =
    type === "tree"
      ? ["ls-tree", "-r", "-t", "-l", "-z", id]
      : ["ls-tree", "-l", "-z", commit, "--", target];
  const listed = await read(listArgs, { onOutput: (chunk) => reader.push(chunk) });
  const result = reader.result();
  if (!result.ok || !listed.isOk) return null;
  await write(["update-index", "--force-remove", "--", at]);
  await rm(join(appDir, at), { force: true });
  if (type === "tree") {
    await write(["read-tree", `--prefix=${at}/`, "-u", id]);
    return result.value;
  }
  await write(["update-index", "--add", "--cacheinfo", `${mode},${id},${at}`]);
  await write(["checkout-index", "--force", "--", at]);
  // The listing names the file by its path in the repository. `joined` puts the paths of a listing
  // below `at`, and the file is `at` itself, so its path is "".
  const smallFiles = result.value.smallFiles.map(() => "");
  return { ...result.value, attributeFiles: [], smallFiles };
}
