// The part of a page token that binds it to its query, the same for every list. It holds no secret: a token gives no
// right to anything, and whoever makes one still has to name a place that there can be.
import { createHash } from "node:crypto";

/** 12 characters over all that a token is bound to: its list, the filters and the place. */
export function pageCheck(bound: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(bound)).digest("base64url").slice(0, 12);
}
