// What a row of the tables of routes holds, and where routes begin.
import type { z } from "zod";
import type { Field } from "./field.ts";

/** What a JSON body holds: an object of known fields, or a map of names to texts. */
export type BodyShape =
  | { readonly kind: "fields"; readonly fields: Readonly<Record<string, Field>>; readonly required: readonly string[] }
  | { readonly kind: "map"; readonly name: RegExp; readonly value: Field };

export type Route = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With `{names}` in braces. */
  readonly path: string;
  readonly about: string;
  /**
   * `public`: without a token; `any`: with any valid one that may manage; `person`: with a person's; else the permission
   * that the caller needs in the project.
   */
  readonly access: "public" | "any" | "person" | Permission;
  /** What the audit log calls it; null for reads that are not recorded. */
  readonly audit: AuditAction | null;
  readonly query?: Readonly<Record<string, Field>>;
  readonly body?: BodyShape;
  /** The body may also come as a form (application/x-www-form-urlencoded). */
  readonly takesForm?: true;
  /** 302: the answer is a redirect, without a body. */
  readonly status: 200 | 201 | 302;
  readonly answer: z.ZodType;
  /** Refusals of a shape of their own, by status; all others have a message alone. */
  readonly refusals?: Readonly<Record<number, z.ZodType>>;
  /** The answer is no JSON but bytes of any content type. */
  readonly isBytes?: true;
  /** Content types of answers that are not JSON, for callers who ask for them. */
  readonly otherTypes?: readonly string[];
};

/** Permissions and actions of the routes below; all there are stand in the server's `accounts` and `audit`. */
export type Permission =
  | "projects.read"
  | "projects.update"
  | "projects.delete"
  | "members.read"
  | "members.write"
  | "tokens.read"
  | "tokens.write"
  | "apps.read"
  | "apps.create"
  | "builds.create"
  | "builds.cancel"
  | "logs.read"
  | "runs.read"
  | "runs.cancel"
  | "runs.redrive"
  | "webhooks.read"
  | "webhooks.write"
  | "secrets.read"
  | "secrets.write"
  | "credentials.read"
  | "credentials.write"
  | "billing.read"
  | "billing.write"
  | "audit_log.read"
  | "audit_log.forward"
  | "platform.manage";

export type AuditAction =
  | "project.create"
  | "project.update"
  | "project.delete"
  | "member.update"
  | "member.remove"
  | "invitation.create"
  | "invitation.delete"
  | "invitation.accept"
  | "person.sign_in"
  | "person.sign_out"
  | "person.session_end"
  | "person.password_change"
  | "person.password_reset"
  | "person.two_factor_enable"
  | "person.two_factor_disable"
  | "person.device_approve"
  | "token.create"
  | "token.read"
  | "token.update"
  | "token.rotate"
  | "token.revoke"
  | "signing_key.create"
  | "signing_key.withdraw"
  | "plan.change"
  | "budget.set"
  | "budget.delete"
  | "audit_log.export"
  | "audit_log.forwarding_set"
  | "audit_log.forwarding_delete"
  | "app.create"
  | "build.cancel"
  | "build.rebuild"
  | "run.cancel"
  | "runs.redrive"
  | "runs.purge"
  | "webhook_secrets.read"
  | "webhook_secrets.create"
  | "webhook_secrets.delete"
  | "webhook_deliveries.replay"
  | "webhook_endpoints.pause"
  | "webhook_endpoints.resume"
  | "webhook_schedule.update"
  | "secrets.read"
  | "secrets.update"
  | "git_credentials.read"
  | "git_credentials.update"
  | "git_credentials.delete"
  | "coupon.apply"
  | "coupon.create"
  | "coupon.end"
  | "audit_log.read";

/** Beginnings of paths. */
export const paths = {
  project: "/v2/projects/{project_id}",
  app: "/v2/projects/{project_id}/apps/{app_id}",
} as const;
