// Signing in with a password. Whether an address is known shows neither in the answer nor in how
// long it takes; tries are limited by account and by where they come from, whatever the password.
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
  /** Compared with when there is none, which takes as long. */
  readonly #nobodysHash = nobodysHash();

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /**
   * A session, or a challenge for the second step. Throws `Fault("unauthorized" | "rate_limited")`.
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
    // With a browser that the person has signed in with, and else where they have been, they have
    // tries of their own: nobody else's use those up. Others may come from the address, so a known
    // browser is not counted by it.
    const known = deviceCookies.ofPerson(device, person?.id);
    const account = `${email.toLowerCase()} ${known ?? (person?.isKnownAddress === true ? address : "")}`;
    if (known === null) await counts.take(limits.signInAddress, networkOf(address));
    await counts.take(limits.signInAccount, account);
    const hash = person?.passwordHash ?? this.#nobodysHash;
    const isRight = await hashes.run(() => isPassword(password.reveal(), hash));
    const isKnown = isRight && person !== undefined && person.passwordHash !== null;
    const result = isKnown
      ? await db.transaction().execute((tx) => this.#enter(tx, person, by))
      : null;
    if (result === null) {
      await this.#recordFailure({ email, person, by });
      throw new Fault("unauthorized", "The email address or the password is wrong.");
    }
    if (known === null) await counts.giveBack(limits.signInAddress, networkOf(address));
    await counts.giveBack(limits.signInAccount, account);
    return result.kind === "two_factor" ? result : this.#parts.sessions.tokensOf(result);
  }

  /**
   * Null: while the password was compared, which takes a while, it was changed. The sessions of who
   * knew the old one have ended then, and no other may be opened by it.
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
