// What the platform says about itself, without a token.
import { openApiDocument } from "@slipway/contract/openapi.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import { Fault } from "#lib/fault.ts";
import type { Handler } from "./call.ts";
import type { Urls } from "./urls.ts";

type Parts = {
  readonly keys: Pick<SigningKeys, "jwks">;
  readonly urls: () => Urls;
  /** Why calls and runs cannot be taken at the moment; null when they can. Answers within seconds. */
  readonly unhealthy: () => Promise<string | null>;
};

/** Answers about the platform itself. */
export function platformHandlers({ keys, urls, unhealthy }: Parts): Record<"health" | "keySet" | "openApi", Handler> {
  let document: object | undefined;
  return {
    async health() {
      const reason = await unhealthy();
      if (reason !== null) throw new Fault("unavailable", reason, { retryAfterSeconds: 1 });
      return { status: "ok" };
    },
    keySet: () => Promise.resolve(keys.jwks()),
    openApi: () => Promise.resolve((document ??= openApiDocument(urls().baseUrl))),
  };
}
