// Headers of every answer.
import type { FastifyReply } from "fastify";

/** API answers are data: no framing, no content sniffing, no caching. Pages override the policy and the caching. */
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
