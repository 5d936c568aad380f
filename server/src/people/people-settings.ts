// The operator's settings for how people sign in. `config-people.ts` reads them from the
// environment.
import type { Secret } from "#lib/secret.ts";

/** A provider with which people sign in. */
export type ProviderSettings = {
  /** The URL of the issuer, or of GitHub, without a slash at the end. */
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** The name on the provider's button on the sign-in page. */
  readonly name: string;
};

/** How people sign in. */
export type PeopleSettings = {
  /** Whether only invited people can create an account, or everybody. */
  readonly signUp: "invited" | "open";
  /** Null: no OpenID Connect provider is set up. */
  readonly oidc: ProviderSettings | null;
  /** Null: sign-in with GitHub is not set up. */
  readonly github: ProviderSettings | null;
};
