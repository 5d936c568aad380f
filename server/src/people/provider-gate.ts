// Who is let in when a provider vouches for them: people who are known here or invited, by an
// address that the provider has proven. Whoever had an account here under an address that was never
// proven loses what let them in: the account belongs to whoever shows the address, and nobody waits
// in it.
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

/** Why somebody is not let in; shown by the sign-in page. */
export type GateRefusal = "address_not_proven" | "not_invited" | "two_factor_first";

type ProviderUser = {
  readonly id?: unknown;
  readonly email?: unknown;
  readonly emailVerified?: unknown;
};

type GateOptions = Pick<Foundation, "db" | "clock" | "log"> & { readonly mailer: Mailer | null };

/** Decides, when better-auth asks. */
export class ProviderGate {
  readonly #options: GateOptions;
  readonly #settings: PeopleSettings;

  constructor(options: GateOptions & { readonly settings: PeopleSettings }) {
    this.#options = options;
    this.#settings = options.settings;
  }

  /**
   * A refusal, or nothing. `sign-in`: the account there was linked to one here before. `isAsked`:
   * somebody who is signed in here connects it, under whatever address it has there.
   */
  async check(
    user: ProviderUser,
    { action, isAsked }: { readonly action: string; readonly isAsked: boolean },
  ): Promise<{ error: GateRefusal } | undefined> {
    if (action === "sign-in") return undefined;
    if (user.emailVerified !== true) return { error: "address_not_proven" };
    if (isAsked) return undefined;
    return action === "link-account" ? this.#link(String(user.id)) : this.#make(String(user.email));
  }

  /**
   * Records that somebody connects an account, just before that is stored. False: it is not to be,
   * since the session that began it has ended meanwhile, or since another visit has connected one
   * of the provider.
   */
  async isConnecting(
    personId: string,
    connection: Pick<PersonEvent, "changes" | "by"> & {
      readonly sessionId: string;
      readonly providerId: "oidc" | "github";
    },
  ): Promise<boolean> {
    const { sessionId, providerId, ...event } = connection;
    const about = await this.#options.db.transaction().execute(async (tx) => {
      const person = await lockPerson(tx, personId);
      if (person === undefined || (await sessionById(tx, sessionId)) === undefined)
        return undefined;
      const accounts = await accountsOf(tx, personId, this.#settings);
      if (accounts.some((one) => one.provider_id === providerId)) return undefined;
      await recordOfPerson(tx, { action: "person.provider_connect", about: person, ...event });
      return person;
    });
    if (about === undefined) return false;
    const text = `An account with a provider was connected to your account for Slipway, as a way to sign in.\n\nIf this was not you, disconnect it on the page Account and set a new password, and tell the owners of your projects.\n`;
    this.#options.mailer?.post({
      to: about.email,
      subject: "A new way to sign in to your account for Slipway",
      text,
    });
    return true;
  }

  async #make(email: string): Promise<{ error: GateRefusal } | undefined> {
    if (this.#settings.signUp === "open") return undefined;
    const { db, clock } = this.#options;
    const found = await isInvited(db, { email: email.toLowerCase(), at: new Date(clock.now()) });
    return found ? undefined : { error: "not_invited" };
  }

  async #link(personId: string): Promise<{ error: GateRefusal } | undefined> {
    return this.#options.db.transaction().execute(async (tx) => {
      const person = await lockPerson(tx, personId);
      if (person === undefined) return { error: "not_invited" as const };
      if (person.email_verified) return undefined;
      // Whoever turned it on is more than an address; and a provider must not be a way around it.
      if (person.two_factor_enabled) return { error: "two_factor_first" as const };
      await this.#takeOver(tx, person);
      return undefined;
    });
  }

  async #takeOver(tx: Tx, person: PersonRow): Promise<void> {
    const accounts = await deleteAccounts(tx, person.id);
    await deleteSessions(tx, { personId: person.id });
    await deleteVerificationsOf(tx, person.id);
    await deleteUnconfirmed(tx, person.id);
    await confirmAddress(tx, person.id);
    await notify(tx, "people", person.id);
    if (accounts === 0) return;
    const by: By = { actor: platformActor };
    const changes = { password: { old: "chosen before the address was proven", new: "none" } };
    await recordOfPerson(tx, { action: "person.password_reset", about: person, by, changes });
    const text = `You have signed in to Slipway with a provider that has verified your email address. The password that was set for this address earlier is no longer valid, because nobody had proven that the address was theirs. To sign in with a password again, request a link on the sign-in page.\n`;
    this.#options.mailer?.post({
      to: person.email,
      subject: "Your old password for Slipway is no longer valid",
      text,
    });
    this.#options.log.info(
      { personId: person.id },
      "a person has proven their address, and lost the unproven password",
    );
  }
}
