// The groups of routes in the OpenAPI document and the API reference, by path.
import type { Route } from "./route.ts";

/** The first form that the path has says the group; the order is that in which groups are shown. */
const forms: readonly (readonly [name: string, form: RegExp])[] = [
  ["Builds and releases", /\/(?:builds|releases|rollback|resume-deploys|rollout)\b/],
  ["Automatic deployment", /\/git-(?:hook|hooks|deliveries)\b/],
  ["Runs", /\/(?:runs|dead-runs)\b/],
  ["Webhooks", /\/webhook-/],
  ["Secrets and credentials", /\/(?:secrets|git-credentials)\b/],
  ["Cost and billing", /\/(?:cost|usage|billing|plan|budget|coupons)\b/],
  ["Audit log", /\/audit-log\b/],
  ["Tokens", /\/(?:service-accounts|api-keys|operator\/(?:tokens|signing-keys))\b|jwks/],
  ["Operator", /^\/v2\/operator\//],
  [
    "Sign-in and people",
    /^\/(?:v2\/auth|device-authorization|token)\b|\/(?:members|invitations)\b/,
  ],
  ["Apps", /\/(?:apps|partner-apps|uploads|git-repositories)\b/],
  ["Projects", /^\/v2\/projects/],
  ["Platform", /^\//],
];

const order = ["Apps", "Builds and releases", "Runs", "Projects"];

/** All groups, those that are asked about most first. */
export const groups: readonly string[] = [...new Set([...order, ...forms.map(([name]) => name)])];

/** The group of a route. */
export function groupOf({ path }: Pick<Route, "path">): string {
  return forms.find(([, form]) => form.test(path))?.[0] ?? "Platform";
}
