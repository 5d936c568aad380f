// How people may sign in here, as the operator has set it up; `config-people.ts` reads it from the
// environment.
import type { Secret } from "#lib/secret.ts";

/** A provider that people sign in with. */
export type ProviderSettings = {
  /** Issuer, or where GitHub is; without a slash at the end. */
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** What its button says. */
  readonly name: string;
};

/** How people sign in. Null: not set up. */
export type PeopleSettings = {
  /** Who becomes a person here. */
  readonly signUp: "invited" | "open";
  readonly oidc: ProviderSettings | null;
  readonly github: ProviderSettings | null;
};
