// The parts that all use cases of this area share. people.ts builds them once.
import type { SigningKeys } from "#accounts/keys.ts";
import type { Gate } from "#lib/gate.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import type { AttemptLimits } from "./attempt-limits.ts";
import type { DeviceCookies } from "./device-cookies.ts";
import type { Mailer } from "./mailer.ts";
import type { SessionTokens } from "./session-tokens.ts";

export type PeopleParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly keys: Pick<SigningKeys, "current">;
  readonly tokens: SessionTokens;
  readonly limits: AttemptLimits;
  readonly deviceCookies: DeviceCookies;
  /** Limits how many passwords are hashed at once. */
  readonly hashes: Gate;
  /** Null: no mail can be sent. */
  readonly mailer: Mailer | null;
  /** The secret that signs sessions and encrypts second factors; see auth-secret.ts. */
  readonly secret: Secret;
  /**
   * The platform's public URL, without a slash at the end. Called only when the URL is needed,
   * since it is not known at the start.
   */
  readonly baseUrl: () => string;
};
