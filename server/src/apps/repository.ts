// Reads which repository a person means: `owner/repo` on the platform's git host, or an address
// that was copied from a page of a host that the operator allows. Pure. Only names from the
// person's text get into the addresses that are fetched; the operator's templates give the rest.

/** URL templates with `{owner}` and `{repo}`. Nothing is fetched from anywhere else. */
export type GitHosts = {
  /** The template for a plain `owner/repo`. */
  readonly defaultUrl: string;
  readonly otherUrls: readonly string[];
};

export type FoundRepository = {
  /** The URL template of the host. */
  readonly template: string;
  /** The owner, which may contain groups: `group/sub`. */
  readonly owner: string;
  readonly repo: string;
  /** The one form that is stored: `owner/repo`, on other hosts `https://host/owner/repo`. */
  readonly canonical: string;
};

type ReadResult =
  | { readonly ok: true; readonly value: FoundRepository }
  | { readonly ok: false; readonly reason: string };
/** The parts of the text. `scheme` is `ssh` for git's short form, and empty for `owner/repo`. */
type ParsedText = { readonly scheme: string; readonly host: string | null; readonly path: string };

/** The maximum length of the text, far above that of usual addresses. */
const lengthMax = 500;
/** The maximum number of names in a path; GitLab nests groups up to 20 deep. */
const partsMax = 20;
/** Hosts where an address with more than two names is that of a page of the repository. */
const hostsWithoutGroups = new Set(["github.com", "bitbucket.org", "codeberg.org", "gitea.com"]);
/** The form of a name that cannot be an option, a parent folder, or special in a URL. */
const partForm = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;
/** An address: its scheme, its user if there is one, its host and its path. */
const urlForm = /^(https?|ssh):\/\/(?:([^/]*)@)?([^/@]*)\/(.*)$/is;
/** Git's own short form of ssh addresses, such as `git@host:owner/repo`. */
const shortForm = /^([^/@]*)@([^/@:]*):(.*)$/s;

/**
 * The repository that the text names, or a sentence that says what is allowed. Reads a canonical
 * form as the same repository.
 */
export function readRepository(text: string, hosts: GitHosts): ReadResult {
  if (text.length > lengthMax) return refusedForm(text);
  const parsed = parseText(text);
  if (parsed === "credentials") return refusedCredentials;
  if (parsed === null) return refusedForm(text);
  // A `.git` or a slash at the end is no part of the name.
  const names = parsed.path.replace(/(?:\.git)?\/?$/i, "").split("/");
  if (names.length < 2 || names.length > partsMax) return refusedForm(text);
  const template = templateOf(parsed, names, hosts);
  // Only the folders of a template may have names that are not usable.
  const parts =
    parsed.host === null || template === null ? names : withoutTemplate(names, template);
  const isUsable = (part: string): boolean => partForm.test(part) && !part.includes("..");
  if (parts.length < 2 || !parts.every(isUsable)) return refusedForm(text);
  if (template === null) return refusedHost(parsed.host ?? "", hosts);
  if (parts.length > 2 && hostsWithoutGroups.has(hostOfTemplate(template)))
    return refusedForm(text);
  const owner = parts.slice(0, -1).join("/");
  const repo = parts.at(-1) ?? "";
  // With the slash that follows it, "https:/" becomes "https://".
  const address = ["https:/", hostOfTemplate(template), ...foldersOf(template), owner, repo].join(
    "/",
  );
  const canonical = template === hosts.defaultUrl ? `${owner}/${repo}` : address;
  return { ok: true, value: { template, owner, repo, canonical } };
}

/**
 * The owner, maybe with groups, and the name of a repository, from its stored form or an address.
 */
export function repositoryPath(gitRepo: string, hosts: GitHosts): string {
  const read = readRepository(gitRepo, hosts);
  if (read.ok) return `${read.value.owner}/${read.value.repo}`;
  // The host is no longer allowed: removes scheme, user and host, and the end of the path.
  return gitRepo.replace(/^(?:\w+:\/\/[^/]*\/|[^/@]*@[^/:]*:)/, "").replace(/(?:\.git)?\/*$/i, "");
}

/**
 * The host of a template, with its port unless it is the default; "" for a folder of this machine.
 */
export function hostOfTemplate(template: string): string {
  const [, host = ""] = /^(?:https?|ssh):\/\/(?:[^/@]*@)?([^/]*)/.exec(template) ?? [];
  return host.toLowerCase();
}

/**
 * The folders of a template before `{owner}`, such as those of a GitLab that is served below a
 * path.
 */
export function foldersOf(template: string): readonly string[] {
  return namesIn(pathOfTemplate(template).split("{owner}", 1)[0] ?? "");
}

/** The folders of a template between `{owner}` and `{repo}`, such as `_git` on some hosts. */
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
 * Removes the template's folders, so that owner and repository remain. The address may lack the
 * folders: addresses of ssh often have none where addresses of the web have some.
 */
function withoutTemplate(parts: readonly string[], template: string): readonly string[] {
  const folders = foldersOf(template);
  const rest = beginsWith(parts, folders) ? parts.slice(folders.length) : parts;
  const middle = middleOf(template);
  // The name of the repository is last, the middle comes before it, and the rest is the owner.
  const owner = rest.slice(0, -1 - middle.length);
  const hasMiddle = owner.length > 0 && beginsWith(rest.slice(owner.length), middle);
  return hasMiddle ? [...owner, ...rest.slice(-1)] : rest;
}

function beginsWith(parts: readonly string[], folders: readonly string[]): boolean {
  return folders.every((folder, index) => parts[index] === folder);
}

/**
 * Takes the text apart. `credentials`: the text has a user other than `git`, perhaps with a
 * password.
 */
function parseText(text: string): ParsedText | "credentials" | null {
  const [, scheme = "", user, host = "", path = ""] = urlForm.exec(text) ?? [];
  if (scheme !== "") {
    const isUserAllowed = user === undefined || (scheme.toLowerCase() === "ssh" && user === "git");
    return isUserAllowed
      ? { scheme: scheme.toLowerCase(), host: host.toLowerCase(), path }
      : "credentials";
  }
  const [shortAddress, shortUser, shortHost = "", shortPath = ""] = shortForm.exec(text) ?? [];
  if (shortAddress !== undefined) {
    return shortUser === "git"
      ? { scheme: "ssh", host: shortHost.toLowerCase(), path: shortPath }
      : "credentials";
  }
  return text.includes("@") ? "credentials" : { scheme: "", host: null, path: text };
}

/**
 * Finds the template of an address. Of several templates on one host, takes the one whose folders
 * begin the path, else the first. Compares whole names: a port, a dot at the end or a look-alike
 * makes another host. With ssh, ports are ignored: the web has another port, and git's short form
 * has none.
 */
function templateOf(
  { scheme, host }: ParsedText,
  parts: readonly string[],
  { defaultUrl, otherUrls }: GitHosts,
): string | null {
  if (host === null) return defaultUrl;
  const templates = [defaultUrl, ...otherUrls].filter(
    (template) => hostOfTemplate(template) !== "",
  );
  const isSsh = scheme === "ssh";
  const onSameHost = templates.filter((template) => hostOfTemplate(template) === host);
  // Ports are ignored if the address or the template is one of ssh.
  const comparable = templates.filter((template) => isSsh || template.startsWith("ssh:"));
  const onSameName = comparable.filter(
    (template) => withoutPort(hostOfTemplate(template)) === withoutPort(host),
  );
  const onHost = onSameHost.length > 0 ? onSameHost : onSameName;
  // The template with the most folders comes first.
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

function refusedForm(text: string): ReadResult {
  const cutText = text.length > 80 ? `${text.slice(0, 80)}…` : text;
  const form = `owner/repo: letters, digits, ".", "_" and "-", for example acme/my-app`;
  return {
    ok: false,
    reason: `gitRepo is ${JSON.stringify(cutText)}, but must have the form ${form}, or be its address.`,
  };
}

function refusedHost(host: string, { defaultUrl, otherUrls }: GitHosts): ReadResult {
  const hosts = [defaultUrl, ...otherUrls].map(hostOfTemplate);
  const namedHosts = hosts.filter((name) => name !== "");
  const allowed =
    namedHosts.length === 0
      ? "must have the form owner/repo here"
      : `must be on ${namedHosts.join(" or ")} here`;
  const shownHost = JSON.stringify(host.slice(0, 80));
  return {
    ok: false,
    reason: `gitRepo is on ${shownHost}, but ${allowed} (SLIPWAY_GIT_HOSTS).`,
  };
}
