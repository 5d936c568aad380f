// Answers what somebody asks of a repository before there is an app: its branches, its folders with a settings file, and what
// that file sets. It is read from its git host with the credential of the project, as a build would fetch it.
import { buildAgain, changeAndBuild, changeField } from "@slipway/contract/advice.ts";
import { shown } from "#apps/refusal.ts";
import { readRepository, type GitHosts } from "#apps/repository.ts";
import { checkToml, type CheckedToml } from "#apps/toml-check.ts";
import type { Checked } from "#deploy/checked.ts";
import type { Branches, GitRemote, RepositorySettings } from "#deploy/sources/git-remote.ts";
import { checkBranch, checkFolder } from "#deploy/sources/git-url.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";

export type RepositoriesParts = {
  readonly remote: Pick<GitRemote, "branches" | "settings">;
  readonly hosts: GitHosts;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
};

/** A repository as somebody has typed it. */
export type AskedRepository = { readonly projectId: ProjectId; readonly gitRepo: string; readonly signal: AbortSignal };

/** Folders with a settings file, and the content of the one that a build in the folder would use; null: there is none. */
export type FoundSettings = Pick<RepositorySettings, "folders" | "hasMore"> & {
  readonly file: (CheckedToml & { readonly name: string }) | null;
};

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

  /** What the settings file in a folder of a branch says; the default branch where none is given. */
  async settings(
    asked: AskedRepository & { readonly gitBranch: string | null; readonly gitPath: string },
  ): Promise<FoundSettings> {
    const { projectId, signal } = asked;
    const gitRepo = this.#canonical(asked.gitRepo);
    const folder = valid(checkFolder(asked.gitPath));
    const branch = asked.gitBranch ?? (await this.branches(asked)).branches[0] ?? "";
    const place = { branch: valid(checkBranch(branch)), folder };
    const { toml, missing, ...found } = usable(
      await this.#parts.remote.settings({ projectId, gitRepo }, place, signal),
    );
    if (missing === "branch")
      throw new Fault("not_usable", `gitBranch is ${shown(branch)}, which ${gitRepo} does not have.`);
    if (missing === "folder") {
      const known = found.folders.slice(0, 10).map((one) => one || "/");
      const hint = known.length === 0 ? "" : `; there are settings files in: ${known.join(", ")}`;
      throw new Fault(
        "not_usable",
        `gitPath is ${shown(folder)}, which is no folder of ${gitRepo} on ${branch}${hint}.`,
      );
    }
    const file = toml === null ? null : { name: toml.name, ...checkToml(toml, this.#parts.providers) };
    return { ...found, file };
  }

  #canonical(gitRepo: string): string {
    return valid(readRepository(gitRepo, this.#parts.hosts)).canonical;
  }
}

function valid<T>(checked: Checked<T>): T {
  if (checked.ok) return checked.value;
  throw new Fault("invalid", checked.reason);
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
