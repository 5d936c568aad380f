// Opens the signing keys, the token check, and the use cases of the API for tokens and keys.
import type { Foundation } from "#store/foundation.ts";
import { Authenticator } from "./authenticator.ts";
import { SigningKeys } from "./keys.ts";
import { RequestKeys } from "./request-keys.ts";
import { SigningKeyUseCases } from "./signing-key-use-cases.ts";
import { TokenCheck, type TokenCheckOptions } from "./token-check.ts";
import { TokenUseCases } from "./token-use-cases.ts";
import { TokenUses } from "./token-uses.ts";

/** The keys that sign tokens. */
export async function openSigningKeys({ db, sealer, clock }: Foundation): Promise<SigningKeys> {
  const keys = new SigningKeys({ sealer, clock });
  await keys.load(db);
  return keys;
}

/**
 * Opens the token check, which the API and the proxy share, and the API's use cases for tokens and
 * keys. `people` looks up the sessions of people.
 */
export function openTokens(
  settings: { readonly failedTokensPerMinute: number },
  parts: Foundation & {
    readonly keys: SigningKeys;
    readonly people: TokenCheckOptions["people"];
  },
) {
  const { db, sealer, keys, notifications, clock, log, lifecycle, people } = parts;
  const check = new TokenCheck({ db, keys, notifications, clock, people });
  lifecycle.onClose("tokens", () => check.close());
  const uses = new TokenUses({ db, clock, log });
  lifecycle.onStart(() => uses.start());
  lifecycle.onClose("uses of tokens", () => uses.stop());
  return {
    check,
    uses,
    tokens: new Authenticator({
      check,
      uses,
      failedPerMinute: settings.failedTokensPerMinute,
      clock,
    }),
    tokenUseCases: new TokenUseCases({ db, keys, clock }),
    keyUseCases: new SigningKeyUseCases({ db, keys, clock }),
    requestKeys: new RequestKeys({ db, sealer, clock, log }),
    // To be called when a person's projects or roles have changed.
    personChanged: (personId: string): void => check.personChanged(personId),
  };
}
