// The request that reports a build's state as a status of its commit, by the public API of each
// kind of git host. Pure.
import type { GitHostKind } from "@slipway/contract/words.ts";
import type { GitCredential } from "#apps/credentials.ts";
import type { SourceUrl } from "#deploy/sources/git-url.ts";
import type { AppId } from "#lib/ids.ts";

export type StatusState = "pending" | "success" | "failure" | "cancelled";

export type CommitStatus = {
  /** As callers know it. */
  readonly appId: AppId;
  /** `owner/repo`, as the app's settings have it: `.git` may follow. */
  readonly repository: string;
  readonly commit: string;
  readonly state: StatusState;
  /** Where to read more. */
  readonly url: string;
  /** One sentence. */
  readonly description: string;
};

/** A POST of JSON. The headers contain the token. */
export type StatusRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

/** Where the API of a git host is, and who asks. */
export type ApiReceiver = {
  readonly source: Pick<SourceUrl, "protocol" | "host" | "below">;
  readonly credential: Pick<GitCredential, "username" | "secret">;
};
type Form = {
  /** The path of the API on a host of one's own. */
  readonly base: string;
  readonly path: (status: CommitStatus) => string;
  readonly states: Readonly<Record<StatusState, string>>;
  /** Without the state. */
  readonly fields: (status: CommitStatus) => object;
};

/** GitHub's limit; the others have higher ones. */
const descriptionLengthMax = 140;
const publicApis: Readonly<Record<string, string>> = {
  "github.com": "https://api.github.com",
  "bitbucket.org": "https://api.bitbucket.org/2.0",
};
const hubForm: Omit<Form, "base"> = {
  path: ({ repository, commit }) => `/repos/${repository}/statuses/${commit}`,
  states: { pending: "pending", success: "success", failure: "failure", cancelled: "error" },
  fields: ({ appId, url, description }) => ({
    target_url: url,
    description,
    context: `slipway/${appId}`,
  }),
};
const forms: Readonly<Record<GitHostKind, Form>> = {
  github: { ...hubForm, base: "/api/v3" },
  gitea: { ...hubForm, base: "/api/v1" },
  gitlab: {
    base: "/api/v4",
    path: ({ repository, commit }) =>
      `/projects/${encodeURIComponent(repository)}/statuses/${commit}`,
    states: { pending: "pending", success: "success", failure: "failed", cancelled: "canceled" },
    fields: ({ appId, url, description }) => ({
      target_url: url,
      description,
      name: `slipway/${appId}`,
    }),
  },
  bitbucket: {
    base: "/2.0",
    path: ({ repository, commit }) => `/repositories/${repository}/commit/${commit}/statuses/build`,
    states: {
      pending: "INPROGRESS",
      success: "SUCCESSFUL",
      failure: "FAILED",
      cancelled: "STOPPED",
    },
    // Bitbucket's keys have at most 40 characters.
    fields: ({ appId, url, description }) => ({
      url,
      description,
      key: appId.replace(/^(?:dev-)?p-/, ""),
      name: `slipway/${appId}`,
    }),
  },
};
const knownKinds: Readonly<Record<string, GitHostKind>> = {
  "github.com": "github",
  "gitlab.com": "gitlab",
  "bitbucket.org": "bitbucket",
  "codeberg.org": "gitea",
  "gitea.com": "gitea",
};

/** The kind of a well-known host, for pushes that no hook reported; undefined for all others. */
export function knownHostKind(host: string): GitHostKind | undefined {
  return knownKinds[host];
}

/** The request for a host of this kind. */
export function statusRequest(
  kind: GitHostKind,
  receiver: ApiReceiver,
  commitStatus: CommitStatus,
): StatusRequest {
  const { path, states, fields } = forms[kind];
  const [line = ""] = commitStatus.description.split("\n");
  const repository = commitStatus.repository.replace(/\.git$/i, "");
  const status = { ...commitStatus, repository, description: line.slice(0, descriptionLengthMax) };
  return {
    url: apiUrl(kind, receiver.source) + path(status),
    headers: {
      ...authorization(kind, receiver.credential),
      "content-type": "application/json",
      accept: "application/json",
    },
    body: Buffer.from(JSON.stringify({ state: states[status.state], ...fields(status) })),
  };
}

/** Where the API of a host is, without a trailing slash. */
export function apiUrl(
  kind: GitHostKind,
  { host, protocol, below }: ApiReceiver["source"],
): string {
  const own =
    protocol === "ssh"
      ? webOfSsh(host)
      : `${protocol === "http" ? "http" : "https"}://${host}${below}`;
  return publicApis[host] ?? own + forms[kind].base;
}

/** Port and folders of an ssh address are not those of the API. */
function webOfSsh(host: string): string {
  return `https://${host.replace(/:\d+$/, "")}`;
}

/** The token as a host takes it. */
export function authorization(
  kind: GitHostKind,
  { username, secret }: ApiReceiver["credential"],
): Record<string, string> {
  const token = secret.reveal();
  if (kind === "gitlab") return { "private-token": token };
  if (kind === "gitea") return { authorization: `token ${token}` };
  // An app password of Bitbucket belongs to a user; its access tokens are used with this name by
  // git only.
  if (kind === "bitbucket" && username !== null && username !== "x-token-auth") {
    return { authorization: `Basic ${Buffer.from(`${username}:${token}`).toString("base64")}` };
  }
  return { authorization: `Bearer ${token}` };
}
