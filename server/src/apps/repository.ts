// Reads which repository a person means: `owner/repo` on the platform's git host, or an address
// that was copied from a page of a host that the operator allows. Pure; only names pass from it
// into addresses, whose other parts are the operator's.

/** URL templates with `{owner}` and `{repo}`. Nothing is fetched from anywhere else. */
export type GitHosts = {
  /** Where `owner/repo` is. */
  readonly defaultUrl: string;
  readonly otherUrls: readonly string[];
};

export type FoundRepository = {
  readonly template: string;
  /** Maybe below groups: `group/sub`. */
  readonly owner: string;
  readonly repo: string;
  /** The one form that is stored: `owner/repo`, on other hosts `https://host/owner/repo`. */
  readonly canonical: string;
};

type Read =
  | { readonly ok: true; readonly value: FoundRepository }
  | { readonly ok: false; readonly reason: string };
/** `scheme` is that of the address, `ssh` also for git's short form. */
type Named = { readonly scheme: string; readonly host: string | null; readonly path: string };

const lengthMax = 500;
const partsMax = 20;
/** An address with more names there is that of a page of the repository. */
const hostsWithoutGroups = new Set(["github.com", "bitbucket.org", "codeberg.org", "gitea.com"]);
/** Cannot be an option, a parent folder, or special in a URL. */
const partForm = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;
const urlForm = /^(https?|ssh):\/\/(?:([^/]*)@)?([^/@]*)\/(.*)$/is;
/** As git's own short form of ssh addresses. */
const shortForm = /^([^/@]*)@([^/@:]*):(.*)$/s;

/**
 * The repository that is meant, or a sentence that says what is allowed. Reads what it has written
 * as the same.
 */
export function readRepository(text: string, hosts: GitHosts): Read {
  const named = text.length > lengthMax ? null : readNames(text);
  if (named === "credentials") return refusedCredentials;
  const all = named?.path.replace(/(?:\.git)?\/?$/i, "").split("/") ?? [];
  const isUsable = (part: string): boolean => partForm.test(part) && !part.includes("..");
  if (named === null || all.length < 2 || all.length > partsMax) return refusedForm(text);
  const template = templateOf(named, all, hosts);
  // Only the folders of a host may have other names.
  const parts = named.host === null || template === null ? all : withoutTemplate(all, template);
  if (parts.length < 2 || !parts.every(isUsable)) return refusedForm(text);
  if (template === null) return refusedHost(named.host ?? "", hosts);
  if (parts.length > 2 && hostsWithoutGroups.has(hostOfTemplate(template)))
    return refusedForm(text);
  const owner = parts.slice(0, -1).join("/");
  const repo = parts.at(-1) ?? "";
  const address = ["https:/", hostOfTemplate(template), ...foldersOf(template), owner, repo].join(
    "/",
  );
  const canonical = template === hosts.defaultUrl ? `${owner}/${repo}` : address;
  return { ok: true, value: { template, owner, repo, canonical } };
}

/** Owner, maybe with groups, and name of a repository, of its stored form or an address. */
export function repositoryPath(gitRepo: string, hosts: GitHosts): string {
  const read = readRepository(gitRepo, hosts);
  if (read.ok) return `${read.value.owner}/${read.value.repo}`;
  // Of a host that is no longer allowed.
  return gitRepo.replace(/^(?:\w+:\/\/[^/]*\/|[^/@]*@[^/:]*:)/, "").replace(/(?:\.git)?\/*$/i, "");
}

/**
 * The host of a template, with its port unless it is the default; "" for a folder of this machine.
 */
export function hostOfTemplate(template: string): string {
  return (/^(?:https?|ssh):\/\/(?:[^/@]*@)?([^/]*)/.exec(template)?.[1] ?? "").toLowerCase();
}

/** The folders of a template's host that stand before `{owner}`, as of a GitLab below a path. */
export function foldersOf(template: string): readonly string[] {
  return namesIn(pathOfTemplate(template).split("{owner}", 1)[0] ?? "");
}

/** Between `{owner}` and `{repo}`, as `_git` of some hosts. */
function middleOf(template: string): readonly string[] {
  return namesIn(/\{owner\}(.*)\{repo\}/.exec(pathOfTemplate(template))?.[1] ?? "");
}

function pathOfTemplate(template: string): string {
  return template.replace(/^\w+:\/\/[^/]*/, "");
}

function namesIn(path: string): readonly string[] {
  return path.split("/").filter((part) => part !== "");
}

/**
 * Owner and repository alone. Addresses of ssh often have no folders where those of the web have
 * some.
 */
function withoutTemplate(parts: readonly string[], template: string): readonly string[] {
  const folders = foldersOf(template);
  const rest = beginsWith(parts, folders) ? parts.slice(folders.length) : parts;
  const middle = middleOf(template);
  const owner = rest.slice(0, -1 - middle.length);
  const isWhole = owner.length > 0 && beginsWith(rest.slice(owner.length), middle);
  return isWhole ? [...owner, ...rest.slice(-1)] : rest;
}

function beginsWith(parts: readonly string[], folders: readonly string[]): boolean {
  return folders.every((folder, index) => parts[index] === folder);
}

function readNames(text: string): Named | "credentials" | null {
  const [, scheme = "", user, host = "", path = ""] = urlForm.exec(text) ?? [];
  if (scheme !== "") {
    const isOfGit = user === undefined || (scheme.toLowerCase() === "ssh" && user === "git");
    return isOfGit
      ? { scheme: scheme.toLowerCase(), host: host.toLowerCase(), path }
      : "credentials";
  }
  const [isShort, name, shortHost = "", shortPath = ""] = shortForm.exec(text) ?? [];
  if (isShort !== undefined) {
    return name === "git"
      ? { scheme: "ssh", host: shortHost.toLowerCase(), path: shortPath }
      : "credentials";
  }
  return text.includes("@") ? "credentials" : { scheme: "", host: null, path: text };
}

/**
 * Finds the template of an address. Of several on one host it is the one whose folders the path
 * has, else the first. Compares whole names: a port, a dot at the end or a look-alike is another
 * host. Only with ssh ports say nothing: the web has another one, and git's short form has none.
 */
function templateOf(
  { scheme, host }: Named,
  parts: readonly string[],
  { defaultUrl, otherUrls }: GitHosts,
): string | null {
  if (host === null) return defaultUrl;
  const templates = [defaultUrl, ...otherUrls].filter(
    (template) => hostOfTemplate(template) !== "",
  );
  const isSsh = scheme === "ssh";
  const same = templates.filter((template) => hostOfTemplate(template) === host);
  const comparable = templates.filter((template) => isSsh || template.startsWith("ssh:"));
  const alike = comparable.filter(
    (template) => withoutPort(hostOfTemplate(template)) === withoutPort(host),
  );
  const onHost = same.length > 0 ? same : alike;
  const byFolders = onHost.toSorted(
    (one, other) => foldersOf(other).length - foldersOf(one).length,
  );
  return byFolders.find((template) => beginsWith(parts, foldersOf(template))) ?? onHost[0] ?? null;
}

function withoutPort(host: string): string {
  return host.replace(/:\d+$/, "");
}

const refusedCredentials = {
  ok: false,
  reason:
    "gitRepo contains a user name or a password (it is not shown): leave them out, and set the credential of the host (PUT …/git-credentials/{host}).",
} as const;

function refusedForm(text: string): Read {
  const shown = JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
  const form = `owner/repo: letters, digits, ".", "_" and "-", for example acme/my-app`;
  return {
    ok: false,
    reason: `gitRepo is ${shown}, but must have the form ${form}, or be its address.`,
  };
}

function refusedHost(host: string, { defaultUrl, otherUrls }: GitHosts): Read {
  const hosts = [defaultUrl, ...otherUrls].map(hostOfTemplate).filter((name) => name !== "");
  const allowed =
    hosts.length === 0
      ? "must have the form owner/repo here"
      : `must be on ${hosts.join(" or ")} here`;
  return {
    ok: false,
    reason: `gitRepo is on ${JSON.stringify(host.slice(0, 80))}, but ${allowed} (SLIPWAY_GIT_HOSTS).`,
  };
}
