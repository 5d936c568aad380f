// What the platform says about itself, without a token.
import { openApiDocument } from "@slipway/contract/openapi.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import { Fault } from "#lib/fault.ts";
import type { Handler } from "./call.ts";
import type { Urls } from "./urls.ts";

type Parts = {
  readonly keys: Pick<SigningKeys, "jwks">;
  readonly urls: () => Urls;
  /** False until the start is complete, and once the platform stops. */
  readonly isServing: () => boolean;
};

/** Answers about the platform itself. */
export function platformHandlers({ keys, urls, isServing }: Parts): Record<"health" | "keySet" | "openApi", Handler> {
  let document: object | undefined;
  return {
    async health() {
      if (isServing()) return await Promise.resolve({ status: "ok" });
      throw new Fault("unavailable", "The platform is starting or stopping.", { retryAfterSeconds: 1 });
    },
    keySet: () => Promise.resolve(keys.jwks()),
    openApi: () => Promise.resolve((document ??= openApiDocument(urls().baseUrl))),
  };
}
