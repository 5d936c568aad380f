// The type of a row of the route tables, and the path prefixes of routes.
import type { z } from "zod";
import type { Field } from "./field.ts";
import type { AuditAction, Permission } from "./words.ts";

/** The kind of a JSON body: an object of known fields, or a map of names to strings. */
export type BodyShape =
  | {
      readonly kind: "fields";
      readonly fields: Readonly<Record<string, Field>>;
      readonly required: readonly string[];
      /** Each field may be null, which removes what was set before. */
      readonly areNullable?: true;
    }
  | { readonly kind: "map"; readonly name: RegExp; readonly value: Field };

export type Route = {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path, with the names of its parameters in braces. */
  readonly path: string;
  readonly about: string;
  /**
   * `public`: no token; `any`: any valid management token; `person`: a person's token; otherwise
   * the permission that the caller needs in the project.
   */
  readonly access: "public" | "any" | "person" | Permission;
  /** The audit action; null for reads that are not recorded. */
  readonly audit: AuditAction | null;
  readonly query?: Readonly<Record<string, Field>>;
  readonly body?: BodyShape;
  /** The body may also come as a form (application/x-www-form-urlencoded). */
  readonly takesForm?: true;
  /** The body is bytes of any content type, at most 25 MB, which the handler reads itself. */
  readonly takesBytes?: true;
  /**
   * The body is bytes of any content type and any length, which the handler reads as they arrive.
   */
  readonly takesStream?: true;
  /**
   * 302: the answer is a redirect without a body. 101: the connection becomes a WebSocket, whose
   * last message has the answer.
   */
  readonly status: 101 | 200 | 201 | 302;
  readonly answer: z.ZodType;
  /** Errors with their own shape, by status; all others have only a message. */
  readonly refusals?: Readonly<Record<number, z.ZodType>>;
  /** The answer is not JSON but bytes of any content type. */
  readonly isBytes?: true;
  /** The bytes are JSON unless an app decided otherwise. */
  readonly isUsuallyJson?: true;
  /** A part of these bytes may be asked for with `Range`, which is answered 206. */
  readonly hasRanges?: true;
  /**
   * Other content types of the answer, for callers that request them; with `isBytes` all of them.
   */
  readonly otherTypes?: readonly string[];
  /** The data of the server-sent events that callers can get instead. */
  readonly events?: z.ZodType;
};

/**
 * Whether a route creates something, so that a request may carry an Idempotency-Key. Bytes cannot
 * be compared before they have arrived.
 */
export function takesKey({ method, status, access, takesBytes, takesStream }: Route): boolean {
  const hasJson = takesBytes !== true && takesStream !== true;
  return method === "POST" && status === 201 && access !== "public" && hasJson;
}

/** The paths with which routes begin. */
export const paths = {
  project: "/v2/projects/{project_id}",
  app: "/v2/projects/{project_id}/apps/{app_id}",
} as const;

/** An answer before it is JSON, which writes dates as texts. */
export type Sent<Answer> = {
  readonly [Name in keyof Answer]: string extends Answer[Name] ? Answer[Name] | Date : Answer[Name];
};
