// Makes the request for the list of the repositories that a token can see, by the public API of
// each kind of git host, and reads the answer. Pure. Bitbucket has no such list across workspaces.
import type { GitHostKind } from "@slipway/contract/words.ts";
import { apiUrl, authorization, knownHostKind, type ApiReceiver } from "./status-request.ts";

/** The form of a host's list. */
type Form = {
  /** The maximum number of repositories in an answer. */
  readonly pageSize: number;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** The parameter for a search; null: the host cannot search in this list. */
  readonly search: string | null;
  /** The parameter for the size of a page. */
  readonly size: string;
  /** The field of an entry that contains `owner/repo`. */
  readonly name: string;
};

/** The forms, in the order in which a host of an unknown kind is asked. */
const forms: Readonly<Partial<Record<GitHostKind, Form>>> = {
  gitea: {
    pageSize: 50,
    path: "/repos/search",
    query: { sort: "updated", order: "desc" },
    search: "q",
    size: "limit",
    name: "full_name",
  },
  gitlab: {
    pageSize: 100,
    path: "/projects",
    search: "search",
    size: "per_page",
    name: "path_with_namespace",
    query: { membership: "true", simple: "true", order_by: "last_activity_at" },
  },
  github: {
    pageSize: 100,
    path: "/user/repos",
    query: { sort: "pushed" },
    search: null,
    size: "per_page",
    name: "full_name",
  },
};

/** Enough for the 300 repositories with the newest pushes, which GitHub's list has first. */
const pagesMax = 3;

/**
 * How many pages of a host's list are read: several if the host itself cannot search in the list.
 */
export function pagesOf(kind: GitHostKind, search: string): number {
  return search !== "" && forms[kind]?.search === null ? pagesMax : 1;
}

/**
 * The kinds as which to ask the host: its own if that is known, otherwise all that have a list.
 * Empty: the host is of a known kind that has no list.
 */
export function kindsOf(host: string): readonly GitHostKind[] {
  const kinds = Object.keys(forms) as GitHostKind[];
  const known = knownHostKind(host);
  return known === undefined ? kinds : kinds.filter((kind) => kind === known);
}

/** The GET request for a page of the list. The headers contain the token. */
export function repositoryRequest(
  kind: GitHostKind,
  { source, credential }: ApiReceiver,
  { search, page }: { readonly search: string; readonly page: number },
): { readonly url: string; readonly headers: Readonly<Record<string, string>> } {
  // Only kinds with a form are asked, see `kindsOf`.
  const form = forms[kind];
  const query = new URLSearchParams({ ...form?.query, page: String(page) });
  if (form !== undefined) query.set(form.size, String(form.pageSize));
  if (form?.search && search !== "") query.set(form.search, search);
  const headers = { ...authorization(kind, credential), accept: "application/json" };
  return { url: `${apiUrl(kind, source)}${form?.path}?${query.toString()}`, headers };
}

/** The repositories of a page, each as `owner/repo`. */
export type NamedRepositories = {
  readonly names: readonly string[];
  /** Whether the page is full, so that the list may go on. */
  readonly hasMore: boolean;
};

/** Reads the answer; null: a host of this kind does not answer like this. */
export function readRepositories(kind: GitHostKind, body: string): NamedRepositories | null {
  const form = forms[kind];
  const json = parsed(body);
  // Gitea puts the list into an object.
  const entries = kind === "gitea" ? (json as { data?: unknown } | null)?.data : json;
  if (form === undefined || !Array.isArray(entries)) return null;
  const names = entries.map(
    (entry: Readonly<Record<string, unknown>> | null) => entry?.[form.name],
  );
  return {
    names: names.filter((name) => typeof name === "string"),
    hasMore: entries.length >= form.pageSize,
  };
}

/** The JSON of a body; null: the body is not JSON. */
function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
