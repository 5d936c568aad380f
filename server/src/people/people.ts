// People and how they sign in: the part of this area that other areas use. Each way of signing in
// is a field, whose class has its own file.
import type { PersonRow } from "#accounts/account-store.ts";
import type { PersonClaims } from "#accounts/token-claims.ts";
import { passwordGate } from "#accounts/passwords.ts";
import type { Lookup } from "#accounts/token-lookup.ts";
import type { By } from "#audit/record.ts";
import type { Gate } from "#lib/gate.ts";
import type { Tx } from "#store/database.ts";
import { AttemptLimits } from "./attempt-limits.ts";
import { Challenges } from "./challenges.ts";
import { DeviceCookies } from "./device-cookies.ts";
import { DeviceLogins, type DeviceLoginsOptions } from "./device-login.ts";
import type { Mailer } from "./mailer.ts";
import { PasswordUseCases } from "./password-use-cases.ts";
import type { PeopleParts } from "./people-parts.ts";
import type { PeopleSettings } from "./people-settings.ts";
import { personById } from "./people-store.ts";
import { personLookup } from "./person-lookup.ts";
import { ProviderSignIn } from "./provider-sign-in.ts";
import { SessionTokens } from "./session-tokens.ts";
import { Sessions, type SignedIn, type Way } from "./sessions.ts";
import { SignIn } from "./sign-in.ts";
import { SignUp } from "./sign-up.ts";
import { TwoFactor } from "./two-factor.ts";

export type PeopleOptions = Omit<PeopleParts, "tokens" | "limits" | "deviceCookies" | "hashes"> & {
  readonly settings: PeopleSettings;
};

/** People and their sign-in. */
export class People {
  readonly signIn: SignIn;
  readonly sessions: Sessions;
  readonly passwords: PasswordUseCases;
  readonly signUp: SignUp;
  readonly providers: ProviderSignIn;
  readonly twoFactor: TwoFactor;
  readonly devices: DeviceLogins;
  readonly deviceCookies: DeviceCookies;
  readonly settings: PeopleSettings;
  /** Null: no mail can be sent. */
  readonly mailer: Mailer | null;
  /** Limits how many passwords are hashed at once. */
  readonly hashes: Gate;
  /** Finds the person to whom an access token belongs. */
  readonly lookup: Lookup<PersonClaims>;
  readonly #parts: PeopleParts;

  constructor({ settings, ...options }: PeopleOptions) {
    const { secret } = options;
    const parts: PeopleParts = {
      ...options,
      tokens: new SessionTokens(secret),
      limits: new AttemptLimits(options),
      hashes: passwordGate(),
      deviceCookies: new DeviceCookies(secret),
    };
    this.#parts = parts;
    this.settings = settings;
    this.deviceCookies = parts.deviceCookies;
    this.mailer = parts.mailer;
    this.hashes = parts.hashes;
    this.lookup = personLookup(parts.db);
    this.sessions = new Sessions(parts);
    const openSession: DeviceLoginsOptions["openSession"] = (tx, { personId, by }) =>
      this.startSession(tx, personId, { way: "device", by });
    this.devices = new DeviceLogins({ db: parts.db, clock: parts.clock, openSession });
    const signInParts = {
      ...parts,
      settings,
      sessions: this.sessions,
      challenges: new Challenges(parts),
    };
    this.signIn = new SignIn(signInParts);
    this.passwords = new PasswordUseCases(parts, this.sessions);
    this.providers = new ProviderSignIn(signInParts);
    this.signUp = new SignUp(parts, { settings, passwords: this.passwords });
    this.twoFactor = new TwoFactor(signInParts);
  }

  /** The person with this id, or undefined. */
  personById(id: string): Promise<PersonRow | undefined> {
    return personById(this.#parts.db, id);
  }

  /**
   * Opens a session of a person who was identified in another way, such as by an invitation.
   * Records it as a sign-in, and returns its tokens.
   */
  async startSession(
    tx: Tx,
    personId: string,
    entry: { readonly way: Way; readonly by: By },
  ): Promise<SignedIn> {
    const person = await personById(tx, personId);
    if (person === undefined) throw new Error("a session is started for somebody who is not there");
    const session = await this.sessions.open(tx, person, entry);
    return this.sessions.tokensOf({ person, session });
  }

  /** Waits for the links for new passwords that are being made in the background. */
  close(): Promise<void> {
    return this.passwords.close();
  }
}
