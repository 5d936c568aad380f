// Asks git hosts about repositories without fetching their files: the newest commits of branches,
// and whether a folder differs between two commits. Used for pushes, and to show branches and
// settings to people who set up an app. Like `git.ts`, it trusts nothing that the host sends.
import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { GitHosts } from "#apps/repository.ts";
import { checkTextSize, textBytesMax, tomlNames } from "#deploy/app-files.ts";
import type { Checked } from "#deploy/checked.ts";
import { commitText } from "#deploy/source.ts";
import type { Clock } from "#lib/clock.ts";
import { decodeText } from "#lib/decoded-text.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Git, GitResult, GitRun } from "./git-command.ts";
import { explainGitFailure, isBranchMissing } from "./git-error.ts";
import { prepareRemote, whileMeasured, type FindCredential } from "./git-folder.ts";
import { findCommit, findTag, isCommitStart, isTagName, type RunGit } from "./git-ref.ts";
import { repositoryAddress, checkBranch, isCommit, type SourceUrl } from "./git-url.ts";
import { SettingsFolders } from "./settings-folders.ts";

export type GitRemoteOptions = {
  readonly git: Git;
  readonly hosts: GitHosts;
  /** The folder of all fetched sources. */
  readonly sourcesDir: string;
  readonly findCredential: FindCredential;
  /** The maximum size of one folder that git writes to (SLIPWAY_GIT_SIZE_MB). */
  readonly bytesMax: number;
  readonly clock: Clock;
};

/** A repository, and the project whose credential is used to read it. */
export type RemoteRepository = { readonly projectId: ProjectId; readonly gitRepo: string };

/** The message and the author of a commit, and whether some folders differ from an older commit. */
export type CommitFacts = {
  readonly message: string;
  readonly author: string;
  /**
   * Whether one of the folders differs between the older commit and this one; null: there is no
   * older commit, or it could not be fetched.
   */
  readonly isTouched: boolean | null;
};

/** The branches of a repository. `hasMore`: the repository has more than these. */
export type Branches = {
  /** Null: the host names none, or the repository has no usable branch of that name. */
  readonly defaultBranch: string | null;
  readonly branches: readonly string[];
  readonly hasMore: boolean;
};

/**
 * The folders with a settings file, and the file of one folder. `hasMore`: other folders may have
 * one too.
 */
export type RepositorySettings = {
  readonly folders: readonly string[];
  readonly hasMore: boolean;
  /**
   * What does not exist: the requested branch (nor a tag or a commit that its name could mean), or
   * the folder. Null: both exist.
   */
  readonly missing: "branch" | "folder" | null;
  /** The file that a build uses, with its text or why it cannot be read; null: there is none. */
  readonly toml: { readonly name: string; readonly text: Checked<string> } | null;
  readonly hasDockerfile: boolean;
};

const dockerfileName = "Dockerfile";
/** The name of the folder, beside the folders of builds, that holds the folders of questions. */
export const asksName = "asks";
/** The maximum number of branches in a list: nobody chooses from more. */
const branchesMax = 500;
/**
 * The timeouts of git's runs: `look` is for finding and fetching what a person waits to see,
 * `fetch` for other fetches, and `list` for all other runs.
 */
const timeoutMs = { list: 20_000, look: 40_000, fetch: 120_000 } as const;

/** Asks git hosts. Each question uses a folder of its own, which is removed afterwards. */
export class GitRemote {
  readonly #options: GitRemoteOptions;

  constructor(options: GitRemoteOptions) {
    this.#options = options;
  }

  /** Removes the folders that a killed platform left behind. */
  async clean(): Promise<void> {
    await rm(join(this.#options.sourcesDir, asksName), { recursive: true, force: true });
  }

  /** The address of a repository. */
  urlOf(gitRepo: string): Checked<SourceUrl> {
    const address = repositoryAddress(gitRepo, this.#options.hosts);
    return address.ok ? { ok: true, value: address.value.url } : address;
  }

  /** The newest commits of the branches, by name. Branches that do not exist are left out. */
  async heads(
    repository: RemoteRepository,
    branches: readonly string[],
    signal: AbortSignal,
  ): Promise<Checked<ReadonlyMap<string, string>>> {
    return await this.#ask(repository, signal, async (question) => {
      const refs = branches.map((branch) => `refs/heads/${branch}`);
      const args = ["ls-remote", "--heads", "--end-of-options", question.url, ...refs];
      const listed = await question.run(args, { isRemote: true, timeoutMs: timeoutMs.list });
      if (!listed.isOk) return { ok: false, reason: question.explain(listed) };
      // Each line is an id, a tab and a ref. git takes `refs` as patterns, so it may list others.
      const lines = listed.output.split("\n").map((line) => line.split("\t"));
      const heads = lines.filter(
        ([commit = "", ref = ""]) => isCommit(commit) && refs.includes(ref),
      );
      return {
        ok: true,
        value: new Map(
          heads.map(([commit = "", ref = ""]) => [ref.slice("refs/heads/".length), commit]),
        ),
      };
    });
  }

  /** The branches of a repository, the default one first, with a limit. */
  async branches(repository: RemoteRepository, signal: AbortSignal): Promise<Checked<Branches>> {
    return await this.#ask<Branches>(repository, signal, async (question) => {
      const args = [
        "ls-remote",
        "--symref",
        "--end-of-options",
        question.url,
        "HEAD",
        "refs/heads/*",
      ];
      const listed = await question.run(args, { isRemote: true, timeoutMs: timeoutMs.list });
      if (!listed.isOk) return { ok: false, reason: question.explain(listed) };
      const named = listed.output.matchAll(/^[0-9a-f]+\trefs\/heads\/(.+)$/gm);
      const all = Array.from(named, ([, name = ""]) => name).filter((name) => checkBranch(name).ok);
      // With `--symref`, a line without an id says to which branch HEAD points.
      const head = /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(listed.output)?.[1];
      // This list has at most one name: that of the default branch, if the host lists that branch.
      const first = all.filter((name) => name === head);
      const branches = [...first, ...all.filter((name) => name !== head)].slice(0, branchesMax);
      return {
        ok: true,
        value: { defaultBranch: first[0] ?? null, branches, hasMore: branches.length < all.length },
      };
    });
  }

  /**
   * Lists the folders of a branch, a tag or a commit that have a settings file, and reads the file
   * of `folder`. Fetches no other files if the host can leave them out.
   */
  async settings(
    repository: RemoteRepository,
    { branch, folder }: { readonly branch: string; readonly folder: string },
    signal: AbortSignal,
  ): Promise<Checked<RepositorySettings>> {
    return await this.#ask<RepositorySettings>(repository, signal, async (question) => {
      await question.run(["init", "--quiet", "--template="]);
      const ref = "refs/slipway/looked-at";
      const fetched = await fetchNamed(question, { branch, ref, repository: repository.gitRepo });
      // Only a result of git has an `end`; without it, `fetched` says why no commit was found.
      if (!("end" in fetched)) return fetched;
      const noSettings = { folders: [], hasMore: false, toml: null, hasDockerfile: false };
      if (isBranchMissing(fetched))
        return { ok: true, value: { ...noSettings, missing: "branch" } };
      if (!fetched.isOk) return { ok: false, reason: question.explain(fetched) };
      const settingsFolders = new SettingsFolders();
      await question.run(["ls-tree", "-r", "-t", "-z", ref], {
        onOutput: (chunk) => settingsFolders.push(chunk),
      });
      const listed = await question.run([
        "ls-tree",
        "-z",
        `${ref}:${folder}`,
        ...tomlNames,
        dockerfileName,
      ]);
      // git fails when the commit has no such folder. The folders with settings are listed even so.
      if (!listed.isOk)
        return {
          ok: true,
          value: { ...noSettings, ...settingsFolders.result(), missing: "folder" },
        };
      const blobs = new Map(listed.output.split("\0").map((entry) => blobOf(entry)));
      const name = tomlNames.find((tomlName) => blobs.has(tomlName));
      const settings = {
        ...settingsFolders.result(),
        missing: null,
        hasDockerfile: blobs.has(dockerfileName),
      };
      if (name === undefined) return { ok: true, value: { ...settings, toml: null } };
      // The map has the file, since `name` was found in it.
      const { bytes, result } = await readBlob(question, blobs.get(name) ?? "");
      // Reading also fails when the file is too large; `textOf` then says so.
      if (!result.isOk && bytes.length <= textBytesMax)
        return { ok: false, reason: question.explain(result) };
      return { ok: true, value: { ...settings, toml: { name, text: textOf(bytes, name) } } };
    });
  }

  /**
   * Reads the message and the author of a commit, and whether one of the folders differs between
   * this commit and an older one. `older` is null where there is no commit to compare with.
   */
  async facts(
    repository: RemoteRepository,
    comparison: {
      readonly commit: string;
      readonly older: string | null;
      readonly folders: readonly string[];
    },
    signal: AbortSignal,
  ): Promise<Checked<CommitFacts>> {
    return await this.#ask<CommitFacts>(repository, signal, async (question) => {
      await question.run(["init", "--quiet", "--template="]);
      const fetched = await question.fetch(comparison.commit, "refs/slipway/newer");
      if (!fetched.isOk) return { ok: false, reason: question.explain(fetched) };
      const logged = await question.run([
        "log",
        "-1",
        "--format=%an <%ae>%n%B",
        "refs/slipway/newer",
        "--",
      ]);
      // The format puts the author on the first line, and the message on the others.
      const [author = "", ...lines] = logged.output.split("\n");
      const facts = {
        author: commitText(author, "author"),
        message: commitText(lines.join("\n").trim(), "message"),
      };
      const incomparable = { ok: true, value: { ...facts, isTouched: null } } as const;
      if (comparison.older === null) return incomparable;
      const fetchedOlder = await question.fetch(comparison.older, "refs/slipway/older");
      if (!fetchedOlder.isOk) return incomparable;
      // The id of a folder's contents, or of a file's; "" if the commit does not have the path.
      const treeOf = async (ref: string, folder: string): Promise<string> => {
        const tree = `${ref}:${folder}`;
        const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", tree];
        return (await question.run(args)).output;
      };
      for (const folder of comparison.folders) {
        const newer = await treeOf("refs/slipway/newer", folder);
        const older = await treeOf("refs/slipway/older", folder);
        if (newer !== older) return { ok: true, value: { ...facts, isTouched: true } };
      }
      return { ok: true, value: { ...facts, isTouched: false } };
    });
  }

  /**
   * Does `work` with a question whose folder is removed afterwards. Kills git when the signal is
   * aborted, or when the folder becomes larger than `bytesMax`.
   */
  async #ask<T>(
    { projectId, gitRepo }: RemoteRepository,
    signal: AbortSignal,
    work: (question: Question) => Promise<Checked<T>>,
  ): Promise<Checked<T>> {
    const url = this.urlOf(gitRepo);
    if (!url.ok) return url;
    const { git, sourcesDir, findCredential, bytesMax, clock } = this.#options;
    const folder = join(sourcesDir, asksName, randomUUID());
    const gitDir = join(folder, "git");
    try {
      await mkdir(gitDir, { recursive: true, mode: 0o700 });
      const remote = await prepareRemote({
        url: url.value,
        sourcesDir,
        gitDir,
        projectId,
        findCredential,
      });
      const measured = await whileMeasured(
        { folders: [gitDir], bytesMax, clock },
        async (tooLarge) => {
          const ended = AbortSignal.any([signal, tooLarge]);
          const run: Question["run"] = async (
            args,
            { isRemote = false, timeoutMs: ms = timeoutMs.list, ...others } = {},
          ) => {
            // Each run names a work tree, but a question writes no files of the repository there.
            const options = {
              args,
              gitDir,
              workTree: gitDir,
              signal: ended,
              timeoutMs: ms,
              ...others,
            };
            const result = await git.run({ ...options, ...(isRemote ? { remote } : {}) });
            ended.throwIfAborted();
            return result;
          };
          return await work(questionTo(run, remote, gitRepo));
        },
      );
      if (!measured.isTooLarge) return measured.result;
      return {
        ok: false,
        reason: `${gitRepo} is larger than the operator allows (SLIPWAY_GIT_SIZE_MB).`,
      };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** One question to one repository. */
type Question = {
  readonly url: string;
  readonly run: (
    args: readonly string[],
    options?: {
      /** True for commands that connect to the host. */
      isRemote?: boolean;
      timeoutMs?: number;
      onOutput?: NonNullable<GitRun["onOutput"]>;
    },
  ) => Promise<GitResult>;
  /**
   * Fetches the commit that `name` is or refers to, with its folders, and stores it as `ref`. The
   * files are left out if the host can do that.
   */
  readonly fetch: (name: string, ref: string, timeoutMs?: number) => Promise<GitResult>;
  /** The sentence for a run that failed. */
  readonly explain: (result: GitResult) => string;
};

/**
 * Fetches what a build would fetch for the name: the branch, else the tag, else the commit. Only
 * for a tag's full name (`refs/tags/…`) is the tag tried before the branch. If there is nothing of
 * that name, returns a failed fetch, or why no commit was found.
 */
async function fetchNamed(
  question: Question,
  name: { readonly branch: string; readonly ref: string; readonly repository: string },
): Promise<GitResult | Extract<Checked<string>, { ok: false }>> {
  const { branch, ref, repository } = name;
  const run: RunGit = (args, options = {}) =>
    question.run(args, { ...options, timeoutMs: timeoutMs.look });
  const fullTag = isTagName(branch) ? await findTag(run, question.url, branch) : null;
  if (fullTag !== null) return await question.fetch(fullTag, ref, timeoutMs.look);
  const head = await question.fetch(`refs/heads/${branch}`, ref, timeoutMs.look);
  if (!isBranchMissing(head)) return head;
  const tag = await findTag(run, question.url, branch);
  if (tag !== null) return await question.fetch(tag, ref, timeoutMs.look);
  if (!isCommitStart(branch)) return head;
  const commit = await findCommit(run, { url: question.url, repository, digits: branch });
  // Only a `Checked` has an `ok`; without it, this is the result of a fetch that failed.
  if (!("ok" in commit)) return commit;
  return commit.ok ? await question.fetch(commit.value, ref, timeoutMs.look) : commit;
}

/**
 * The name and the id of a regular file (its mode begins with 100) in the listing of a folder; both
 * are empty for other entries.
 */
function blobOf(entry: string): readonly [string, string] {
  const [, id = "", name = ""] = /^100\d{3} blob ([0-9a-f]+)\t(.+)$/.exec(entry.trim()) ?? [];
  return [name, id];
}

/**
 * Reads a file; if the fetch has left the file out, git asks the host for it. Kills git soon after
 * it has put out more than `textBytesMax`.
 */
async function readBlob(
  question: Question,
  id: string,
): Promise<{ readonly bytes: Buffer; readonly result: GitResult }> {
  let bytes: Buffer = Buffer.alloc(0);
  const onOutput = (chunk: Buffer): boolean => {
    bytes = Buffer.concat([bytes, chunk]);
    return bytes.length <= textBytesMax;
  };
  const result = await question.run(["cat-file", "blob", id], { isRemote: true, onOutput });
  return { bytes, result };
}

/** The text of a settings file, or why it cannot be read. */
function textOf(bytes: Buffer, name: string): Checked<string> {
  try {
    checkTextSize(bytes.length, name);
    return { ok: true, value: decodeText(bytes, name) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ok: false, reason: error.message };
  }
}

/** Makes a question to a repository; `run` runs the git commands of the question. */
function questionTo(
  run: Question["run"],
  { url, credential }: NonNullable<GitRun["remote"]>,
  repository: string,
): Question {
  return {
    url: url.url,
    run,
    fetch: (name, ref, ms = timeoutMs.fetch) =>
      run(
        [
          "fetch",
          "--quiet",
          "--depth",
          "1",
          "--filter=blob:none",
          "--no-tags",
          "--no-recurse-submodules",
          "--no-write-fetch-head",
          "--end-of-options",
          url.url,
          `+${name}:${ref}`,
        ],
        { isRemote: true, timeoutMs: ms },
      ),
    explain: ({ end, errorOutput }) => {
      if (end.kind === "timeout") return `${url.host} did not answer in time.`;
      return explainGitFailure({
        repository,
        host: url.host,
        hasCredential: credential !== null,
        output: errorOutput,
      });
    },
  };
}
