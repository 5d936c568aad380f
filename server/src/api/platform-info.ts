// What the platform says about itself, without a token.
import { openApiDocument } from "@slipway/contract/openapi.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import type { Handler } from "./call.ts";
import type { Urls } from "./urls.ts";

type Parts = { readonly keys: Pick<SigningKeys, "jwks">; readonly urls: () => Urls };

/** Answers about the platform itself. */
export function platformHandlers({ keys, urls }: Parts): Record<"health" | "keySet" | "openApi", Handler> {
  let document: object | undefined;
  return {
    health: () => Promise.resolve({ status: "ok" }),
    keySet: () => Promise.resolve(keys.jwks()),
    openApi: () => Promise.resolve((document ??= openApiDocument(urls().baseUrl))),
  };
}
