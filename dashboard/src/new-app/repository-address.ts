// Reads the address of a repository, or of a folder in it, as somebody copies it from the page of a
// git host. Pure; whether the repository is allowed is decided by the platform.

/**
 * What the address says; the branch is the first part after `tree`, so that one with a slash has to
 * be set by hand.
 */
export type RepositoryAddress = {
  readonly gitRepo: string;
  readonly gitBranch?: string;
  readonly gitPath?: string;
};

/** Addresses of folders at GitLab and at GitHub; `sourceForms`: at Forgejo and at Bitbucket. */
const folderForms = [
  /^(.+?)\/-\/(?:tree|blob)\/([^/]+)\/?(.*)$/,
  /^(.+?)\/(?:tree|blob)\/([^/]+)\/?(.*)$/,
];
const sourceForms = [
  /^([^/]+\/[^/]+)\/src\/branch\/([^/]+)\/?(.*)$/,
  /^([^/]+\/[^/]+)\/src\/([^/]+)\/?(.*)$/,
];

/** Everything that is no address of a page is left as it is. */
export function readRepositoryAddress(typed: string): RepositoryAddress {
  const text = typed.trim();
  const [, origin, rest = ""] = /^(https?:\/\/[^/]+\/)([^?#]*)/.exec(text) ?? [];
  if (origin === undefined) return { gitRepo: text };
  for (const form of [...folderForms, ...sourceForms]) {
    const [whole, repository = "", branch = "", path = ""] = form.exec(rest) ?? [];
    if (whole === undefined) continue;
    const gitPath = decoded(path).replace(/\/+$/, "");
    return {
      gitRepo: origin + repository,
      gitBranch: decoded(branch),
      ...(gitPath === "" ? {} : { gitPath }),
    };
  }
  return { gitRepo: origin + rest.replace(/\/+$/, "") };
}

/** A name for the app: that of its folder, or of the repository, as far as it can be one. */
export function suggestedName({ gitRepo, gitPath = "" }: RepositoryAddress): string {
  const last = (gitPath === "" ? gitRepo.replace(/(?:\.git)?\/*$/i, "") : gitPath)
    .split(/[/:]/)
    .findLast((part) => part !== "");
  const name = (last ?? "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, "-")
    .slice(0, 30)
    .replaceAll(/^-+|-+$/g, "");
  return name.length < 3 ? "" : name;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
