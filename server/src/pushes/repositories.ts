// Answers what somebody asks of a repository before there is an app: its branches, from its git host and with the credential of
// the project, as a build would fetch it.
import { buildAgain, changeAndBuild, changeField } from "@slipway/contract/advice.ts";
import { readRepository, type GitHosts } from "#apps/repository.ts";
import type { Checked } from "#deploy/checked.ts";
import type { Branches, GitRemote } from "#deploy/sources/git-remote.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";

export type RepositoriesParts = {
  readonly remote: Pick<GitRemote, "branches">;
  readonly hosts: GitHosts;
};

/** A repository as somebody has typed it. */
export type AskedRepository = { readonly projectId: ProjectId; readonly gitRepo: string; readonly signal: AbortSignal };

/** Throws `Fault("invalid")` for an address that is not allowed, and `Fault("not_usable")` for what git cannot read. */
export class Repositories {
  readonly #parts: RepositoriesParts;

  constructor(parts: RepositoriesParts) {
    this.#parts = parts;
  }

  /** The branches, and the form in which the repository is stored. */
  async branches({ projectId, gitRepo, signal }: AskedRepository): Promise<Branches & { readonly gitRepo: string }> {
    const canonical = this.#canonical(gitRepo);
    const found = usable(await this.#parts.remote.branches({ projectId, gitRepo: canonical }, signal));
    if (found.branches.length === 0)
      throw new Fault("not_usable", `gitRepo is ${canonical}, which has no branches yet.`);
    return { gitRepo: canonical, ...found };
  }

  #canonical(gitRepo: string): string {
    const found = readRepository(gitRepo, this.#parts.hosts);
    if (!found.ok) throw new Fault("invalid", found.reason);
    return found.value.canonical;
  }
}

/** What git has found. Its advice is for owners of an app, and there is none yet. */
function usable<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value;
  const reason = checked.reason
    .replaceAll(` (${changeAndBuild})`, "")
    .replaceAll(` (${changeField})`, "")
    .replaceAll(buildAgain, "try again");
  throw new Fault("not_usable", `gitRepo cannot be read: ${reason}`);
}
