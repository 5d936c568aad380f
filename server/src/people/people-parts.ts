// What the parts of this area share; people.ts builds it once.
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
  readonly hashes: Gate;
  /** Null: no mail can be sent. */
  readonly mailer: Mailer | null;
  /** The secret that sessions are signed with; see auth-secret.ts. */
  readonly secret: Secret;
  /**
   * Where the platform is reached, without a slash at the end; asked for when it is needed, since
   * it is known late.
   */
  readonly baseUrl: () => string;
};
