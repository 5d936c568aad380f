// Becoming a person without an invitation, where the operator allows it: whoever shows by a mailed
// link that an address is theirs. Whether it is known already is told to nobody: its owner is
// mailed a link either way.
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

/** Takes those who ask. */
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
   * Has a link mailed, and returns at once. Throws `Fault("forbidden")` where people are invited
   * only.
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
    this.#passwords.forgot(email, wish.by, () => this.#make({ ...wish, email }));
  }

  /** Makes the person, without a password, unless there is one of the address. */
  async #make({ email, name, by }: SignUpWish): Promise<void> {
    const { db, limits: counts } = this.#parts;
    if ((await counts.isTaken(limits.signUpAddress, networkOf(by.request?.address ?? ""))) !== null)
      return;
    await insertPerson(db, { id: randomUUID(), email, name });
  }
}
