// Pushes of GitHub, and of Gitea and Forgejo, which also send GitHub's fields.
import { fieldOf, type GitHost, type Headers, type RefUpdate } from "#pushes/push.ts";
import { isHmacSigned } from "#pushes/signature.ts";
import { readOneRef } from "./one-ref.ts";

/** github.com and GitHub Enterprise Server. */
export const github: GitHost = {
  kind: "github",
  event: (headers) => fieldOf(headers, "x-github-event"),
  deliveryKey: (headers) => fieldOf(headers, "x-github-delivery"),
  isSigned: (message) => isHmacSigned(["x-hub-signature-256"], message),
  updates: readUpdates,
};

/** Gitea and Forgejo, which must be asked before GitHub. */
export const gitea: GitHost = {
  kind: "gitea",
  event: (headers) => ofEither(headers, "event"),
  deliveryKey: (headers) => ofEither(headers, "delivery"),
  isSigned: (message) => isHmacSigned(["x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"], message),
  updates: readUpdates,
};

function ofEither(headers: Headers, what: string): string | undefined {
  return fieldOf(headers, `x-forgejo-${what}`) ?? fieldOf(headers, `x-gitea-${what}`);
}

function readUpdates(event: string, body: unknown): RefUpdate[] {
  return event === "push" ? [readOneRef(body)] : [];
}
