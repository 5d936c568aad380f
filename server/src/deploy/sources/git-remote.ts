// Asks git hosts about repositories without fetching their files: the newest commits of branches,
// and whether a folder differs between two commits. Used for pushes; like `git.ts`, it trusts
// nothing that the host sends.
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
  readonly sourcesDir: string;
  readonly findCredential: FindCredential;
  readonly bytesMax: number;
  readonly clock: Clock;
};

/** A repository as a project sees it. */
export type RemoteRepository = { readonly projectId: ProjectId; readonly gitRepo: string };

/** What git says of a commit. */
export type CommitFacts = {
  readonly message: string;
  readonly author: string;
  /** Whether one of the folders differs from the older commit; null: that commit is gone. */
  readonly isTouched: boolean | null;
};

/** `hasMore`: there are others. */
export type Branches = {
  readonly defaultBranch: string | null;
  readonly branches: readonly string[];
  readonly hasMore: boolean;
};

/** `hasMore`: other folders may have one too. */
export type RepositorySettings = {
  readonly folders: readonly string[];
  readonly hasMore: boolean;
  /** What is not there. */
  readonly missing: "branch" | "folder" | null;
  /** The file that a build uses; null: there is none. Without a text: why it cannot be read. */
  readonly toml: { readonly name: string; readonly text: Checked<string> } | null;
  readonly hasDockerfile: boolean;
};

const dockerfileName = "Dockerfile";
/** Next to the builds' folders. */
export const asksName = "asks";
/** As many as somebody can choose from. */
const branchesMax = 500;
/** `look`: somebody waits for it. */
const timeoutMs = { list: 20_000, look: 40_000, fetch: 120_000 } as const;

/** Each question uses a folder of its own, which is removed after it. */
export class GitRemote {
  readonly #options: GitRemoteOptions;

  constructor(options: GitRemoteOptions) {
    this.#options = options;
  }

  /** Removes what a killed platform left. */
  async clean(): Promise<void> {
    await rm(join(this.#options.sourcesDir, asksName), { recursive: true, force: true });
  }

  /** The address of a repository. */
  urlOf(gitRepo: string): Checked<SourceUrl> {
    const found = repositoryAddress(gitRepo, this.#options.hosts);
    return found.ok ? { ok: true, value: found.value.url } : found;
  }

  /** The newest commits of those of the branches that exist. */
  async heads(
    repository: RemoteRepository,
    branches: readonly string[],
    signal: AbortSignal,
  ): Promise<Checked<ReadonlyMap<string, string>>> {
    return await this.#ask(repository, signal, async (ask) => {
      const refs = branches.map((branch) => `refs/heads/${branch}`);
      const args = ["ls-remote", "--heads", "--end-of-options", ask.url, ...refs];
      const listed = await ask.run(args, { isRemote: true, timeoutMs: timeoutMs.list });
      if (!listed.isOk) return { ok: false, reason: ask.explain(listed) };
      const lines = listed.output.split("\n").map((line) => line.split("\t"));
      const found = lines.filter(
        ([commit = "", ref = ""]) => isCommit(commit) && refs.includes(ref),
      );
      return {
        ok: true,
        value: new Map(
          found.map(([commit = "", ref = ""]) => [ref.slice("refs/heads/".length), commit]),
        ),
      };
    });
  }

  /** The branches of a repository, the default one first, with a limit. */
  async branches(repository: RemoteRepository, signal: AbortSignal): Promise<Checked<Branches>> {
    return await this.#ask<Branches>(repository, signal, async (ask) => {
      const args = ["ls-remote", "--symref", "--end-of-options", ask.url, "HEAD", "refs/heads/*"];
      const listed = await ask.run(args, { isRemote: true, timeoutMs: timeoutMs.list });
      if (!listed.isOk) return { ok: false, reason: ask.explain(listed) };
      const named = listed.output.matchAll(/^[0-9a-f]+\trefs\/heads\/(.+)$/gm);
      const all = Array.from(named, ([, name = ""]) => name).filter((name) => checkBranch(name).ok);
      const head = /^ref: refs\/heads\/(.+)\tHEAD$/m.exec(listed.output)?.[1];
      const first = all.filter((name) => name === head);
      const branches = [...first, ...all.filter((name) => name !== head)].slice(0, branchesMax);
      return {
        ok: true,
        value: { defaultBranch: first[0] ?? null, branches, hasMore: branches.length < all.length },
      };
    });
  }

  /**
   * Which folders of a branch, a tag or a commit have a settings file, and the one of this folder.
   * Fetches no other files.
   */
  async settings(
    repository: RemoteRepository,
    { branch, folder }: { readonly branch: string; readonly folder: string },
    signal: AbortSignal,
  ): Promise<Checked<RepositorySettings>> {
    return await this.#ask<RepositorySettings>(repository, signal, async (ask) => {
      await ask.run(["init", "--quiet", "--template="]);
      const ref = "refs/slipway/looked-at";
      const fetched = await fetchNamed(ask, { branch, ref, repository: repository.gitRepo });
      if (!("end" in fetched)) return fetched;
      const nothing = { folders: [], hasMore: false, toml: null, hasDockerfile: false };
      if (isBranchMissing(fetched)) return { ok: true, value: { ...nothing, missing: "branch" } };
      if (!fetched.isOk) return { ok: false, reason: ask.explain(fetched) };
      const found = new SettingsFolders();
      await ask.run(["ls-tree", "-r", "-t", "-z", ref], { onOutput: (chunk) => found.push(chunk) });
      const listed = await ask.run([
        "ls-tree",
        "-z",
        `${ref}:${folder}`,
        ...tomlNames,
        dockerfileName,
      ]);
      if (!listed.isOk)
        return { ok: true, value: { ...nothing, ...found.result(), missing: "folder" } };
      const blobs = new Map(listed.output.split("\0").map((entry) => blobOf(entry)));
      const name = tomlNames.find((one) => blobs.has(one));
      const there = { ...found.result(), missing: null, hasDockerfile: blobs.has(dockerfileName) };
      if (name === undefined) return { ok: true, value: { ...there, toml: null } };
      const { bytes, result } = await readBlob(ask, blobs.get(name) ?? "");
      if (!result.isOk && bytes.length <= textBytesMax)
        return { ok: false, reason: ask.explain(result) };
      return { ok: true, value: { ...there, toml: { name, text: textOf(bytes, name) } } };
    });
  }

  /**
   * What a commit says, and whether one of the folders differs from that of an older commit (null:
   * everything is new).
   */
  async facts(
    repository: RemoteRepository,
    wanted: {
      readonly commit: string;
      readonly older: string | null;
      readonly folders: readonly string[];
    },
    signal: AbortSignal,
  ): Promise<Checked<CommitFacts>> {
    return await this.#ask<CommitFacts>(repository, signal, async (ask) => {
      await ask.run(["init", "--quiet", "--template="]);
      const fetched = await ask.fetch(wanted.commit, "refs/slipway/newer");
      if (!fetched.isOk) return { ok: false, reason: ask.explain(fetched) };
      const said = await ask.run([
        "log",
        "-1",
        "--format=%an <%ae>%n%B",
        "refs/slipway/newer",
        "--",
      ]);
      const [author = "", ...lines] = said.output.split("\n");
      const facts = {
        author: commitText(author, "author"),
        message: commitText(lines.join("\n").trim(), "message"),
      };
      if (wanted.older === null || !(await ask.fetch(wanted.older, "refs/slipway/older")).isOk) {
        return { ok: true, value: { ...facts, isTouched: null } };
      }
      const treeOf = async (ref: string, folder: string): Promise<string> =>
        (
          await ask.run([
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            `${ref}:${folder}`,
          ])
        ).output;
      let isTouched = false;
      for (const folder of wanted.folders)
        isTouched ||=
          (await treeOf("refs/slipway/newer", folder)) !==
          (await treeOf("refs/slipway/older", folder));
      return { ok: true, value: { ...facts, isTouched } };
    });
  }

  async #ask<T>(
    { projectId, gitRepo }: RemoteRepository,
    signal: AbortSignal,
    work: (ask: Ask) => Promise<Checked<T>>,
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
          const run: Ask["run"] = async (
            args,
            { isRemote = false, timeoutMs: ms = timeoutMs.list, ...more } = {},
          ) => {
            const options = {
              args,
              gitDir,
              workTree: gitDir,
              signal: ended,
              timeoutMs: ms,
              ...more,
            };
            const result = await git.run({ ...options, ...(isRemote ? { remote } : {}) });
            ended.throwIfAborted();
            return result;
          };
          return await work(askOf(run, remote, gitRepo));
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
type Ask = {
  readonly url: string;
  readonly run: (
    args: readonly string[],
    options?: {
      isRemote?: boolean;
      timeoutMs?: number;
      onOutput?: NonNullable<GitRun["onOutput"]>;
    },
  ) => Promise<GitResult>;
  /** Fetches a commit and its folders, but, where the host can leave them out, no files. */
  readonly fetch: (commit: string, ref: string, timeoutMs?: number) => Promise<GitResult>;
  readonly explain: (result: GitResult) => string;
};

/** Fetches what a build takes of the name: the branch, else the tag, else the commit. */
async function fetchNamed(
  ask: Ask,
  name: { readonly branch: string; readonly ref: string; readonly repository: string },
): Promise<GitResult | Extract<Checked<string>, { ok: false }>> {
  const { branch, ref, repository } = name;
  const run: RunGit = (args, options = {}) =>
    ask.run(args, { ...options, timeoutMs: timeoutMs.look });
  const fullTag = isTagName(branch) ? await findTag(run, ask.url, branch) : null;
  if (fullTag !== null) return await ask.fetch(fullTag, ref, timeoutMs.look);
  const head = await ask.fetch(`refs/heads/${branch}`, ref, timeoutMs.look);
  if (!isBranchMissing(head)) return head;
  const tag = await findTag(run, ask.url, branch);
  if (tag !== null) return await ask.fetch(tag, ref, timeoutMs.look);
  if (!isCommitStart(branch)) return head;
  const found = await findCommit(run, { url: ask.url, repository, digits: branch });
  if (!("ok" in found)) return found;
  return found.ok ? await ask.fetch(found.value, ref, timeoutMs.look) : found;
}

/** Name and id of a regular file in the listing of a folder; two empty ones for anything else. */
function blobOf(entry: string): readonly [string, string] {
  const [, id = "", name = ""] = /^100\d{3} blob ([0-9a-f]+)\t(.+)$/.exec(entry.trim()) ?? [];
  return [name, id];
}

/**
 * A file that the fetch may have left out: git asks the host for it. Of a larger one than 1 MB come
 * a few more bytes.
 */
async function readBlob(
  ask: Ask,
  id: string,
): Promise<{ readonly bytes: Buffer; readonly result: GitResult }> {
  let bytes: Buffer = Buffer.alloc(0);
  const onOutput = (chunk: Buffer): boolean => {
    bytes = Buffer.concat([bytes, chunk]);
    return bytes.length <= textBytesMax;
  };
  const result = await ask.run(["cat-file", "blob", id], { isRemote: true, onOutput });
  return { bytes, result };
}

function textOf(bytes: Buffer, name: string): Checked<string> {
  try {
    checkTextSize(bytes.length, name);
    return { ok: true, value: decodeText(bytes, name) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ok: false, reason: error.message };
  }
}

function askOf(
  run: Ask["run"],
  { url, credential }: NonNullable<GitRun["remote"]>,
  repository: string,
): Ask {
  return {
    url: url.url,
    run,
    fetch: (commit, ref, ms = timeoutMs.fetch) =>
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
          `+${commit}:${ref}`,
        ],
        { isRemote: true, timeoutMs: ms },
      ),
    explain: ({ end, errorOutput }) =>
      end.kind === "timeout"
        ? `${url.host} did not answer in time.`
        : explainGitFailure({
            repository,
            host: url.host,
            hasCredential: credential !== null,
            output: errorOutput,
          }),
  };
}
