// Route handlers for information about the platform: some is public, some is only for operators.
import { openApiDocument } from "@slipway/contract/openapi.ts";
import { Fault } from "#lib/fault.ts";
import type { Handlers } from "./call.ts";
import type { HandlerParts } from "./parts.ts";

/** Route handlers for the platform itself. */
export function platformHandlers({
  keys,
  urls,
  health,
  hardware,
  operatorPlatform,
  announcements,
}: HandlerParts) {
  // The document is made at the first request: only then is the platform's URL known.
  let document: object | undefined;
  return {
    health: () => Promise.resolve(okUnless(health.notServing())),
    ready: async () => okUnless(await health.notReady()),
    getHardware: () => Promise.resolve(hardware()),
    getOperatorPlatform: () => operatorPlatform(),
    listAnnouncements: () => Promise.resolve(announcements),
    keySet: () => Promise.resolve(keys.jwks()),
    openApi: () => {
      document ??= openApiDocument(urls().baseUrl);
      return Promise.resolve(document);
    },
  } satisfies Handlers;
}

function okUnless(reason: string | null): { readonly status: "ok" } {
  if (reason !== null) throw new Fault("unavailable", reason, { retryAfterSeconds: 1 });
  return { status: "ok" };
}
