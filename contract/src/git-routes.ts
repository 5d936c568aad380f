// Routes of pushes: the hook address of an app, what git hosts send there, and the deliveries that
// are kept.
import { z } from "zod";
import type { Field } from "./field.ts";
import { nextToken, pageSize } from "./page-fields.ts";
import { paths, type Route } from "./route.ts";
import { gitHostKinds, gitVerdicts } from "./words.ts";

const { app } = paths;
const deliveries = `${app}/git-deliveries` as const;
const time = z.iso.datetime();

/** The hook address of an app. */
export const gitHook = z.strictObject({
  url: z.url(),
  createdAt: time,
  /** When its secret was last replaced. */
  rotatedAt: time.nullable(),
  /** When the last signed delivery arrived; until the first one, the branch is polled. */
  lastDeliveryAt: time.nullable(),
});

/** The only answer with the secret. */
const newGitHook = gitHook.extend({ secret: z.string() });

/** One push event, and what became of it. */
export const gitDelivery = z.strictObject({
  id: z.uuid(),
  /** Null: found by polling. */
  host: z.enum(gitHostKinds).nullable(),
  event: z.string(),
  /**
   * The branch or tag that moved, as `refs/heads/…` or `refs/tags/…`; null: the event is not a
   * push.
   */
  ref: z.string().nullable(),
  commit: z.string().nullable(),
  commitMessage: z.string().nullable(),
  commitAuthor: z.string().nullable(),
  verdict: z.enum(gitVerdicts),
  reason: z.string(),
  buildId: z.uuid().nullable(),
  replayOf: z.uuid().nullable(),
  receivedAt: time,
  decidedAt: time.nullable(),
  /** What the git host was last told of the commit, and why it could not be told more. */
  commitStatus: z.enum(["pending", "success", "failure", "cancelled"]).nullable(),
  commitStatusFailure: z.string().nullable(),
});

const gitDeliveryPage = z.strictObject({
  items: z.array(gitDelivery),
  nextToken: z.string().optional(),
});
const receivedPush = z.strictObject({
  id: z.uuid(),
  verdict: z.enum(gitVerdicts),
  reason: z.string(),
});

/** The query of `GET …/git-deliveries`. */
const gitDeliveryQuery = {
  pageSize: pageSize(200, 50, "deliveries"),
  nextToken: nextToken("nextToken", /^[\w-]{1,100}$/),
} as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const gitRoutes = {
  makeGitHook: {
    method: "POST",
    path: `${app}/git-hook`,
    about:
      "Makes the address that a git host sends the app's push events to, with a secret that signs them. If the app has one, it keeps the address and gets a new secret; the old one is invalid at once. The secret is not shown again.",
    access: "apps.update",
    audit: "git_hook.create",
    status: 201,
    answer: newGitHook,
  },
  getGitHook: {
    method: "GET",
    path: `${app}/git-hook`,
    about: "The address for the app's push events, without its secret.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: gitHook,
  },
  listGitDeliveries: {
    method: "GET",
    path: deliveries,
    about:
      "The latest 200 push events of an app, newest first, each with its verdict and the reason.",
    access: "apps.read",
    audit: null,
    query: gitDeliveryQuery,
    status: 200,
    answer: gitDeliveryPage,
  },
  replayGitDelivery: {
    method: "POST",
    path: `${deliveries}/{git_delivery_id}/replay`,
    about:
      "Judges a push event again, as a new one, by the app's settings and the newest commit of its branch; also a commit that was built before is built again.",
    access: "builds.create",
    audit: "git_deliveries.replay",
    status: 201,
    answer: gitDelivery,
  },
  receiveGitPush: {
    method: "POST",
    path: "/v2/git-hooks/{hook_address}",
    about:
      "Takes a push event of GitHub, Gitea, Forgejo, GitLab or Bitbucket, signed with the secret of the address. A delivery that is sent again changes nothing.",
    access: "public",
    audit: null,
    takesBytes: true,
    status: 200,
    answer: receivedPush,
  },
} as const satisfies Record<string, Route>;
