// Signing in with a password. Neither the answer nor its duration shows whether an email address is
// known. Attempts are limited by account and by network address, whatever the password is.
import type { By } from "#audit/record.ts";
import { isPassword, nobodysHash } from "#accounts/passwords.ts";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { networkOf } from "#lib/client-address.ts";
import { limits } from "./attempt-limits.ts";
import type { Trier } from "./device-cookies.ts";
import type { Challenge } from "./challenges.ts";
import { credentialOf, lockPerson, passwordHashOf, type Credential } from "./people-store.ts";
import { byAnybody, recordOfPerson } from "./person-record.ts";
import type { PersonSession, SignedIn } from "./sessions.ts";
import type { SignInParts } from "./sign-in-parts.ts";

export type PasswordSignIn = Trier & { readonly email: string; readonly password: Secret };

/** Signs in with a password. */
export class SignIn {
  readonly #parts: SignInParts;
  /** The hash that is compared when the person has no password, which takes the same time. */
  readonly #nobodysHash = nobodysHash();

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /**
   * Returns a session, or a challenge for the second step. Throws `Fault("unauthorized" |
   * "rate_limited")`.
   */
  async withPassword({
    email,
    password,
    device,
    by,
  }: PasswordSignIn): Promise<SignedIn | Challenge> {
    const { db, limits: counts, hashes, deviceCookies } = this.#parts;
    const address = by.request?.address ?? "";
    const person = await credentialOf(db, { email: email.toLowerCase(), address });
    // Attempts in a browser or from an address where the person has signed in before are counted
    // separately, so that nobody else uses them up. In a known browser attempts are not counted by
    // address, which other people may share.
    const knownDevice = deviceCookies.ofPerson(device, person?.id);
    const knownAddress = person?.isKnownAddress === true ? address : "";
    // Attempts without a known browser or address share one key for each account.
    const account = `${email.toLowerCase()} ${knownDevice ?? knownAddress}`;
    if (knownDevice === null) await counts.take(limits.signInAddress, networkOf(address));
    await counts.take(limits.signInAccount, account);
    const hash = person?.passwordHash ?? this.#nobodysHash;
    const isRight = await hashes.run(() => isPassword(password.reveal(), hash));
    // `nobodysHash` fits no password. Even so, only the person's own hash may open a session.
    const isVerified = isRight && person !== undefined && person.passwordHash !== null;
    const result = isVerified
      ? await db.transaction().execute((tx) => this.#enter(tx, person, by))
      : null;
    if (result === null) {
      await this.#recordFailure({ email, person, by });
      throw new Fault("unauthorized", "The email address or the password is wrong.");
    }
    if (knownDevice === null) await counts.giveBack(limits.signInAddress, networkOf(address));
    await counts.giveBack(limits.signInAccount, account);
    return result.kind === "two_factor" ? result : this.#parts.sessions.tokensOf(result);
  }

  /**
   * Opens a session or makes a challenge; null: the password was changed while it was compared,
   * which takes a while. That change has ended all other sessions, and the old password must open
   * no new one.
   */
  async #enter(
    tx: Tx,
    checked: Credential,
    by: By,
  ): Promise<(PersonSession & { kind: "session" }) | Challenge | null> {
    const person = await lockPerson(tx, checked.id);
    if (person === undefined || (await passwordHashOf(tx, person.id)) !== checked.passwordHash)
      return null;
    if (person.two_factor_enabled) return this.#parts.challenges.make(tx, person.id);
    return {
      kind: "session",
      person,
      session: await this.#parts.sessions.open(tx, person, { way: "password", by }),
    };
  }

  async #recordFailure(attempt: {
    email: string;
    person: Credential | undefined;
    by: By;
  }): Promise<void> {
    const { person, by } = attempt;
    const about = person ?? { id: null, email: attempt.email.toLowerCase(), name: attempt.email };
    const reason =
      person === undefined ? "There is no account with this address." : "The password was wrong.";
    await this.#parts.db.transaction().execute((tx) =>
      recordOfPerson(tx, {
        action: "person.sign_in",
        outcome: "failure",
        about,
        by: byAnybody(by),
        reason,
      }),
    );
  }
}
