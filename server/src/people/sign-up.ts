// Signing up without an invitation, where the operator allows it: a mailed link proves that the
// address belongs to the person. The answer does not show whether the address is already known: a
// link is mailed in both cases.
import { randomUUID } from "node:crypto";
import { insertPerson } from "#accounts/account-store.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { networkOf } from "#lib/client-address.ts";
import { limits } from "./attempt-limits.ts";
import type { PasswordUseCases } from "./password-use-cases.ts";
import type { PeopleParts } from "./people-parts.ts";
import type { PeopleSettings } from "./people-settings.ts";

export type SignUpWish = { readonly email: string; readonly name: string; readonly by: By };

/** Lets people sign up. */
export class SignUp {
  readonly #parts: PeopleParts;
  readonly #settings: PeopleSettings;
  readonly #passwords: PasswordUseCases;

  constructor(
    parts: PeopleParts,
    options: { readonly settings: PeopleSettings; readonly passwords: PasswordUseCases },
  ) {
    this.#parts = parts;
    this.#settings = options.settings;
    this.#passwords = options.passwords;
  }

  /**
   * Mails a link in the background, and returns at once. Throws `Fault("forbidden")` when accounts
   * are by invitation only, or when no mail server is configured.
   */
  ask(wish: SignUpWish): void {
    if (this.#settings.signUp !== "open") {
      throw new Fault(
        "forbidden",
        "Accounts here are by invitation only: ask a project owner to invite you.",
      );
    }
    if (this.#parts.mailer === null) {
      throw new Fault(
        "forbidden",
        "No mail server is configured here, so nobody can sign up: ask the operator.",
      );
    }
    const email = wish.email.toLowerCase();
    this.#passwords.forgot(email, wish.by, () => this.#addPerson({ ...wish, email }));
  }

  /** Adds a person without a password, unless the address already belongs to somebody. */
  async #addPerson({ email, name, by }: SignUpWish): Promise<void> {
    const { db, limits: counts } = this.#parts;
    const network = networkOf(by.request?.address ?? "");
    const retryAfterSeconds = await counts.isTaken(limits.signUpAddress, network);
    // Beyond the limit nobody is added. The answer does not show that, since it does not wait for
    // this work.
    if (retryAfterSeconds !== null) return;
    await insertPerson(db, { id: randomUUID(), email, name });
  }
}
