// Public information about the platform, without a token.
import { openApiDocument } from "@slipway/contract/openapi.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import { Fault } from "#lib/fault.ts";
import type { Handler } from "./call.ts";
import type { Urls } from "./urls.ts";

/** Whether the platform is alive, and ready. */
export type HealthAnswer = {
  /** Why it does not serve, because it is starting or stopping; null: it does. */
  notServing(): string | null;
  /** Why calls and runs cannot be accepted now; null: they can. Answers within seconds. */
  notReady(): Promise<string | null>;
};

type Parts = {
  readonly keys: Pick<SigningKeys, "jwks">;
  readonly urls: () => Urls;
  readonly health: HealthAnswer;
};

type Handlers = Record<"health" | "ready" | "keySet" | "openApi", Handler>;

/** Route handlers for the platform itself. */
export function platformHandlers({ keys, urls, health }: Parts): Handlers {
  let document: object | undefined;
  return {
    health: () => Promise.resolve(okUnless(health.notServing())),
    ready: async () => okUnless(await health.notReady()),
    keySet: () => Promise.resolve(keys.jwks()),
    openApi: () => Promise.resolve((document ??= openApiDocument(urls().baseUrl))),
  };
}

function okUnless(reason: string | null): { readonly status: "ok" } {
  if (reason !== null) throw new Fault("unavailable", reason, { retryAfterSeconds: 1 });
  return { status: "ok" };
}
