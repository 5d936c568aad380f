// Where an app's folder is in a git repository that the platform can fetch: owner and name from the remote, branch, path.
import { spawnSync } from "node:child_process";
import { Refused } from "./refused.ts";

/** The fields of an app that is deployed from a repository. */
export type GitRef = {
  readonly gitRepo: string;
  readonly gitBranch?: string;
  /** Of the folder within the repository; absent: its root. */
  readonly gitPath?: string;
  /** Sentences about what the platform will not see. */
  readonly warnings: readonly string[];
};

const gitMs = 20_000;

/** Reads the repository of the folder. Throws `Refused` when there is none, or no remote that names owner and repository. */
export function gitRefOf(folder: string): GitRef {
  const prefix = git(folder, ["rev-parse", "--show-prefix"]);
  if (prefix === null) throw new Refused(`${folder} is in no git repository. Without --git its files are uploaded.`);
  const remote = git(folder, ["config", "--get", "remote.origin.url"]);
  if (remote === null) {
    throw new Refused("The repository has no remote called origin. Add one, or upload the files: leave out --git.");
  }
  const gitRepo = repositoryOf(remote);
  if (gitRepo === null) throw new Refused("The remote origin does not name an owner and a repository (…/owner/name).");
  const branch = git(folder, ["symbolic-ref", "--short", "HEAD"]);
  const path = prefix.replace(/\/$/, "");
  return {
    gitRepo,
    ...(branch === null ? {} : { gitBranch: branch }),
    ...(path === "" ? {} : { gitPath: path }),
    warnings: warningsOf(folder),
  };
}

/** `owner/name` of a remote's address: `https://host/owner/name.git`, `git@host:owner/name.git`. Pure. */
export function repositoryOf(remote: string): string | null {
  const path = /^[a-z+]+:\/\/[^/]+\/(.+)$/.exec(remote)?.[1] ?? /^[^/:]+:(.+)$/.exec(remote)?.[1];
  const [, owner, name] = /(?:^|\/)([\w.-]+)\/([\w.-]+?)(?:\.git)?\/?$/.exec(path ?? "") ?? [];
  return owner === undefined || name === undefined ? null : `${owner}/${name}`;
}

function warningsOf(folder: string): string[] {
  const changed = (git(folder, ["status", "--porcelain", "."]) ?? "") !== "";
  const ahead = Number(git(folder, ["rev-list", "--count", "@{upstream}..HEAD"]) ?? 0);
  return [
    ...(changed ? ["There are changes that are not committed; the platform builds what was pushed."] : []),
    ...(ahead > 0 ? [`${ahead === 1 ? "1 commit is" : `${ahead} commits are`} not pushed yet.`] : []),
  ];
}

/** What git prints; null when it fails. */
function git(folder: string, words: readonly string[]): string | null {
  const { status, stdout, error } = spawnSync("git", ["-C", folder, ...words], { encoding: "utf8", timeout: gitMs });
  if (error !== undefined && "code" in error && error.code === "ENOENT") throw new Refused("git is not installed.");
  return status === 0 ? stdout.trim() : null;
}
