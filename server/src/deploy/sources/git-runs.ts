// Runs git for one fetch of a build: within the remaining time and the size that the operator
// allows, and with a sentence for each failure. `git.ts` and `git-submodules.ts` say what to run.
import { buildAgain, changeAndBuild } from "@slipway/contract/advice.ts";
import { mkdir } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { BuildFailed } from "#drivers/builder.ts";
import type { SourceRequest } from "#deploy/source.ts";
import { unlessAborted } from "#lib/unless-aborted.ts";
import { cpuTimeExitCode, type GitResult, type GitRun } from "./git-command.ts";
import { explainGitFailure } from "./git-error.ts";
import { prepareRemote, whileMeasured } from "./git-folder.ts";
import type { GitRemoteOptions } from "./git-remote.ts";
import { TreeReader, type TreeLimits, type TreeListing } from "./git-tree.ts";
import type { SourceUrl } from "./git-url.ts";

/** The name under which the git folder stores the fetched commit. */
const fetchedRef = "refs/slipway/source";

/** A build's request to fetch its repository. */
export type GitRequest = Omit<SourceRequest, "uploadId">;

/** A repository, the folder for its files, and the remaining limits. */
export type Fetch = {
  readonly request: GitRequest;
  /** The folder of git's own data. */
  readonly gitDir: string;
  /** The folder for the files. */
  readonly appDir: string;
  /** The repository in messages: `owner/repo` on the default host, else its address. */
  readonly repository: string;
  /** The folder of the repository that is fetched; "": the whole repository. */
  readonly folder: string;
  /** The name that the settings give: of a branch, a tag or a commit. */
  readonly branch: string;
  /** False: `branch` is only a default; see `SourceRequest`. */
  readonly isBranchGiven: boolean;
  /** How git reaches the host. */
  readonly remote: NonNullable<GitRun["remote"]>;
  /** When the fetch must be over, by the monotonic clock. */
  readonly deadlineMs: number;
  /** What the files may still take of the limits for the whole app. */
  readonly limits: TreeLimits;
};

type RunOptions = {
  /** True for commands that connect to the host. */
  readonly isRemote?: boolean;
  /** Used instead of the signal of the build's request. */
  readonly signal?: AbortSignal;
  /** See `GitRun`. */
  readonly onOutput?: (chunk: Buffer) => boolean;
};

/** Runs git for all fetches of a source. */
export class GitRuns {
  readonly #options: GitRemoteOptions & { readonly timeoutMs: number };

  constructor(options: GitRemoteOptions & { readonly timeoutMs: number }) {
    this.#options = options;
  }

  /**
   * Runs one git command within the remaining time. Rejects when git cannot start, when it is
   * killed (but not when `onOutput` ends it), and when it uses too much processor time.
   */
  async run(fetch: Fetch, args: readonly string[], options: RunOptions = {}): Promise<GitResult> {
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
    if (result.isChatty)
      throw new BuildFailed(`${fetch.remote.url.host} sends an endless stream of messages.`);
    if (result.end.kind === "aborted") throw new Error("git was ended");
    if (result.end.kind === "exited" && result.end.exitCode === cpuTimeExitCode) {
      // git prints this output when a child process used too much processor time. Here git itself
      // did, and could not print it.
      throw new BuildFailed(explainGitFailure({ ...namesOf(fetch), output: "died of signal 24" }));
    }
    // The shell that starts git exits with 127 when it does not find git.
    const isNotFound = result.end.kind === "exited" && result.end.exitCode === 127;
    if (result.end.kind === "not_started" || isNotFound) {
      throw new BuildFailed(
        "git is not installed on the build machine; the operator has to install it.",
      );
    }
    return result;
  }

  /** Runs git, and ends it when the git folder or the app's folder becomes too large. */
  async runMeasured(fetch: Fetch, args: readonly string[], isRemote = true): Promise<GitResult> {
    const { clock, bytesMax } = this.#options;
    // The folders with the packed and with the unpacked files are measured separately: each may
    // reach the limit. A submodule has a git folder of its own, and its unpacked files are in the
    // app's folder.
    const { gitDir, appDir } = fetch;
    const folders = [gitDir, appDir];
    const measured = await whileMeasured(
      { folders, bytesMax: fetch.limits.bytesMax, clock },
      (tooLarge) => {
        const signal = AbortSignal.any([fetch.request.signal, tooLarge]);
        return this.run(fetch, args, { isRemote, signal });
      },
    );
    if (!measured.isTooLarge) return measured.result;
    // The message names the limit of the whole app: a submodule has only what the rest leaves.
    const whole =
      fetch.limits.isRest === true ? `With ${fetch.repository} the app` : fetch.repository;
    throw new BuildFailed(
      `${whole} is larger than ${Math.round(bytesMax / 1_000_000)} MB, the maximum that the operator allows (SLIPWAY_GIT_SIZE_MB). Keep large files such as model weights elsewhere.`,
    );
  }

  /** Fetches a commit without its history. `ref` is a full reference name, or the commit's id. */
  async fetchRef(fetch: Fetch, ref: string): Promise<GitResult> {
    return await this.runMeasured(fetch, [
      "fetch",
      "--quiet",
      "--depth",
      "1",
      "--no-tags",
      "--no-recurse-submodules",
      "--no-write-fetch-head",
      "--end-of-options",
      fetch.remote.url.url,
      `+${ref}:${fetchedRef}`,
    ]);
  }

  /** The id of the fetched commit, its author, and its message, each beginning a new line. */
  async readHead(fetch: Fetch): Promise<string> {
    const args = ["log", "-1", "--format=%H%n%an <%ae>%n%B", `${fetchedRef}^{commit}`, "--"];
    return (await this.run(fetch, args)).output;
  }

  /**
   * Prepares a fetch of the same repository, or of another, in a git folder beside that of `fetch`.
   * `name` is the name of the new git folder, and `changes` replaces other members of `fetch`.
   */
  async apart(
    fetch: Fetch,
    {
      name,
      url = fetch.remote.url,
      ...changes
    }: { readonly name: string; readonly url?: SourceUrl } & Partial<Fetch>,
  ): Promise<Fetch> {
    const gitDir = join(dirname(fetch.gitDir), name);
    await mkdir(gitDir, { recursive: true, mode: 0o700 });
    const { projectId } = fetch.request;
    const remote = await prepareRemote({ ...this.#options, url, gitDir, projectId });
    // The setting for the folder (gitPath) is about the app's own repository only.
    const folder = url === fetch.remote.url ? fetch.folder : "";
    // The changes come after what they replace; nothing replaces the git folder and the remote.
    return { ...fetch, folder, ...changes, gitDir, remote };
  }

  /** Lists the contents of the app's folder, before any of its files is written. */
  async list(fetch: Fetch, commit: string): Promise<TreeListing> {
    const tree = `${commit}:${fetch.folder}`;
    const type = await this.run(fetch, ["cat-file", "-t", tree]);
    // The command succeeds for a file too, so `isOk` says whether the path exists.
    if (type.output.trim() !== "tree")
      throw new BuildFailed(await this.#explainFolder(fetch, commit, type.isOk));
    const reader = new TreeReader(fetch.limits);
    const listed = await this.run(fetch, ["ls-tree", "-r", "-t", "-l", "-z", tree], {
      onOutput: (chunk) => reader.push(chunk),
    });
    const result = reader.result();
    if (!result.ok)
      throw new BuildFailed(`${fetch.repository} cannot be deployed: ${result.reason}.`);
    if (!listed.isOk) throw new BuildFailed(`git could not list the files of ${fetch.repository}.`);
    // The listing begins at the app's folder, but .gitmodules has paths of the whole repository.
    const { submodules } = result.value;
    const placed = submodules.map((submodule) => ({
      ...submodule,
      origin: posix.join(fetch.folder, submodule.origin),
    }));
    return { ...result.value, submodules: placed };
  }

  /** Writes the files of the app's folder. */
  async checkOut(fetch: Fetch, commit: string): Promise<void> {
    await this.write(fetch, ["read-tree", "-m", "-u", `${commit}:${fetch.folder}`]);
  }

  /**
   * Runs a git command that writes files from objects that are already fetched. Rejects with a
   * `BuildFailed` when git fails.
   */
  async write(fetch: Fetch, args: readonly string[]): Promise<void> {
    const result = await this.runMeasured(fetch, args, false);
    if (result.isOk) return;
    // The command has not connected to a host, so the sentence must not blame one.
    throw new BuildFailed(
      explainGitFailure({
        repository: fetch.repository,
        host: "",
        hasCredential: false,
        output: result.errorOutput,
      }),
    );
  }

  /** The sentence for a failed fetch. */
  explain(fetch: Fetch, { errorOutput }: GitResult, { isSubmodule = false } = {}): string {
    return explainGitFailure({ ...namesOf(fetch), isSubmodule, output: errorOutput });
  }

  /** Called between steps of the platform's own work on the files. Throws after the deadline. */
  checkTime(fetch: Fetch): void {
    fetch.request.signal.throwIfAborted();
    if (this.#options.clock.monotonicMs() > fetch.deadlineMs) throw this.#tookTooLong(fetch);
  }

  /**
   * Does work other than git's within the remaining time. Work that continues after its signal was
   * aborted is not awaited.
   */
  async withinTime<Result>(
    fetch: Fetch,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const { clock } = this.#options;
    const late = new AbortController();
    const cancel = clock.after(Math.max(1, fetch.deadlineMs - clock.monotonicMs()), () =>
      late.abort(),
    );
    const signal = AbortSignal.any([fetch.request.signal, late.signal]);
    try {
      return await unlessAborted(signal, work(signal));
    } catch (error) {
      fetch.request.signal.throwIfAborted();
      throw late.signal.aborted ? this.#tookTooLong(fetch) : error;
    } finally {
      cancel();
    }
  }

  /** Why the folder of `gitPath` cannot be used. `isThere`: the path exists, but is no folder. */
  async #explainFolder(fetch: Fetch, commit: string, isThere: boolean): Promise<string> {
    const { folder, repository } = fetch;
    if (isThere)
      return `gitPath is "${folder}", but that is not a folder in ${repository} (it is a file or a link).`;
    const top = await this.run(fetch, ["ls-tree", "-d", "--name-only", "-z", commit]);
    const folders = top.output
      .split("\0")
      .map((name) => name.trim())
      .filter((name) => name !== "");
    const choice =
      folders.length === 0 ? "it has no folders" : `it has: ${folders.slice(0, 20).join(", ")}`;
    return `The folder "${folder}" does not exist in ${repository} at commit ${commit.slice(0, 7)}; ${choice}. Set gitPath to the app's folder (${changeAndBuild}).`;
  }

  #tookTooLong({ repository }: Fetch): BuildFailed {
    const seconds = Math.round(this.#options.timeoutMs / 1000);
    return new BuildFailed(
      `Fetching ${repository} took longer than ${seconds} s (SLIPWAY_GIT_TIMEOUT_SECONDS). Make the repository smaller if it is large, and ${buildAgain}.`,
    );
  }
}

/** The names that a sentence about git's failure may mention. */
function namesOf({ repository, remote }: Fetch) {
  return { repository, host: remote.url.host, hasCredential: remote.credential !== null };
}
