// Decides who may sign in with a provider: people who have an account or an invitation, by an
// address that the provider has proven. If the address of an existing account was never proven, its
// sessions and other ways to sign in are removed: the account belongs to whoever proves the
// address.
import type { PersonRow } from "#accounts/account-store.ts";
import { platformActor, type By } from "#audit/record.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import type { Mailer } from "./mailer.ts";
import type { PeopleSettings } from "./people-settings.ts";
import { accountsOf, confirmAddress, deleteAccounts, deleteSessions } from "./people-store.ts";
import { isInvited, lockPerson, sessionById } from "./people-store.ts";
import { recordOfPerson, type PersonEvent } from "./person-record.ts";
import { deleteUnconfirmed } from "./two-factor-store.ts";
import { deleteVerificationsOf } from "./verification-store.ts";

/** Why somebody may not sign in. The sign-in page shows it. */
export type GateRefusal = "address_not_proven" | "not_invited" | "two_factor_first";

type ProviderUser = {
  readonly id?: unknown;
  readonly email?: unknown;
  readonly emailVerified?: unknown;
};

type GateOptions = Pick<Foundation, "db" | "clock" | "log"> & { readonly mailer: Mailer | null };

/** Decides who may sign in or connect an account. Called by better-auth. */
export class ProviderGate {
  readonly #options: GateOptions;
  readonly #settings: PeopleSettings;

  constructor(options: GateOptions & { readonly settings: PeopleSettings }) {
    this.#options = options;
    this.#settings = options.settings;
  }

  /**
   * Returns a refusal, or undefined. The action is better-auth's: with `sign-in` the provider's
   * account was linked to a person before, with `link-account` a person has the account's address,
   * and with any other action the person is new. `isAsked`: a signed-in person connects the
   * account, which may have any address.
   */
  async check(
    user: ProviderUser,
    { action, isAsked }: { readonly action: string; readonly isAsked: boolean },
  ): Promise<{ error: GateRefusal } | undefined> {
    if (action === "sign-in") return undefined;
    if (user.emailVerified !== true) return { error: "address_not_proven" };
    if (isAsked) return undefined;
    return action === "link-account"
      ? this.#checkLink(String(user.id))
      : this.#checkNew(String(user.email));
  }

  /**
   * Called just before a connected account is stored; records the connection. Returns false when
   * the account must not be stored: the session that began the visit has ended, or another visit
   * has connected an account of the same provider.
   */
  async isConnecting(
    personId: string,
    connection: Pick<PersonEvent, "changes" | "by"> & {
      readonly sessionId: string;
      readonly providerId: "oidc" | "github";
    },
  ): Promise<boolean> {
    const { sessionId, providerId, ...event } = connection;
    const connected = await this.#options.db.transaction().execute(async (tx) => {
      const person = await lockPerson(tx, personId);
      if (person === undefined || (await sessionById(tx, sessionId)) === undefined)
        return undefined;
      const accounts = await accountsOf(tx, personId, this.#settings);
      if (accounts.some((account) => account.provider_id === providerId)) return undefined;
      await recordOfPerson(tx, { action: "person.provider_connect", about: person, ...event });
      return person;
    });
    if (connected === undefined) return false;
    const text = `An account with a provider was connected to your account for Slipway, as a way to sign in.\n\nIf this was not you, disconnect it on the page Account and set a new password, and tell the owners of your projects.\n`;
    this.#options.mailer?.post({
      to: connected.email,
      subject: "A new way to sign in to your account for Slipway",
      text,
    });
    return true;
  }

  /** Whether an account may be created for a new person. */
  async #checkNew(email: string): Promise<{ error: GateRefusal } | undefined> {
    if (this.#settings.signUp === "open") return undefined;
    const { db, clock } = this.#options;
    const at = new Date(clock.now());
    const mayJoin = await isInvited(db, { email: email.toLowerCase(), at });
    return mayJoin ? undefined : { error: "not_invited" };
  }

  /** Whether the provider's account may be linked to the person, who has the same address. */
  async #checkLink(personId: string): Promise<{ error: GateRefusal } | undefined> {
    return this.#options.db.transaction().execute(async (tx) => {
      const person = await lockPerson(tx, personId);
      if (person === undefined) return { error: "not_invited" as const };
      if (person.email_verified) return undefined;
      // A second factor is stronger than a proven address, and a provider must not bypass it.
      if (person.two_factor_enabled) return { error: "two_factor_first" as const };
      await this.#takeOver(tx, person);
      return undefined;
    });
  }

  /** Removes everything by which somebody could have signed in before the address was proven. */
  async #takeOver(tx: Tx, person: PersonRow): Promise<void> {
    const deletedCount = await deleteAccounts(tx, person.id);
    await deleteSessions(tx, { personId: person.id });
    await deleteVerificationsOf(tx, person.id);
    await deleteUnconfirmed(tx, person.id);
    await confirmAddress(tx, person.id);
    await notify(tx, "people", person.id);
    // There was no password or account to sign in with, so nobody has lost anything.
    if (deletedCount === 0) return;
    const by: By = { actor: platformActor };
    const changes = { password: { old: "set before the address was verified", new: "none" } };
    await recordOfPerson(tx, { action: "person.password_reset", about: person, by, changes });
    const text = `You have signed in to Slipway with a provider that has verified your email address. The password that was set for this address earlier is no longer valid, because nobody had proven that the address was theirs. To sign in with a password again, request a link on the sign-in page.\n`;
    this.#options.mailer?.post({
      to: person.email,
      subject: "Your old password for Slipway is no longer valid",
      text,
    });
    this.#options.log.info(
      { personId: person.id },
      "a person has signed in with a provider that has verified their address; the password from before no longer works",
    );
  }
}
