// What a row of the tables of routes holds, and where routes begin.
import type { z } from "zod";
import type { Field } from "./field.ts";
import type { AuditAction, Permission } from "./words.ts";

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

/** Beginnings of paths. */
export const paths = {
  project: "/v2/projects/{project_id}",
  app: "/v2/projects/{project_id}/apps/{app_id}",
} as const;
