// The request that lists the repositories which a token can see, by the public API of each kind of
// git host, and how its answer is read. Pure. Bitbucket has no such list across workspaces.
import type { GitHostKind } from "@slipway/contract/words.ts";
import { apiUrl, authorization, knownHostKind, type ApiReceiver } from "./status-request.ts";

type Form = {
  /** The most that the host gives at once. */
  readonly pageSize: number;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  /** The parameter that searches; null: the host cannot search in this list. */
  readonly search: string | null;
  readonly size: string;
  /** Where in an entry its `owner/repo` is. */
  readonly name: string;
};

/** As hosts are asked of which nobody knows the kind. */
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

const pagesMax = 3;

/**
 * How many pages are read of the list of such a host: more than one where the search is left to us.
 */
export function pagesOf(kind: GitHostKind, search: string): number {
  return search !== "" && forms[kind]?.search === null ? pagesMax : 1;
}

/**
 * The kinds that a host may be of: the one that it is known for, else all. Empty: it has no such
 * list.
 */
export function kindsOf(host: string): readonly GitHostKind[] {
  const kinds = Object.keys(forms) as GitHostKind[];
  const known = knownHostKind(host);
  return known === undefined ? kinds : kinds.filter((kind) => kind === known);
}

/** A GET. The headers contain the token. */
export function repositoryRequest(
  kind: GitHostKind,
  { source, credential }: ApiReceiver,
  { search, page }: { readonly search: string; readonly page: number },
): { readonly url: string; readonly headers: Readonly<Record<string, string>> } {
  const form = forms[kind];
  const query = new URLSearchParams({ ...form?.query, page: String(page) });
  if (form !== undefined) query.set(form.size, String(form.pageSize));
  if (form?.search && search !== "") query.set(form.search, search);
  const headers = { ...authorization(kind, credential), accept: "application/json" };
  return { url: `${apiUrl(kind, source)}${form?.path}?${query.toString()}`, headers };
}

/** `owner/repo`. `hasMore`: these are as many as the host gives at once. */
export type NamedRepositories = { readonly names: readonly string[]; readonly hasMore: boolean };

/** Null: this is not what a host of the kind answers. */
export function readRepositories(kind: GitHostKind, body: string): NamedRepositories | null {
  const form = forms[kind];
  const entries =
    kind === "gitea" ? (parsed(body) as { data?: unknown } | null)?.data : parsed(body);
  if (form === undefined || !Array.isArray(entries)) return null;
  const names = entries.map(
    (entry: Readonly<Record<string, unknown>> | null) => entry?.[form.name],
  );
  return {
    names: names.filter((name) => typeof name === "string"),
    hasMore: entries.length >= form.pageSize,
  };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
