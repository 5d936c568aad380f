// Headers that every answer carries.
import type { FastifyReply } from "fastify";

/** Answers of the API are data: never framed, never guessed at, never kept. Pages replace the policy and the caching. */
export function setSecurityHeaders(reply: FastifyReply): void {
  void reply.headers({
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  });
}
