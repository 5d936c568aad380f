// Answers what somebody asks about repositories before there is an app: which repositories there
// are, which branches one has, which of its folders have a settings file, and what such a file
// sets. A repository is read from its git host with the project's credential, as a build reads it.
import { buildAgain, changeAndBuild, changeField } from "@slipway/contract/advice.ts";
import type { GitHostKind } from "@slipway/contract/words.ts";
import { shown } from "#apps/refusal.ts";
import { readRepository, type GitHosts } from "#apps/repository.ts";
import { checkToml, type CheckedToml } from "#apps/toml-check.ts";
import type { Checked } from "#deploy/checked.ts";
import type { Branches, GitRemote, RepositorySettings } from "#deploy/sources/git-remote.ts";
import type { FindCredential } from "#deploy/sources/git-folder.ts";
import { checkBranch, checkFolder, sourceUrl } from "#deploy/sources/git-url.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { OutwardClient } from "#lib/outward-request.ts";
import type { Db } from "#store/database.ts";
import { readUsedRepositories } from "./push-store.ts";
import {
  kindsOf,
  pagesOf,
  readRepositories,
  repositoryRequest,
  type NamedRepositories,
} from "./repository-request.ts";
import type { ApiReceiver } from "./status-request.ts";

export type RepositoriesParts = {
  readonly remote: Pick<GitRemote, "branches" | "settings">;
  readonly db: Db;
  readonly client: Pick<OutwardClient, "post">;
  readonly findCredential: FindCredential;
  readonly hosts: GitHosts;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
};

/** A repository as somebody has typed it. */
export type AskedRepository = {
  readonly projectId: ProjectId;
  readonly gitRepo: string;
  readonly signal: AbortSignal;
};

/**
 * Why a host that was asked as one kind gave no list. `problem` null: the host is of another kind.
 * `isFinal`: asking it as another kind would fail, too.
 */
type NotListed = { readonly problem: string | null; readonly isFinal: boolean };

/** The maximum number of repositories that are listed, of all hosts together. */
const itemsMax = 300;
/** Bounds of one page. GitHub's page of a hundred repositories has 700 kB. */
const bounds = { timeoutMs: 10_000, answerBytesMax: 4_000_000 } as const;

export type RepositoryList = {
  /** Addresses of repositories, those that apps use first. */
  readonly items: readonly string[];
  readonly hosts: readonly {
    readonly host: string;
    /** Whether the host's list may go on. */
    readonly hasMore: boolean;
    /** Why the host's repositories are not listed; null: they are. */
    readonly problem: string | null;
  }[];
};

/**
 * Folders with a settings file, and the content of the one that a build in the folder would use;
 * null: there is none.
 */
export type FoundSettings = Pick<RepositorySettings, "folders" | "hasMore" | "hasDockerfile"> & {
  readonly file: (CheckedToml & { readonly name: string }) | null;
};

/**
 * Answers questions about repositories. Throws `Fault("invalid")` for an address that is not
 * allowed, and `Fault("not_usable")` for what git cannot read.
 */
export class Repositories {
  readonly #parts: RepositoriesParts;

  constructor(parts: RepositoriesParts) {
    this.#parts = parts;
  }

  /**
   * Repositories of the project's apps, and those that its tokens can see; `search`: a part of
   * their names, in any case.
   */
  async list(projectId: ProjectId, search: string): Promise<RepositoryList> {
    const { db, hosts } = this.#parts;
    const templates = [...new Set([hosts.defaultUrl, ...hosts.otherUrls])];
    const used = await readUsedRepositories(db, projectId, itemsMax);
    const results = await Promise.all(
      templates.map((template) => this.#askHost(projectId, template, search)),
    );
    const found = results.filter((answer) => answer !== null);
    const all = new Set([...used, ...found.flatMap(({ names }) => names)]);
    const fits = (name: string): boolean => name.toLowerCase().includes(search.toLowerCase());
    const items = [...all].filter(fits).slice(0, itemsMax);
    return {
      items,
      hosts: found.map(({ host, hasMore, problem }) => ({ host, hasMore, problem })),
    };
  }

  /** The branches, and the form in which the repository is stored. */
  async branches({
    projectId,
    gitRepo,
    signal,
  }: AskedRepository): Promise<Branches & { readonly gitRepo: string }> {
    const canonical = this.#canonical(gitRepo);
    const found = usable(
      await this.#parts.remote.branches({ projectId, gitRepo: canonical }, signal),
    );
    if (found.branches.length === 0)
      throw new Fault(
        "not_usable",
        `gitRepo is ${canonical}, which has no branches yet: push a commit to it first.`,
      );
    return { gitRepo: canonical, ...found };
  }

  /**
   * What the settings file in a folder of a branch says. Without a branch, reads the branch that a
   * build would take.
   */
  async settings(
    request: AskedRepository & { readonly gitBranch: string | null; readonly gitPath: string },
  ): Promise<FoundSettings> {
    const { projectId, signal } = request;
    const gitRepo = this.#canonical(request.gitRepo);
    const folder = valid(checkFolder(request.gitPath));
    const branch = request.gitBranch ?? usualBranch(await this.branches(request));
    const folderOnBranch = { branch: valid(checkBranch(branch)), folder };
    const read = await this.#parts.remote.settings({ projectId, gitRepo }, folderOnBranch, signal);
    const { toml, missing, ...found } = usable(read);
    if (missing === "branch")
      throw new Fault(
        "not_usable",
        `gitBranch is ${shown(branch)}, but ${gitRepo} has no branch, tag or commit of that name.`,
      );
    if (missing === "folder") {
      const known = found.folders.slice(0, 10).map((one) => one || "the root");
      const hint = known.length === 0 ? "" : `. Folders with a settings file: ${known.join(", ")}`;
      throw new Fault(
        "not_usable",
        `gitPath is ${shown(folder)}, but ${gitRepo} has no such folder on ${branch}${hint}.`,
      );
    }
    return { ...found, file: toml === null ? null : this.#checked(toml) };
  }

  #checked({ name, text }: NonNullable<RepositorySettings["toml"]>): FoundSettings["file"] {
    if (!text.ok) return { name, settings: [], warnings: [], problem: text.reason };
    return { name, ...checkToml({ name, text: text.value }, this.#parts.providers) };
  }

  /**
   * Asks the host of a template for its repositories. Null: the project has no token for the host,
   * or the host has no list of repositories.
   */
  async #askHost(projectId: ProjectId, template: string, search: string) {
    // Only the host and the path above the owners matter here. A file:// template has no host.
    const source = sourceUrl(template, { owner: "", repo: "" });
    const { host } = source;
    const credential = host === "" ? null : await this.#parts.findCredential(projectId, host);
    const kinds = kindsOf(host);
    if (credential?.kind !== "token" || kinds.length === 0) return null;
    const failed = { host, names: [], hasMore: false };
    let problem =
      "It has none of the APIs of GitHub, GitLab, Gitea and Forgejo. Type the address of the repository instead.";
    for (const kind of kinds) {
      const answer = await this.#askKind(kind, { source, credential }, search);
      if ("names" in answer) {
        const names = answer.names.flatMap((name) =>
          this.#named(`https://${host}${source.below}/${name}`),
        );
        return { host, names, hasMore: answer.hasMore, problem: null };
      }
      if (answer.isFinal) return { ...failed, problem: answer.problem };
      if (answer.problem !== null) problem = answer.problem;
    }
    return { ...failed, problem };
  }

  /** Asks the host for its repositories, as if it were of this kind. */
  async #askKind(
    kind: GitHostKind,
    receiver: ApiReceiver,
    search: string,
  ): Promise<NamedRepositories | NotListed> {
    const names: string[] = [];
    let hasMore = true;
    for (let page = 1; hasMore && page <= pagesOf(kind, search); page++) {
      const { url, headers } = repositoryRequest(kind, receiver, { search, page });
      // `post` sends any kind of request; this one is a GET without a body.
      const answer = await this.#parts.client.post(url, {
        method: "GET",
        headers,
        body: Buffer.alloc(0),
        ...bounds,
      });
      if (answer.kind === "failed")
        return {
          problem: `It cannot be reached: ${answer.reason.replace(/\.?$/, ".")}`,
          isFinal: true,
        };
      const read =
        answer.status === 200 ? readRepositories(kind, answer.firstBytes.toString()) : null;
      // A host of another kind answers 404, or has something else at this address.
      const isOther = answer.status === 200 || answer.status === 404;
      if (read === null)
        return {
          problem: isOther
            ? null
            : `It answered with status ${answer.status}. Check the token of the project for this host.`,
          isFinal: false,
        };
      names.push(...read.names);
      ({ hasMore } = read);
    }
    return { names, hasMore };
  }

  /** A list of the address in its stored form; an empty list if the address is not allowed. */
  #named(address: string): readonly string[] {
    const found = readRepository(address, this.#parts.hosts);
    return found.ok ? [found.value.canonical] : [];
  }

  #canonical(gitRepo: string): string {
    return valid(readRepository(gitRepo, this.#parts.hosts)).canonical;
  }
}

/** The branch that a build takes where none is set. `branches` is not empty. */
function usualBranch({ branches }: Branches): string {
  return branches.find((branch) => branch === "main") ?? branches[0] ?? "";
}

function valid<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value;
  throw new Fault("invalid", checked.reason);
}

/**
 * Returns what git has found, or throws the reason why it found nothing, without the advice to
 * owners of an app, since there is no app yet.
 */
function usable<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value;
  const reason = checked.reason
    .replaceAll(` (${changeAndBuild})`, "")
    .replaceAll(` (${changeField})`, "")
    .replaceAll(buildAgain, "try again");
  throw new Fault("not_usable", `gitRepo cannot be read: ${reason}`);
}
