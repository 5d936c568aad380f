// Reads which repository a person means: `owner/repo` on the platform's git host, or an address that was copied from a page of a
// host that the operator allows. Pure; only names pass from it into addresses, whose other parts are the operator's.

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

type Read = { readonly ok: true; readonly value: FoundRepository } | { readonly ok: false; readonly reason: string };
type Named = { readonly host: string | null; readonly path: string };

const lengthMax = 500;
const partsMax = 20;
/** An address with more names there is that of a page of the repository. */
const hostsWithoutGroups = new Set(["github.com", "bitbucket.org", "codeberg.org", "gitea.com"]);
/** Cannot be an option, a parent folder, or special in a URL. */
const partForm = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;
const urlForm = /^(https?|ssh):\/\/(?:([^/]*)@)?([^/@]*)\/(.*)$/is;
/** As git's own short form of ssh addresses. */
const shortForm = /^([^/@]*)@([^/@:]*):(.*)$/s;

/** The repository that is meant, or a sentence that says what is allowed. Reads what it has written as the same. */
export function readRepository(given: string, hosts: GitHosts): Read {
  const named = given.length > lengthMax ? null : readNames(given);
  if (named === "credentials") return refusedCredentials;
  const parts = named?.path.replace(/(?:\.git)?\/?$/i, "").split("/") ?? [];
  const isUsable = (part: string): boolean => partForm.test(part) && !part.includes("..");
  if (named === null || parts.length < 2 || parts.length > partsMax || !parts.every(isUsable))
    return refusedForm(given);
  const template = templateOf(named.host, hosts);
  if (template === null) return refusedHost(named.host ?? "", hosts);
  if (parts.length > 2 && hostsWithoutGroups.has(hostOfTemplate(template))) return refusedForm(given);
  const [owner, repo = ""] = [parts.slice(0, -1).join("/"), parts.at(-1)];
  const host = template === hosts.defaultUrl ? null : named.host;
  const canonical = `${host === null ? "" : `https://${host}/`}${owner}/${repo}`;
  return { ok: true, value: { template, owner, repo, canonical } };
}

/** The path of a repository on its host, of its stored form or an address. */
export function repositoryPath(gitRepo: string): string {
  return gitRepo.replace(/^(?:\w+:\/\/[^/]*\/|[^/@]*@[^/:]*:)/, "").replace(/(?:\.git)?\/*$/i, "");
}

/** The host of a template, with its port unless it is the default; "" for a folder of this machine. */
export function hostOfTemplate(template: string): string {
  return (/^(?:https?|ssh):\/\/(?:[^/@]*@)?([^/]*)/.exec(template)?.[1] ?? "").toLowerCase();
}

function readNames(given: string): Named | "credentials" | null {
  const [, scheme = "", user, host = "", path = ""] = urlForm.exec(given) ?? [];
  if (scheme !== "") {
    const isOfGit = user === undefined || (scheme.toLowerCase() === "ssh" && user === "git");
    return isOfGit ? { host: host.toLowerCase(), path } : "credentials";
  }
  const [isShort, name, shortHost = "", shortPath = ""] = shortForm.exec(given) ?? [];
  if (isShort !== undefined) return name === "git" ? { host: shortHost.toLowerCase(), path: shortPath } : "credentials";
  return given.includes("@") ? "credentials" : { host: null, path: given };
}

/** Compares whole names: a port, a dot at the end or a look-alike is another host. */
function templateOf(host: string | null, { defaultUrl, otherUrls }: GitHosts): string | null {
  if (host === null) return defaultUrl;
  if (host === "") return null;
  return [defaultUrl, ...otherUrls].find((template) => hostOfTemplate(template) === host) ?? null;
}

const refusedCredentials = {
  ok: false,
  reason:
    "gitRepo contains a user name or a password (it is not shown): leave them out, and set the credential of the host (PUT …/git-credentials/{host}).",
} as const;

function refusedForm(given: string): Read {
  const shown = JSON.stringify(given.length > 80 ? `${given.slice(0, 80)}…` : given);
  const form = `owner/repo: letters, digits, ".", "_" and "-", for example acme/my-app`;
  return { ok: false, reason: `gitRepo is ${shown}, but must have the form ${form}, or be its address.` };
}

function refusedHost(host: string, { defaultUrl, otherUrls }: GitHosts): Read {
  const hosts = [defaultUrl, ...otherUrls].map(hostOfTemplate).filter((name) => name !== "");
  const allowed = hosts.length === 0 ? "must have the form owner/repo here" : `must be on ${hosts.join(" or ")} here`;
  return {
    ok: false,
    reason: `gitRepo is on ${JSON.stringify(host.slice(0, 80))}, but ${allowed} (SLIPWAY_GIT_HOSTS).`,
  };
}
