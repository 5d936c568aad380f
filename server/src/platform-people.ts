// Connects who may do what: signing keys, the check of tokens.
import { SigningKeys } from "#accounts/keys.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import type { Config } from "./config.ts";
import type { Foundation } from "./platform-foundation.ts";

/** Keys and the check of tokens, which the API and the proxy share. */
export type PeopleParts = { readonly keys: SigningKeys; readonly tokens: TokenCheck };

/** Opens them; they are closed with the platform. */
export async function openPeople(_config: Config, foundation: Foundation): Promise<PeopleParts> {
  const { db, notifications, sealer, lifecycle, clock } = foundation;
  const keys = new SigningKeys({ sealer, clock });
  await keys.load(db);
  const tokens = new TokenCheck({ db, keys, notifications, clock });
  lifecycle.onClose("tokens", () => tokens.close());
  return { keys, tokens };
}
