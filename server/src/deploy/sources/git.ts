// Fetches the app's folder of a repository, at one commit, into a folder of its own. Limits
// the time and the size, and leaves out `.git` and links that point outside the folder. Called by
// `deploy/make-artifact.ts`, stage `source`.
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { BuildFailed } from "#drivers/builder.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Checked } from "#deploy/checked.ts";
import { commitText, type FetchedSource, type Source } from "#deploy/source.ts";
import type { AppId, BuildId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { explainMissingBranch, isBranchMissing } from "./git-error.ts";
import type { GitResult } from "./git-command.ts";
import { checkoutsName, collectCheckouts, keepCheckout, takeCheckout } from "./git-checkouts.ts";
import { knownHostsName, prepareRemote } from "./git-folder.ts";
import { asksName, type GitRemoteOptions } from "./git-remote.ts";
import { repositoryAddress, checkBranch, checkFolder, isCommit } from "./git-url.ts";
import { findCommit, findTag, isCommitStart, isTagName, type RunGit } from "./git-ref.ts";
import { hasAttributesAbove, reportFindings } from "./git-findings.ts";
import { followLinks } from "./git-links.ts";
import { fetchLfs, type Pointer } from "./git-lfs.ts";
import { GitRuns, type Fetch, type GitRequest } from "./git-runs.ts";
import { fetchSubmodules } from "./git-submodules.ts";
import type { TreeListing } from "./git-tree.ts";

export type GitSourceOptions = GitRemoteOptions & {
  /** The maximum time for fetching one source. */
  readonly timeoutMs: number;
  readonly log: Log;
  /** Checks addresses that git hosts name, such as those of files in Git LFS. */
  readonly guard: OutwardGuard;
};

/** The maximum number of files, and the maximum number of folders, in an app's folder. */
const filesMax = 200_000;
/** The first version, major and minor, that reads settings from `GIT_CONFIG_COUNT`. */
const gitMin = [2, 31] as const;
/** How many of the last lines of git and its host a failed fetch logs: they contain the cause. */
const errorLinesMax = 50;

type Commit = { readonly commit: string; readonly message: string; readonly author: string };

/** What to fetch: a branch, a tag or a commit. */
type FetchTarget = {
  readonly ref: string;
  /** The name of the target in messages. */
  readonly name: string;
  /** The commit that must be fetched; null: any commit that the ref points to. */
  readonly pinned: string | null;
  /** The branch or tag; null: the target is a commit. */
  readonly branch: string | null;
};

type Fetched = Commit & {
  /** The given fetch; or its copy with the repository's default branch, if that was used. */
  readonly fetch: Fetch;
  /** The branch or tag that led to the commit; null: the commit itself was named. */
  readonly branch: string | null;
};

/** Fetches sources into `sourcesDir/<buildId>`. */
export class GitSource implements Source {
  readonly #options: GitSourceOptions;
  readonly #runs: GitRuns;

  constructor(options: GitSourceOptions) {
    this.#options = options;
    this.#runs = new GitRuns(options);
  }

  async check(): Promise<void> {
    const { git, log } = this.#options;
    const version = await git.version(AbortSignal.timeout(10_000));
    const [major = 0, minor = 0] = (version ?? "").split(".").map(Number);
    if (version === null) log.warn("git is not installed: no app can be deployed");
    else if (major < gitMin[0] || (major === gitMin[0] && minor < gitMin[1])) {
      log.warn(
        { git: version },
        `git is too old to fetch safely: ${gitMin.join(".")} or newer is needed`,
      );
    } else log.debug({ git: version }, "found git");
  }

  async fetch(request: GitRequest): Promise<FetchedSource & Commit> {
    const prepared = await this.#prepare(request);
    try {
      const { fetch, commit, branch, message, author } = await this.#fetchCommit(prepared);
      const subject = message.split("\n", 1)[0] ?? "";
      request.log(
        "source",
        "platform",
        `Commit ${commit} of ${fetch.repository} by ${author}: ${subject}`,
      );
      const { content, sharedPaths } = await this.#putFiles(fetch, commit);
      const { checkoutOf: appId } = request;
      if (appId !== null) await keepCheckout({ ...this.#options, gitDir: fetch.gitDir, appId });
      await removeFolder(fetch.gitDir);
      // `#fetchCommit` returns another fetch only with the repository's default branch.
      const defaultBranch = fetch === prepared ? null : fetch.branch;
      const { appDir } = fetch;
      return { commit, content, message, author, branch, defaultBranch, appDir, sharedPaths };
    } catch (error) {
      await this.remove(request.buildId);
      throw error;
    }
  }

  async remove(buildId: BuildId): Promise<void> {
    await removeFolder(join(this.#options.sourcesDir, buildId));
  }

  async collect(
    readBuilding: () => Promise<readonly BuildId[]>,
    readApps: (appIds: readonly string[]) => Promise<readonly AppId[]>,
  ): Promise<void> {
    const names = await readdir(this.#options.sourcesDir).catch(() => []);
    const kept = new Set<string>([
      knownHostsName,
      checkoutsName,
      asksName,
      ...(await readBuilding()),
    ]);
    for (const name of names) {
      if (!kept.has(name)) await removeFolder(join(this.#options.sourcesDir, name));
    }
    await collectCheckouts(this.#options.sourcesDir, readApps);
  }

  async #prepare(request: GitRequest): Promise<Fetch> {
    // An app without a repository has the address "", which `repositoryAddress` refuses.
    const { url, canonical } = valueOf(
      repositoryAddress(request.settings.gitRepo ?? "", this.#options.hosts),
    );
    const branch = valueOf(checkBranch(request.settings.gitBranch));
    const folder = valueOf(checkFolder(request.settings.gitPath));
    await this.remove(request.buildId);
    const buildDir = join(this.#options.sourcesDir, request.buildId);
    const gitDir = join(buildDir, "git");
    const appDir = join(buildDir, "app");
    const { sourcesDir, findCredential } = this.#options;
    await mkdir(buildDir, { recursive: true, mode: 0o700 });
    // This folder is readable for everybody: copies of it keep the mode, and commands of the build
    // run as other users.
    await mkdir(appDir);
    if (request.checkoutOf !== null) await takeCheckout(sourcesDir, request.checkoutOf, gitDir);
    // The folder exists already if the app's checkout was moved to it.
    await mkdir(gitDir, { recursive: true, mode: 0o700 });
    const { projectId, isBranchGiven } = request;
    const remote = await prepareRemote({ url, gitDir, sourcesDir, projectId, findCredential });
    const deadlineMs = this.#options.clock.monotonicMs() + this.#options.timeoutMs;
    const limits = { filesMax, bytesMax: this.#options.bytesMax };
    const wanted = { request, gitDir, appDir, folder, branch, isBranchGiven };
    return { ...wanted, repository: canonical, remote, deadlineMs, limits };
  }

  /**
   * Fetches one commit without its history: the pinned commit, or the one that the branch's name
   * means. The name may also be that of a tag or a commit, see `#tagOrCommit`. If the branch was
   * only a default and is missing, the repository's default branch is used.
   */
  async #fetchCommit(fetch: Fetch): Promise<Fetched> {
    await this.#runs.run(fetch, ["init", "--quiet", "--template="]);
    const { commit } = fetch.request;
    if (commit !== null) return await this.#fetchAndRead(fetch, await this.#pin(fetch, commit));
    const tag = isTagName(fetch.branch) ? await this.#tagOrCommit(fetch) : null;
    if (tag !== null) return await this.#fetchAndRead(fetch, tag);
    const branch = targetOfBranch(fetch.branch);
    const result = await this.#fetchTarget(fetch, branch);
    if (result.isOk) return await this.#readCommit(fetch, branch);
    if (!isBranchMissing(result)) throw new BuildFailed(await this.#explainFetch(fetch, result));
    const alternative = await this.#tagOrCommit(fetch);
    if (alternative !== null) return await this.#fetchAndRead(fetch, alternative);
    const defaultBranch = await this.#defaultBranch(fetch);
    if (defaultBranch === null) throw new BuildFailed(await this.#explainFetch(fetch, result));
    const withDefault = { ...fetch, branch: defaultBranch };
    return await this.#fetchAndRead(withDefault, targetOfBranch(defaultBranch));
  }

  /**
   * What the branch's name means besides a branch: a tag, or a commit whose id begins with the
   * name. Null: the name means neither, or it is only our default.
   */
  async #tagOrCommit(fetch: Fetch): Promise<FetchTarget | null> {
    const { branch, repository, request, remote, isBranchGiven } = fetch;
    if (!isBranchGiven) return null;
    const run = (args: readonly string[]) => this.#runs.run(fetch, args, { isRemote: true });
    const tag = await findTag(run, remote.url.url, branch);
    if (tag !== null) {
      // Somebody who gives the full name of a tag knows that it is no branch.
      if (!isTagName(branch))
        request.log(
          "source",
          "platform",
          `${repository} has a tag ${branch}, and no branch of that name.`,
        );
      return { ref: tag, name: `tag ${branch}`, pinned: null, branch };
    }
    return isCommitStart(branch) ? await this.#pin(fetch, branch) : null;
  }

  /** The commit whose id begins with `digits`. Does not check that a complete id exists. */
  async #pin(fetch: Fetch, digits: string): Promise<FetchTarget> {
    const { repository, request } = fetch;
    let found: Awaited<ReturnType<typeof findCommit>> = { ok: true, value: digits };
    if (!isCommit(digits)) {
      request.log("source", "platform", `Looking for the commit ${digits} of ${repository} …`);
      // The search fetches all commits of the repository, into a git folder that is removed again.
      const apart = await this.#runs.apart(fetch, { name: "commits" });
      await this.#runs.run(apart, ["init", "--quiet", "--template="]);
      const run = this.#runnerOf(apart);
      found = await findCommit(run, { url: apart.remote.url.url, repository, digits });
      await removeFolder(apart.gitDir);
    }
    // Without `ok`, `found` is the result of a git command that failed.
    if (!("ok" in found)) throw new BuildFailed(await this.#explainFetch(fetch, found));
    const commit = valueOf(found);
    return { ref: commit, name: commit, pinned: commit, branch: null };
  }

  async #fetchAndRead(fetch: Fetch, target: FetchTarget): Promise<Fetched> {
    const result = await this.#fetchTarget(fetch, target);
    if (!result.isOk) throw new BuildFailed(await this.#explainFetch(fetch, result));
    return await this.#readCommit(fetch, target);
  }

  async #fetchTarget(fetch: Fetch, { ref, name }: FetchTarget): Promise<GitResult> {
    fetch.request.log("source", "platform", `Fetching ${name} of ${fetch.repository} …`);
    return await this.#runs.fetchRef(fetch, ref);
  }

  /** Reads the commit that was fetched, and checks it against the pinned one. */
  async #readCommit(fetch: Fetch, { name, pinned, branch }: FetchTarget): Promise<Fetched> {
    const [commit = "", author = "", ...lines] = (await this.#runs.readHead(fetch)).split("\n");
    if (!isCommit(commit)) {
      const what = name.charAt(0).toUpperCase() + name.slice(1);
      throw new BuildFailed(`${what} of ${fetch.repository} does not point to a commit.`);
    }
    if (pinned !== null && commit !== pinned) {
      throw new BuildFailed(`${fetch.remote.url.host} sent commit ${commit} instead of ${pinned}.`);
    }
    const message = commitText(lines.join("\n").trim(), "message");
    return { fetch, commit, author: commitText(author, "author"), message, branch };
  }

  /**
   * The repository's own default branch, if `branch` is only our default. Null: `branch` was given,
   * or is the repository's default too, or the repository has none that is usable.
   */
  async #defaultBranch(fetch: Fetch): Promise<string | null> {
    const { request, repository, branch, remote, isBranchGiven } = fetch;
    if (isBranchGiven) return null;
    const args = ["ls-remote", "--symref", "--end-of-options", remote.url.url, "HEAD"];
    const { output } = await this.#runs.run(fetch, args, { isRemote: true });
    const found = /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(output)?.[1];
    if (found === undefined || found === branch || !checkBranch(found).ok) return null;
    const said = `${repository} has no branch ${branch}, and gitBranch is not set: its default branch ${found} is used.`;
    request.log("source", "platform", said);
    return found;
  }

  /** The sentence for a failed fetch. Also logs the last messages of git and its host. */
  async #explainFetch(fetch: Fetch, result: GitResult): Promise<string> {
    const { repository, remote, branch, request } = fetch;
    // Messages of ssh contain the path of its known-hosts file. The log must not tell people where
    // the platform's folders are.
    const errorText = result.errorOutput.trim().replaceAll(`${this.#options.sourcesDir}/`, "");
    const lines = errorText.split("\n").slice(-errorLinesMax);
    for (const line of lines) request.log("source", "stderr", line);
    if (request.commit === null && isBranchMissing(result)) {
      const list = await this.#runs.run(
        fetch,
        ["ls-remote", "--heads", "--end-of-options", remote.url.url],
        {
          isRemote: true,
        },
      );
      const branches = list.output
        .split("\n")
        .flatMap((line) => /\trefs\/heads\/(.+)$/.exec(line)?.[1] ?? []);
      return explainMissingBranch({ repository, branch, branches });
    }
    return this.#runs.explain(fetch, result);
  }

  /** Puts the files into the app's folder. `content` in the result identifies them. */
  async #putFiles(fetch: Fetch, commit: string) {
    const { request, appDir, repository, folder } = fetch;
    const runs = this.#runs;
    const listed = await runs.list(fetch, commit);
    if (listed.files === 0)
      throw new BuildFailed(`The folder "${folder || "/"}" of ${repository} contains no files.`);
    await runs.checkOut(fetch, commit);
    const { listing: linked, sharedPaths } = await this.#followLinks(fetch, commit, listed);
    const { gitSubmodules, gitLfs } = request.fetchesOf(appDir);
    const { hosts, guard } = this.#options;
    const { listing, repositories } = gitSubmodules
      ? await fetchSubmodules({ fetch, commit, listing: linked, runs, hosts })
      : { listing: linked, repositories: [{ at: "", fetch }] };
    const checkTime = (): void => runs.checkTime(fetch);
    const hasAttributes = await hasAttributesAbove(runs, fetch, commit);
    const reporting = {
      log: request.log,
      checkTime,
      isSubmodulesOn: gitSubmodules,
      isLfsOn: gitLfs,
      hasAttributes,
    };
    const pointers = await reportFindings(appDir, listing, reporting);
    if (gitLfs && pointers.length > 0) {
      requireSizeWithLfs(fetch, { listing, pointers });
      const lfsRepositories = repositories.map(({ at, fetch: { repository: name, remote } }) => ({
        at,
        repository: name,
        remote,
      }));
      const noun = pointers.length === 1 ? "file" : "files";
      request.log("source", "platform", `Fetching ${pointers.length} ${noun} of Git LFS …`);
      await runs.withinTime(fetch, (signal) =>
        fetchLfs({ appDir, pointers, repositories: lfsRepositories, guard, signal }),
      );
    }
    // The same commit gives other files with submodules or LFS, so `content` says what was fetched.
    const additions = [gitSubmodules ? " with submodules" : "", gitLfs ? " with LFS" : ""].join("");
    return { content: commit + additions, sharedPaths };
  }

  async #followLinks(
    fetch: Fetch,
    commit: string,
    listing: TreeListing,
  ): ReturnType<typeof followLinks> {
    const { folder, appDir, request } = fetch;
    // Without `gitPath`, the app's folder has all files of the repository, so links need no others.
    if (folder === "" || listing.links.length === 0) return { listing, sharedPaths: [] };
    const { limits } = fetch;
    return await followLinks({
      commit,
      folder,
      appDir,
      listing,
      limits,
      log: request.log,
      read: (args, options) => this.#runs.run(fetch, args, options),
      write: (args) => this.#runs.write(fetch, args),
    });
  }

  /** Runs git in the folders of `fetch`. */
  #runnerOf(fetch: Fetch): RunGit {
    return (args, { onOutput } = {}) => {
      // A command with `onOutput` only lists what git has. Most others write files, so all of them
      // are measured.
      if (onOutput !== undefined) return this.#runs.run(fetch, args, { onOutput });
      return this.#runs.runMeasured(fetch, args);
    };
  }
}

function targetOfBranch(branch: string): FetchTarget {
  return { ref: `refs/heads/${branch}`, name: `branch ${branch}`, pinned: null, branch };
}

/** Throws `BuildFailed` when the repository is too large, including its files of Git LFS. */
function requireSizeWithLfs(
  { repository, limits }: Fetch,
  files: { readonly listing: TreeListing; readonly pointers: readonly Pointer[] },
): void {
  const bytes = files.pointers.reduce((sum, { size }) => sum + size, files.listing.bytes);
  if (bytes <= limits.bytesMax) return;
  const megabytes = Math.round(limits.bytesMax / 1_000_000);
  throw new BuildFailed(
    `With its files of Git LFS, ${repository} is larger than ${megabytes} MB, the maximum that the operator allows (SLIPWAY_GIT_SIZE_MB).`,
  );
}

function valueOf<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new BuildFailed(checked.reason);
  return checked.value;
}
