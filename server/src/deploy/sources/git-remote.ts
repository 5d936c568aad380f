// Asks git hosts about repositories without fetching their files: the newest commits of branches, and whether a folder
// differs between two commits. Used for pushes; like `git.ts`, it trusts nothing that the host sends.
import { randomUUID } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { GitHosts } from "#apps/repository.ts";
import type { Checked } from "#deploy/checked.ts";
import { commitText } from "#deploy/source.ts";
import type { Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Git, GitResult, GitRun } from "./git-command.ts";
import { explainGitFailure } from "./git-error.ts";
import { prepareRemote, whileMeasured, type FindCredential } from "./git-folder.ts";
import { repositoryAddress, checkBranch, isCommit, type SourceUrl } from "./git-url.ts";

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
  /** Whether the folder differs from the older commit; null: that commit is gone. */
  readonly isTouched: boolean | null;
};

/** `hasMore`: there are others. */
export type Branches = {
  readonly defaultBranch: string | null;
  readonly branches: readonly string[];
  readonly hasMore: boolean;
};

/** Next to the builds' folders. */
export const asksName = "asks";
/** As many as somebody can choose from. */
const branchesMax = 500;
const timeoutMs = { list: 20_000, fetch: 120_000 } as const;

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
      const found = lines.filter(([commit = "", ref = ""]) => isCommit(commit) && refs.includes(ref));
      return {
        ok: true,
        value: new Map(found.map(([commit = "", ref = ""]) => [ref.slice("refs/heads/".length), commit])),
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
      return { ok: true, value: { defaultBranch: first[0] ?? null, branches, hasMore: branches.length < all.length } };
    });
  }

  /** What a commit says, and whether the folder differs from that of an older commit (null: everything is new). */
  async facts(
    repository: RemoteRepository,
    given: { readonly commit: string; readonly older: string | null; readonly folder: string },
    signal: AbortSignal,
  ): Promise<Checked<CommitFacts>> {
    return await this.#ask<CommitFacts>(repository, signal, async (ask) => {
      await ask.run(["init", "--quiet", "--template="]);
      const fetched = await ask.fetch(given.commit, "refs/slipway/newer");
      if (!fetched.isOk) return { ok: false, reason: ask.explain(fetched) };
      const said = await ask.run(["log", "-1", "--format=%an <%ae>%n%B", "refs/slipway/newer", "--"]);
      const [author = "", ...lines] = said.output.split("\n");
      const facts = { author: commitText(author, "author"), message: commitText(lines.join("\n").trim(), "message") };
      if (given.older === null || !(await ask.fetch(given.older, "refs/slipway/older")).isOk) {
        return { ok: true, value: { ...facts, isTouched: null } };
      }
      const tree = async (ref: string): Promise<string> =>
        (await ask.run(["rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}:${given.folder}`])).output;
      return {
        ok: true,
        value: { ...facts, isTouched: (await tree("refs/slipway/newer")) !== (await tree("refs/slipway/older")) },
      };
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
      const remote = await prepareRemote({ url: url.value, sourcesDir, gitDir, projectId, findCredential });
      const measured = await whileMeasured({ folders: [gitDir], bytesMax, clock }, async (tooLarge) => {
        const ended = AbortSignal.any([signal, tooLarge]);
        const run: Ask["run"] = async (args, { isRemote = false, timeoutMs: ms = timeoutMs.list } = {}) => {
          const options = { args, gitDir, workTree: gitDir, signal: ended, timeoutMs: ms };
          const result = await git.run({ ...options, ...(isRemote ? { remote } : {}) });
          ended.throwIfAborted();
          return result;
        };
        return await work(askOf(run, remote, gitRepo));
      });
      if (!measured.isTooLarge) return measured.result;
      return { ok: false, reason: `${gitRepo} is larger than the operator allows (SLIPWAY_GIT_SIZE_MB).` };
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** One question to one repository. */
type Ask = {
  readonly url: string;
  readonly run: (args: readonly string[], options?: { isRemote?: boolean; timeoutMs?: number }) => Promise<GitResult>;
  /** Fetches a commit and its folders, but, where the host can leave them out, no files. */
  readonly fetch: (commit: string, ref: string) => Promise<GitResult>;
  readonly explain: (result: GitResult) => string;
};

function askOf(run: Ask["run"], { url, credential }: NonNullable<GitRun["remote"]>, repository: string): Ask {
  return {
    url: url.url,
    run,
    fetch: (commit, ref) =>
      run(
        [
          ...["fetch", "--quiet", "--depth", "1", "--filter=blob:none", "--no-tags", "--no-recurse-submodules"],
          ...["--no-write-fetch-head", "--end-of-options", url.url, `+${commit}:${ref}`],
        ],
        { isRemote: true, timeoutMs: timeoutMs.fetch },
      ),
    explain: ({ end, errorOutput }) =>
      end.kind === "timeout"
        ? `${url.host} did not answer in time.`
        : explainGitFailure({ repository, host: url.host, hasCredential: credential !== null, output: errorOutput }),
  };
}
