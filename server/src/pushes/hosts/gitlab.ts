// Pushes of GitLab. It sends the secret itself, or signs with it as Standard Webhooks does (its "signing token").
import { fieldOf, type GitHost } from "#pushes/push.ts";
import { isSame, isStandardSigned } from "#pushes/signature.ts";
import { readOneRef } from "./one-ref.ts";

/** gitlab.com and self-managed GitLab. */
export const gitlab: GitHost = {
  kind: "gitlab",
  event: (headers) => fieldOf(headers, "x-gitlab-event"),
  deliveryKey: (headers) => fieldOf(headers, "idempotency-key") ?? fieldOf(headers, "x-gitlab-event-uuid"),
  isSigned: (message) =>
    isSame(fieldOf(message.headers, "x-gitlab-token") ?? "", message.secret) || isStandardSigned(message),
  updates: (event, body) => (event === "Push Hook" || event === "Tag Push Hook" ? [readOneRef(body)] : []),
};
