// Fetches the submodules of an app's folder, at the commits that the repository names, into their
// folders. Uses only hosts from which apps may be fetched, with the project's credential for the
// host. Limits their number and depth; the limits of size and time hold for the app's repository
// and its submodules together. Called by `git.ts` after the checkout, if the settings ask for it.
import { realpath } from "node:fs/promises";
import { join, posix } from "node:path";
import { BuildFailed } from "#drivers/builder.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { GitHosts } from "#apps/repository.ts";
import type { Fetch, GitRuns } from "./git-runs.ts";
import { joined, type Submodule, type TreeListing } from "./git-tree.ts";
import { repositoryAddress } from "./git-url.ts";

/** The maximum number of submodules, far more than apps usually have: each one is a fetch. */
const submodulesMax = 50;
/** The maximum depth of submodules within submodules, deeper than apps usually nest them. */
const depthMax = 4;

/** A repository in the app's folder. `at` is its path there, "" for the app's own repository. */
export type PlacedFetch = { readonly at: string; readonly fetch: Fetch };

type SubmoduleRequest = {
  readonly fetch: Fetch;
  readonly commit: string;
  readonly listing: TreeListing;
  readonly runs: GitRuns;
  readonly hosts: GitHosts;
};

/** `depth` is the number of repositories that contain this one. */
type Placed = PlacedFetch & {
  readonly commit: string;
  readonly listing: TreeListing;
  readonly depth: number;
};

/**
 * The listing with all fetched files, and the repositories. Rejects with a `BuildFailed` that names
 * the submodule.
 */
export async function fetchSubmodules(
  request: SubmoduleRequest,
): Promise<{ readonly listing: TreeListing; readonly repositories: readonly PlacedFetch[] }> {
  const { fetch: root, commit, runs } = request;
  const repositories: Placed[] = [
    { at: "", fetch: root, commit, listing: request.listing, depth: 0 },
  ];
  let { listing } = request;
  // The loop also comes to the repositories that it adds itself.
  for (const outer of repositories) {
    const { submodules } = outer.listing;
    // A refusal because of their number or depth names the first one.
    const [first] = submodules;
    if (first !== undefined) {
      const path = posix.join(outer.at, first.path);
      // The first repository is the app's own, not a submodule.
      const count = repositories.length - 1 + submodules.length;
      if (count > submodulesMax)
        throw refused(path, `there are more than ${submodulesMax} submodules`);
      if (outer.depth === depthMax)
        throw refused(path, `submodules are nested more than ${depthMax} deep`);
      const addresses = await readModules(runs, outer.fetch, outer.commit);
      for (const submodule of submodules) {
        const name = `module-${repositories.length}`;
        const placed = await fetchOne(request, {
          outer,
          submodule,
          url: addresses.get(submodule.origin),
          name,
          listing,
        });
        repositories.push(placed);
        listing = joined(listing, placed.listing, placed.at);
      }
      // `git.ts` still needs the git folder of the app's own repository, and removes it later.
      if (outer.at !== "") await removeFolder(outer.fetch.gitDir);
    }
  }
  // Submodules that stay in the listing are reported as not fetched.
  const fetched = new Set(repositories.map(({ at }) => at));
  const submodules = listing.submodules.filter(({ path }) => !fetched.has(path));
  return { listing: { ...listing, submodules }, repositories };
}

/** The addresses of the submodules by their paths, as .gitmodules has them. */
async function readModules(
  runs: GitRuns,
  fetch: Fetch,
  commit: string,
): Promise<Map<string, string>> {
  const args = [
    "config",
    "--blob",
    `${commit}:.gitmodules`,
    "--null",
    "--get-regexp",
    "^submodule\\..*\\.(path|url)$",
  ];
  const { output } = await runs.run(fetch, args);
  // Each entry is a key (`submodule.<name>.path` or `submodule.<name>.url`), a newline and a value.
  const values = new Map(
    output.split("\0").map((entry) => {
      const end = entry.indexOf("\n");
      return [entry.slice(0, end).trim(), entry.slice(end + 1)] as const;
    }),
  );
  const urls = new Map<string, string>();
  for (const [key, path] of values) {
    if (!key.endsWith(".path")) continue;
    const urlKey = key.replace(/path$/, "url");
    urls.set(path, values.get(urlKey) ?? "");
  }
  return urls;
}

/** Where a submodule is fetched from. Throws `BuildFailed` for an address that is not allowed. */
function addressOf(submodule: {
  readonly path: string;
  readonly url: string | undefined;
  readonly from: Fetch;
  readonly hosts: GitHosts;
}): { readonly url: Fetch["remote"]["url"]; readonly canonical: string } {
  const { path, url = "", from, hosts } = submodule;
  if (url === "") throw refused(path, `.gitmodules of ${from.repository} has no address for it`);
  // A relative address begins with ./ or ../
  const absolute = /^\.\.?\//.test(url) ? resolveRelative(url, from) : url;
  const address = absolute === null ? null : repositoryAddress(absolute, hosts);
  if (address?.ok === true) return address.value;
  const why =
    address === null
      ? "leads out of the git host of this repository. Write its whole URL in .gitmodules"
      : "is not on a git host that this platform fetches from. Change it in .gitmodules, or ask the operator to add its host to SLIPWAY_GIT_HOSTS";
  throw refused(path, `its address ${JSON.stringify(withoutUser(url).slice(0, 200))} ${why}`);
}

/**
 * Resolves a relative address as git does: against the address of the repository that has the
 * submodule. Null: the address leads out of the git host, or to a path without an owner.
 */
function resolveRelative(url: string, { repository, remote }: Fetch): string | null {
  const { path } = remote.url;
  const target = posix.join(path, url.replace(/\/$/, "")).replace(/\.git$/, "");
  // The part of `repository` before `path` is kept, so `repository` must end with `path`.
  if (target.startsWith("..") || !target.includes("/") || !repository.endsWith(path)) return null;
  return repository.slice(0, repository.length - path.length) + target;
}

/** Removes user and password, which no message may show. */
function withoutUser(url: string): string {
  return url.replace(/^([a-z+]+:\/\/)[^/@]*@/i, "$1");
}

/** Fetches one submodule into its folder. Rejects with a `BuildFailed` that names the submodule. */
async function fetchOne(
  { fetch: root, runs, hosts }: SubmoduleRequest,
  nested: {
    readonly outer: Placed;
    readonly submodule: Submodule;
    readonly url: string | undefined;
    /** The name of the git folder for this fetch. */
    readonly name: string;
    /** The listing of all files fetched so far. */
    readonly listing: TreeListing;
  },
): Promise<Placed> {
  const { outer, submodule, url, name, listing: soFar } = nested;
  const { commit } = submodule;
  const at = posix.join(outer.at, submodule.path);
  const address = addressOf({ path: at, url, from: outer.fetch, hosts });
  const appDir = join(root.appDir, at);
  // A link on the path would lead the fetched files to another folder.
  const realDir = await realpath(appDir).catch(() => null);
  if (realDir !== join(await realpath(root.appDir), at))
    throw refused(at, "its folder is not one of the app");
  const { filesMax, bytesMax } = root.limits;
  const limits = {
    filesMax: filesMax - soFar.files,
    bytesMax: bytesMax - soFar.bytes,
    isRest: true,
  };
  const changes = { name, url: address.url, repository: address.canonical, appDir, limits };
  const fetch = await runs.apart(outer.fetch, changes);
  root.request.log(
    "source",
    "platform",
    `Fetching ${commit} of ${fetch.repository} for the submodule ${at} …`,
  );
  await runs.run(fetch, ["init", "--quiet", "--template="]);
  const fetched = await runs.fetchRef(fetch, commit);
  // `refused` sets the period at the end.
  if (!fetched.isOk)
    throw refused(at, runs.explain(fetch, fetched, { isSubmodule: true }).replace(/\.$/, ""));
  const listing = await runs.list(fetch, commit);
  await runs.checkOut(fetch, commit);
  // The git folder is still needed to read .gitmodules if there are submodules in the submodule.
  // Otherwise it is removed at once: nothing limits the git folders of all submodules together.
  if (listing.submodules.length === 0) await removeFolder(fetch.gitDir);
  return { at, fetch, commit, listing, depth: outer.depth + 1 };
}

function refused(path: string, why: string): BuildFailed {
  return new BuildFailed(`The submodule ${path} cannot be fetched: ${why}.`);
}
