// What a git host says of a push, in one form for all hosts, and what each host must implement to say it.
import type { GitHostKind } from "@slipway/contract/words.ts";

/** Header fields by lower-case name, as Node gives them. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The move of one branch or tag. */
export type RefUpdate = {
  /** `refs/heads/…` or `refs/tags/…`. */
  readonly ref: string;
  /** Null: the ref is new. */
  readonly before: string | null;
  /** Null: the ref was deleted. */
  readonly after: string | null;
  /** Of the commit `after`; null when the host does not say. */
  readonly message: string | null;
  /** `name <address>`. */
  readonly author: string | null;
  /** Files that the host says were changed; there may be more. */
  readonly files: readonly string[];
  /** True when the host lists every commit and every file between `before` and `after`. */
  readonly isComplete: boolean;
};

/** One kind of git host. Only `updates` reads the body, after `isSigned`. */
export interface GitHost {
  readonly kind: GitHostKind;
  /** The kind of event, in the host's words; undefined when the request is not from such a host. */
  event(headers: Headers): string | undefined;
  /** The host's id of the delivery, the same when it is sent again. */
  deliveryKey(headers: Headers): string | undefined;
  /** Whether the sender knows the secret. Compares in constant time. */
  isSigned(message: SignedMessage): boolean;
  /** The moved refs; empty for events other than a push. Throws a TypeError for a body of another form. */
  updates(event: string, body: unknown): RefUpdate[];
}

/** `body` is exactly what was received. */
export type SignedMessage = {
  readonly headers: Headers;
  readonly body: Buffer;
  readonly secret: string;
  /** The time, for signatures that contain one. */
  readonly nowMs: number;
};

/** The single value of a field; undefined when it is missing, empty or repeated. Some hosts send empty signatures. */
export function fieldOf(headers: Headers, name: string): string | undefined {
  const value = headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A commit of a body; null for the zeros that mean none. Throws a TypeError for anything else. */
export function commitOf(given: unknown): string | null {
  if (typeof given !== "string" || !/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(given)) {
    throw new TypeError("a commit of the push is not a commit id");
  }
  return /^0+$/.test(given) ? null : given;
}
