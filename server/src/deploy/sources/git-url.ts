// Validates input for git: the form of branches, commits and folders, and the address to fetch
// from. Pure; everything on git's command line is checked here, or in `apps/repository.ts`.
import { foldersOf, hostOfTemplate, readRepository, type GitHosts } from "#apps/repository.ts";
import type { Checked } from "#deploy/checked.ts";

/** The parts of `owner/repo`. */
type Repository = { readonly owner: string; readonly repo: string };

/** The address to fetch a repository from. `protocol` is the only one that git may use. */
export type SourceUrl = {
  readonly url: string;
  readonly protocol: "http" | "https" | "ssh" | "file";
  /**
   * The host, with its port unless that is the default. A project's credential for the host is
   * found by this text. Empty for `file`.
   */
  readonly host: string;
  /** The path below which the host has all its repositories, such as `/gitlab`; "" for none. */
  readonly below: string;
  /** The repository's owner, possibly with groups, and its name. */
  readonly path: string;
};

/** A name of this length has 255 characters with `refs/heads/` before it. */
const branchLengthMax = 244;
/** The maximum length of the app's path in its repository, far more than usual paths have. */
const pathLengthMax = 1024;

/** Checks a branch against git's rules for branch names. */
export function checkBranch(branch: string): Checked<string> {
  // The first pattern has the characters that git forbids anywhere. The second one has what a name
  // must not begin with, what it must not end with, and pairs that it must not contain.
  const isUsable =
    branch.length > 0 &&
    branch.length <= branchLengthMax &&
    !/[\x00-\x20\x7f~^:?*[\\]/.test(branch) &&
    !/^[-/]|\/$|\/\/|\.\.|@\{|\.$/.test(branch) &&
    branch !== "@" &&
    branch.isWellFormed() &&
    branch.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"));
  if (isUsable) return { ok: true, value: branch };
  return {
    ok: false,
    reason: `gitBranch is ${quoted(branch)}, which is not a name that a git branch can have.`,
  };
}

/** Checks a folder of the repository and normalizes it to `a/b`; the root is "". */
export function checkFolder(folder: string): Checked<string> {
  const parts = folder.split("/").filter((part) => part !== "" && part !== ".");
  const isUsable =
    folder.length <= pathLengthMax &&
    !folder.startsWith("/") &&
    !/[\x00-\x1f\x7f\\]/.test(folder) &&
    folder.isWellFormed() &&
    parts.every((part) => part !== ".." && !/^\.git$/i.test(part));
  if (isUsable) return { ok: true, value: parts.join("/") };
  return {
    ok: false,
    reason: `gitPath is ${quoted(folder)}, but must be a folder inside the repository, relative to its root, without "..".`,
  };
}

/** True for a full commit id (SHA-1 or SHA-256). */
export function isCommit(text: string): boolean {
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}

/** The address of a repository, from a template that the configuration has checked. */
export function sourceUrl(template: string, repository: Repository): SourceUrl {
  // As results of functions, the replacements are taken as they are, even with a `$` in them.
  const url = template
    .replaceAll("{owner}", () => repository.owner)
    .replaceAll("{repo}", () => repository.repo);
  // A checked template has one of these protocols, so the default is never used.
  const protocol = (/^(https?|ssh|file):/.exec(url)?.[1] ?? "https") as SourceUrl["protocol"];
  const below = foldersOf(template)
    .map((folder) => `/${folder}`)
    .join("");
  return {
    url,
    protocol,
    host: hostOfTemplate(url),
    below,
    path: `${repository.owner}/${repository.repo}`,
  };
}

/** The address of a repository in any form that `readRepository` takes. */
export function repositoryAddress(
  gitRepo: string,
  hosts: GitHosts,
): Checked<{ readonly url: SourceUrl; readonly canonical: string }> {
  const repository = readRepository(gitRepo, hosts);
  if (!repository.ok) return repository;
  const { template, canonical } = repository.value;
  return { ok: true, value: { url: sourceUrl(template, repository.value), canonical } };
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
