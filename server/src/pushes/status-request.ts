// Makes the request that reports a build's state as a status of its commit, for the public API of
// each kind of git host. Pure.
import type { GitHostKind } from "@slipway/contract/words.ts";
import type { GitCredential } from "#apps/credentials.ts";
import type { SourceUrl } from "#deploy/sources/git-url.ts";
import type { AppId } from "#lib/ids.ts";

export type StatusState = "pending" | "success" | "failure" | "cancelled";

export type CommitStatus = {
  /** The app's id as callers know it. */
  readonly appId: AppId;
  /** `owner/repo` as in the app's settings, perhaps with `.git` at the end. */
  readonly repository: string;
  readonly commit: string;
  readonly state: StatusState;
  /** A page with more about the build. */
  readonly url: string;
  /** What the status says, in one sentence. */
  readonly description: string;
};

/** A POST of JSON. The headers contain the token. */
export type StatusRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

/** The git host to which the status is sent, and the credential for it. */
export type ApiReceiver = {
  readonly source: Pick<SourceUrl, "protocol" | "host" | "below">;
  readonly credential: Pick<GitCredential, "username" | "secret">;
};

/** How the API of one kind of git host takes a status. */
type Form = {
  /** The path of the API on a host that is not in `publicApis`. */
  readonly base: string;
  readonly path: (status: CommitStatus) => string;
  readonly states: Readonly<Record<StatusState, string>>;
  /** The fields of the body except the state. */
  readonly fields: (status: CommitStatus) => object;
};

/** GitHub's limit; the others have higher ones. */
const descriptionLengthMax = 140;
/** The APIs of hosts that do not have them below the address of their own pages. */
const publicApis: Readonly<Record<string, string>> = {
  "github.com": "https://api.github.com",
  "bitbucket.org": "https://api.bitbucket.org/2.0",
};
/** The form of GitHub and Gitea. */
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
    // Bitbucket's keys have at most 40 characters, so the prefix of the app's id is left out.
    fields: ({ appId, url, description }) => ({
      url,
      description,
      key: appId.replace(/^(?:dev-)?p-/, ""),
      name: `slipway/${appId}`,
    }),
  },
};
/** The kinds of well-known hosts. */
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

/** The URL of a host's API, without a trailing slash. */
export function apiUrl(
  kind: GitHostKind,
  { host, protocol, below }: ApiReceiver["source"],
): string {
  const scheme = protocol === "http" ? "http" : "https";
  // The port and the folders of an ssh address are not those of the API.
  const websiteOfSsh = `https://${host.replace(/:\d+$/, "")}`;
  const website = protocol === "ssh" ? websiteOfSsh : `${scheme}://${host}${below}`;
  return publicApis[host] ?? website + forms[kind].base;
}

/** The header fields with the token, in the form of this kind of host. */
export function authorization(
  kind: GitHostKind,
  { username, secret }: ApiReceiver["credential"],
): Record<string, string> {
  const token = secret.reveal();
  if (kind === "gitlab") return { "private-token": token };
  if (kind === "gitea") return { authorization: `token ${token}` };
  // A credential with a user name is an app password of Bitbucket. Access tokens have the name
  // "x-token-auth", which only git uses.
  if (kind === "bitbucket" && username !== null && username !== "x-token-auth") {
    const pair = Buffer.from(`${username}:${token}`).toString("base64");
    return { authorization: `Basic ${pair}` };
  }
  return { authorization: `Bearer ${token}` };
}
