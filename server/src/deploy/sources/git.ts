// Fetches the app's folder of a repository at one pinned commit into a separate folder: bounded in time and size,
// without `.git`, and without links that lead out of it. Called by `deploy/build.ts`, stage `source`.
import { buildAgain, changeAndBuild } from "@slipway/contract/advice.ts";
import { mkdir, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BuildFailed } from "#drivers/builder.ts";
import { removeFolder } from "#drivers/remove-folder.ts";
import type { Checked } from "#deploy/checked.ts";
import { commitText, type FetchedSource, type Source, type SourceRequest } from "#deploy/source.ts";
import type { BuildId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { explainGitFailure, explainMissingBranch, isBranchMissing } from "./git-error.ts";
import { cpuTimeExitCode, type GitResult, type GitRun } from "./git-command.ts";
import { checkoutsName, collectCheckouts, keepCheckout, takeCheckout } from "./git-checkouts.ts";
import { knownHostsName, prepareRemote, whileMeasured } from "./git-folder.ts";
import { asksName, type GitRemoteOptions } from "./git-remote.ts";
import { repositoryAddress, checkBranch, checkFolder, isCommit } from "./git-url.ts";
import { findCommit, findTag, isCommitStart, type RunGit } from "./git-ref.ts";
import { reportFindings } from "./git-findings.ts";
import { followLinks } from "./git-links.ts";
import { TreeReader, type TreeListing } from "./git-tree.ts";

export type GitSourceOptions = GitRemoteOptions & { readonly timeoutMs: number; readonly log: Log };

const filesMax = 200_000;
const gitMin = [2, 31] as const;
const fetchedRef = "refs/slipway/source";
/** Error lines of git and its host to show when a fetch fails; the last ones contain the cause. */
const errorLinesMax = 50;

type Request = Omit<SourceRequest, "uploadId">;
type Commit = { readonly commit: string; readonly message: string; readonly author: string };

/** What is fetched. */
type Wanted = {
  readonly ref: string;
  /** For the log. */
  readonly said: string;
  /** Null: whatever commit it points to. */
  readonly pinned: string | null;
  /** The branch or tag; null: a commit. */
  readonly branch: string | null;
};

type Fetch = {
  readonly request: Request;
  readonly gitDir: string;
  readonly appDir: string;
  readonly repository: string;
  readonly folder: string;
  readonly branch: string;
  readonly isBranchGiven: boolean;
  readonly remote: NonNullable<GitRun["remote"]>;
  /** On the monotonic clock. */
  readonly deadlineMs: number;
};

/** `fetch`: with the branch that was used. */
type Fetched = Commit & { readonly fetch: Fetch; readonly branch: string | null };

/** Fetches sources into `sourcesDir/<buildId>`. */
export class GitSource implements Source {
  readonly #options: GitSourceOptions;

  constructor(options: GitSourceOptions) {
    this.#options = options;
  }

  async check(): Promise<void> {
    const { git, log } = this.#options;
    const version = await git.version(AbortSignal.timeout(10_000));
    const [major = 0, minor = 0] = (version ?? "").split(".").map(Number);
    if (version === null) log.warn("git is not installed: no app can be deployed");
    else if (major < gitMin[0] || (major === gitMin[0] && minor < gitMin[1])) {
      log.warn({ git: version }, `git is too old to fetch safely: ${gitMin.join(".")} or newer is needed`);
    } else log.debug({ git: version }, "found git");
  }

  async fetch(request: Request): Promise<FetchedSource & Commit> {
    const prepared = await this.#prepare(request);
    try {
      const { fetch, commit, branch, ...said } = await this.#fetchCommit(prepared);
      const subject = said.message.split("\n", 1)[0] ?? "";
      request.log("source", "platform", `Commit ${commit} of ${fetch.repository} by ${said.author}: ${subject}`);
      const listed = await this.#list(fetch, commit);
      await this.#checkOut(fetch, commit);
      const { listing, sharedPaths } = await this.#followLinks(fetch, commit, listed);
      const checkTime = (): void => this.#checkTime(fetch);
      await reportFindings(fetch.appDir, listing, { log: request.log, checkTime });
      const { checkoutOf: appId } = request;
      if (appId !== null) await keepCheckout({ ...this.#options, gitDir: fetch.gitDir, appId });
      await removeFolder(fetch.gitDir);
      const defaultBranch = fetch === prepared ? null : fetch.branch;
      return { commit, content: commit, ...said, branch, defaultBranch, appDir: fetch.appDir, sharedPaths };
    } catch (error) {
      await this.remove(request.buildId);
      throw error;
    }
  }

  async remove(buildId: BuildId): Promise<void> {
    await removeFolder(join(this.#options.sourcesDir, buildId));
  }

  async collect(...[readBuilding, readApps]: Parameters<Source["collect"]>): Promise<void> {
    const names = await readdir(this.#options.sourcesDir).catch(() => []);
    const kept = new Set<string>([knownHostsName, checkoutsName, asksName, ...(await readBuilding())]);
    for (const name of names) {
      if (!kept.has(name)) await removeFolder(join(this.#options.sourcesDir, name));
    }
    await collectCheckouts(this.#options.sourcesDir, readApps);
  }

  async #prepare(request: Request): Promise<Fetch> {
    const { url, canonical } = valueOf(repositoryAddress(request.settings.gitRepo ?? "", this.#options.hosts));
    const branch = valueOf(checkBranch(request.settings.gitBranch));
    const folder = valueOf(checkFolder(request.settings.gitPath));
    await this.remove(request.buildId);
    const buildDir = join(this.#options.sourcesDir, request.buildId);
    const gitDir = join(buildDir, "git");
    const appDir = join(buildDir, "app");
    const { sourcesDir, findCredential } = this.#options;
    await mkdir(buildDir, { recursive: true, mode: 0o700 });
    // Copies keep its mode, and commands of the build run as another user.
    await mkdir(appDir);
    if (request.checkoutOf !== null) await takeCheckout(sourcesDir, request.checkoutOf, gitDir);
    await mkdir(gitDir, { recursive: true, mode: 0o700 });
    const { projectId, isBranchGiven } = request;
    const remote = await prepareRemote({ url, gitDir, sourcesDir, projectId, findCredential });
    const deadlineMs = this.#options.clock.monotonicMs() + this.#options.timeoutMs;
    return { request, gitDir, appDir, repository: canonical, folder, branch, isBranchGiven, remote, deadlineMs };
  }

  /**
   * Fetches the pinned commit, else what the branch's name means (`#meaningOf`), without its history. Returns `fetch` with the
   * repository's default branch when that was used instead.
   */
  async #fetchCommit(fetch: Fetch): Promise<Fetched> {
    await this.#git(fetch, ["init", "--quiet", "--template="]);
    const { commit } = fetch.request;
    if (commit !== null) return await this.#take(fetch, await this.#commitWanted(fetch, commit));
    const head = await this.#fetchWanted(fetch, branchWanted(fetch.branch));
    if (head.isOk) return await this.#read(fetch, branchWanted(fetch.branch));
    if (!isBranchMissing(head)) throw new BuildFailed(await this.#explainFetch(fetch, head));
    const other = await this.#meaningOf(fetch);
    if (other !== null) return await this.#take(fetch, other);
    const defaultBranch = await this.#defaultBranch(fetch);
    if (defaultBranch === null) throw new BuildFailed(await this.#explainFetch(fetch, head));
    return await this.#take({ ...fetch, branch: defaultBranch }, branchWanted(defaultBranch));
  }

  /** Where there is no branch of the name: the tag of the name, else the commit that begins so; null: nothing. */
  async #meaningOf(fetch: Fetch): Promise<Wanted | null> {
    const { branch, repository, request, remote, isBranchGiven } = fetch;
    if (!isBranchGiven) return null;
    const run = (args: readonly string[]) => this.#git(fetch, args, { isRemote: true });
    const tag = await findTag(run, remote.url.url, branch);
    if (tag !== null) {
      request.log("source", "platform", `${repository} has a tag ${branch}, and no branch of that name.`);
      return { ref: tag, said: `tag ${branch}`, pinned: null, branch };
    }
    return isCommitStart(branch) ? await this.#commitWanted(fetch, branch) : null;
  }

  /** A full id is taken as it is. */
  async #commitWanted(fetch: Fetch, digits: string): Promise<Wanted> {
    const { repository, request } = fetch;
    let found: Awaited<ReturnType<typeof findCommit>> = { ok: true, value: digits };
    if (!isCommit(digits)) {
      request.log("source", "platform", `Looking for the commit ${digits} of ${repository} …`);
      const apart = await this.#apart(fetch, "commits");
      await this.#git(apart, ["init", "--quiet", "--template="]);
      const run: RunGit = (args, { onOutput } = {}) =>
        onOutput === undefined ? this.#fetchBounded(apart, args) : this.#git(apart, args, { onOutput });
      found = await findCommit(run, { url: apart.remote.url.url, repository, digits });
      await removeFolder(apart.gitDir);
    }
    if (!("ok" in found)) throw new BuildFailed(await this.#explainFetch(fetch, found));
    const commit = valueOf(found);
    return { ref: commit, said: commit, pinned: commit, branch: null };
  }

  /** The same repository, in a folder of its own beside that of `fetch`. */
  async #apart(fetch: Fetch, name: string): Promise<Fetch> {
    const gitDir = join(dirname(fetch.gitDir), name);
    await mkdir(gitDir, { recursive: true, mode: 0o700 });
    const { url } = fetch.remote;
    const { projectId } = fetch.request;
    return { ...fetch, gitDir, remote: await prepareRemote({ ...this.#options, url, gitDir, projectId }) };
  }

  async #take(fetch: Fetch, wanted: Wanted): Promise<Fetched> {
    const result = await this.#fetchWanted(fetch, wanted);
    if (!result.isOk) throw new BuildFailed(await this.#explainFetch(fetch, result));
    return await this.#read(fetch, wanted);
  }

  async #fetchWanted(fetch: Fetch, { ref, said }: Wanted): Promise<GitResult> {
    fetch.request.log("source", "platform", `Fetching ${said} of ${fetch.repository} …`);
    return await this.#fetchBounded(fetch, [
      ...["fetch", "--quiet", "--depth", "1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"],
      ...["--end-of-options", fetch.remote.url.url, `+${ref}:${fetchedRef}`],
    ]);
  }

  /** The commit that was fetched. */
  async #read(fetch: Fetch, { said, pinned, branch }: Wanted): Promise<Fetched> {
    const head = await this.#git(fetch, ["log", "-1", "--format=%H%n%an <%ae>%n%B", `${fetchedRef}^{commit}`, "--"]);
    const [commit = "", author = "", ...lines] = head.output.split("\n");
    if (!isCommit(commit)) {
      const what = said.charAt(0).toUpperCase() + said.slice(1);
      throw new BuildFailed(`${what} of ${fetch.repository} does not point to a commit.`);
    }
    if (pinned !== null && commit !== pinned) {
      throw new BuildFailed(`${fetch.remote.url.host} sent commit ${commit} instead of ${pinned}.`);
    }
    const message = commitText(lines.join("\n").trim(), "message");
    return { fetch, commit, author: commitText(author, "author"), message, branch };
  }

  /** The branch that the repository itself names as its default, in place of a default of ours that it does not have. */
  async #defaultBranch(fetch: Fetch): Promise<string | null> {
    const { request, repository, branch, remote, isBranchGiven } = fetch;
    if (isBranchGiven) return null;
    const args = ["ls-remote", "--symref", "--end-of-options", remote.url.url, "HEAD"];
    const { output } = await this.#git(fetch, args, { isRemote: true });
    const found = /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(output)?.[1];
    if (found === undefined || found === branch || !checkBranch(found).ok) return null;
    const said = `${repository} has no branch ${branch}, and gitBranch is not set: its default branch ${found} is used.`;
    request.log("source", "platform", said);
    return found;
  }

  async #explainFetch(fetch: Fetch, result: GitResult): Promise<string> {
    const { repository, remote, branch, request } = fetch;
    const lines = result.errorOutput.trim().split("\n").slice(-errorLinesMax);
    for (const line of lines) request.log("source", "stderr", line);
    if (request.commit === null && isBranchMissing(result)) {
      const list = await this.#git(fetch, ["ls-remote", "--heads", "--end-of-options", remote.url.url], {
        isRemote: true,
      });
      const branches = list.output.split("\n").flatMap((line) => /\trefs\/heads\/(.+)$/.exec(line)?.[1] ?? []);
      return explainMissingBranch({ repository, branch, branches });
    }
    return explainGitFailure({ ...namesOf(fetch), output: result.errorOutput });
  }

  /** Lists the contents of the app's folder before writing any of it. */
  async #list(fetch: Fetch, commit: string): Promise<TreeListing> {
    const tree = `${commit}:${fetch.folder}`;
    const type = await this.#git(fetch, ["cat-file", "-t", tree]);
    if (type.output.trim() !== "tree") throw new BuildFailed(await this.#explainFolder(fetch, commit, type.isOk));
    const reader = new TreeReader({ filesMax, bytesMax: this.#options.bytesMax });
    const listed = await this.#git(fetch, ["ls-tree", "-r", "-t", "-l", "-z", tree], {
      onOutput: (chunk) => reader.push(chunk),
    });
    const result = reader.result();
    if (!result.ok) throw new BuildFailed(`${fetch.repository} cannot be deployed: ${result.reason}.`);
    if (!listed.isOk) throw new BuildFailed(`git could not list the files of ${fetch.repository}.`);
    if (result.value.files === 0) {
      throw new BuildFailed(`The folder "${fetch.folder || "/"}" of ${fetch.repository} contains no files.`);
    }
    return result.value;
  }

  async #explainFolder(fetch: Fetch, commit: string, isThere: boolean): Promise<string> {
    const { folder, repository, branch } = fetch;
    if (isThere) return `gitPath is "${folder}", but that is not a folder in ${repository} (it is a file or a link).`;
    const top = await this.#git(fetch, ["ls-tree", "-d", "--name-only", "-z", commit]);
    const folders = top.output
      .split("\0")
      .map((name) => name.trim())
      .filter((name) => name !== "");
    const there = folders.length === 0 ? "it has no folders" : `it has: ${folders.slice(0, 20).join(", ")}`;
    return `The folder "${folder}" does not exist in ${repository} on branch ${branch}; ${there}. Set gitPath to the app's folder (${changeAndBuild}).`;
  }

  async #checkOut(fetch: Fetch, commit: string): Promise<void> {
    const result = await this.#fetchBounded(fetch, ["read-tree", "-m", "-u", `${commit}:${fetch.folder}`], false);
    if (!result.isOk) {
      throw new BuildFailed(
        explainGitFailure({ repository: fetch.repository, host: "", hasCredential: false, output: result.errorOutput }),
      );
    }
  }

  async #followLinks(fetch: Fetch, commit: string, listing: TreeListing): ReturnType<typeof followLinks> {
    const { folder, appDir, request } = fetch;
    if (folder === "" || listing.links.length === 0) return { listing, sharedPaths: [] };
    const limits = { filesMax, bytesMax: this.#options.bytesMax };
    return await followLinks({
      ...{ commit, folder, appDir, listing, limits, log: request.log },
      git: (args, { onOutput } = {}) =>
        onOutput === undefined ? this.#fetchBounded(fetch, args, false) : this.#git(fetch, args, { onOutput }),
    });
  }

  /** Runs git and watches the folder's size. */
  async #fetchBounded(fetch: Fetch, args: readonly string[], isRemote = true): Promise<GitResult> {
    const { clock, bytesMax } = this.#options;
    // Measured packed and unpacked: each may reach the limit.
    const folders = [fetch.gitDir, fetch.appDir];
    const measured = await whileMeasured({ folders, bytesMax, clock }, (tooLarge) => {
      const signal = AbortSignal.any([fetch.request.signal, tooLarge]);
      return this.#git(fetch, args, { isRemote, signal });
    });
    if (!measured.isTooLarge) return measured.result;
    throw new BuildFailed(
      `${fetch.repository} is larger than ${Math.round(bytesMax / 1_000_000)} MB, the maximum that the operator allows (SLIPWAY_GIT_SIZE_MB). Keep large files such as model weights elsewhere.`,
    );
  }

  /** Runs one git command within the remaining time. Rejects when this class killed it. */
  async #git(
    fetch: Fetch,
    args: readonly string[],
    options: { isRemote?: boolean; signal?: AbortSignal; onOutput?: (chunk: Buffer) => boolean } = {},
  ): Promise<GitResult> {
    const { clock, git } = this.#options;
    const result = await git.run({
      args,
      gitDir: fetch.gitDir,
      workTree: fetch.appDir,
      signal: options.signal ?? fetch.request.signal,
      timeoutMs: Math.max(1, fetch.deadlineMs - clock.monotonicMs()),
      ...(options.isRemote === true ? { remote: fetch.remote } : {}),
      ...(options.onOutput === undefined ? {} : { onOutput: options.onOutput }),
    });
    fetch.request.signal.throwIfAborted();
    if (result.end.kind === "timeout") throw this.#tookTooLong(fetch);
    if (result.isChatty) throw new BuildFailed(`${fetch.remote.url.host} sends an endless stream of messages.`);
    if (result.end.kind === "aborted") throw new Error("git was ended");
    if (result.end.kind === "exited" && result.end.exitCode === cpuTimeExitCode) {
      throw new BuildFailed(explainGitFailure({ ...namesOf(fetch), output: "died of signal 24" }));
    }
    if (result.end.kind === "not_started" || (result.end.kind === "exited" && result.end.exitCode === 127)) {
      throw new BuildFailed("git is not installed on the build machine; the operator has to install it.");
    }
    return result;
  }

  /** For our own work between runs of git. */
  #checkTime(fetch: Fetch): void {
    fetch.request.signal.throwIfAborted();
    if (this.#options.clock.monotonicMs() > fetch.deadlineMs) throw this.#tookTooLong(fetch);
  }

  #tookTooLong({ repository }: Fetch): BuildFailed {
    const seconds = Math.round(this.#options.timeoutMs / 1000);
    return new BuildFailed(
      `Fetching ${repository} took longer than ${seconds} s (SLIPWAY_GIT_TIMEOUT_SECONDS). Make the repository smaller if it is large, and ${buildAgain}.`,
    );
  }
}

/** What a sentence about git's failure may mention. */
function namesOf({ repository, remote }: Fetch) {
  return { repository, host: remote.url.host, hasCredential: remote.credential !== null };
}

function branchWanted(branch: string): Wanted {
  return { ref: `refs/heads/${branch}`, said: `branch ${branch}`, pinned: null, branch };
}

function valueOf<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new BuildFailed(checked.reason);
  return checked.value;
}
