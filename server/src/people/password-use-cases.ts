// Passwords of people who have one: changing it, and setting it anew by a link that was mailed or handed over by the
// operator. Whether an address is known is told to nobody who asks for a link.
import { randomBytes } from "node:crypto";
import type { PersonRow } from "#accounts/account-store.ts";
import type { PersonCaller } from "#accounts/caller.ts";
import { hashPassword, isPassword } from "#accounts/passwords.ts";
import type { By } from "#audit/actor.ts";
import { Fault } from "#lib/fault.ts";
import { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { addressKey, limits } from "./attempt-limits.ts";
import { faultOfAuth } from "./auth-failure.ts";
import { checkNewPassword } from "./password-rules.ts";
import {
  confirmAddress,
  credentialOf,
  deleteVerificationsOf,
  lockPerson,
  passwordHashOf,
  personById,
} from "./people-store.ts";
import type { Trier } from "./device-cookies.ts";
import type { PeopleParts } from "./people-parts.ts";
import { byAnybody, byPerson, recordOfPerson } from "./person-record.ts";
import type { Sessions } from "./sessions.ts";

/** A link that sets a password. */
export type ResetLink = { readonly url: Secret; readonly expiresAt: Date };

const linkMs = 3_600_000;
const makingMax = 200;
/** What a link's secret begins with, so that only mail proves the address: whoever made the other knows it, too. */
const mailed = "m";
const handedOver = "h";
const secretForm = /^[mh][A-Za-z0-9_-]{43}$/;

/** Changes and resets passwords. */
export class PasswordUseCases {
  readonly #parts: PeopleParts;
  readonly #sessions: Sessions;
  /** Links that are being made; asking for one waits for nothing, so that nothing can be told from it. */
  readonly #making = new Set<Promise<void>>();

  constructor(parts: PeopleParts, sessions: Sessions) {
    this.#parts = parts;
    this.#sessions = sessions;
  }

  /** Changes it, and ends the person's other sessions. Throws `Fault("not_usable")` when the current one is wrong. */
  async change(caller: PersonCaller, given: { current: Secret; next: Secret; by: By }): Promise<void> {
    const { db, hashes, limits: counts } = this.#parts;
    checkNewPassword("newPassword", given.next, caller.email);
    await counts.take(limits.confirm, caller.personId);
    const known = await passwordHashOf(db, caller.personId);
    if (known === null) {
      throw new Fault("conflict", "You have no password; request a link to set one, as for a forgotten password.");
    }
    if (!(await hashes.run(() => isPassword(given.current.reveal(), known)))) {
      throw new Fault("not_usable", "The current password is wrong.");
    }
    const hash = await hashes.run(() => hashPassword(given.next.reveal()));
    await db.transaction().execute(async (tx) => {
      const person = await this.#set(tx, { personId: caller.personId, hash, except: caller.sessionId });
      await recordOfPerson(tx, { action: "person.password_change", about: person, by: byPerson(person, given.by) });
    });
    await counts.giveBack(limits.confirm, caller.personId);
    this.#tell(caller.email, "changed");
  }

  /**
   * Has a link mailed if the address is known, after `first`; returns at once. Without mail the log tells the operator how
   * to make one.
   */
  forgot(email: string, by: By, first: () => Promise<void> = async () => undefined): void {
    const { log } = this.#parts;
    if (this.#making.size >= makingMax) {
      throw new Fault("unavailable", "Too many links are being requested at the moment; try again in a minute.");
    }
    const making = first()
      .then(() => this.#mailLink(email.toLowerCase(), by))
      .catch((error: unknown) => log.error({ err: error }, "a link that resets a password could not be made"))
      .finally(() => this.#making.delete(making));
    this.#making.add(making);
  }

  /** A link for the operator to hand over. Throws `Fault("not_found")` for an address that nobody has. */
  async makeLink(email: string, by: By): Promise<ResetLink> {
    const { db } = this.#parts;
    const person = await credentialOf(db, { email: email.toLowerCase(), address: "" });
    if (person === undefined) throw new Fault("not_found", "There is no account with this email address.");
    return this.#link(person, { by, mark: handedOver });
  }

  /** Sets a password by the secret of a link, which is good once, and ends all sessions. Throws `Fault("not_usable" | "invalid")`. */
  async reset(given: Trier & { readonly secret: string; readonly next: Secret }): Promise<void> {
    const { db, limits: counts, hashes, deviceCookies } = this.#parts;
    await counts.take(limits.secretAddress, deviceCookies.keyOf(given));
    const personId = await this.#personOf(given.secret);
    const person = personId === null ? undefined : await personById(db, personId);
    if (person === undefined) {
      throw new Fault("not_usable", "The link has expired or was already used; request a new one.");
    }
    checkNewPassword("password", given.next, person.email);
    await hashes.run(() => db.transaction().execute((tx) => this.#reset(tx, { ...given, person })));
    this.#tell(person.email, "set anew");
  }

  /** Waits for links that are being made. */
  async close(): Promise<void> {
    await Promise.all(this.#making);
  }

  async #reset(tx: Tx, given: { secret: string; next: Secret; by: By; person: PersonRow }): Promise<void> {
    const { auth, scoped } = this.#parts;
    const { person, secret } = given;
    const body = { newPassword: given.next.reveal(), token: secret };
    await lockPerson(tx, person.id);
    try {
      await scoped.within(tx, () => auth().api.resetPassword({ body }));
    } catch (error) {
      throw faultOfAuth(error);
    }
    if (secret.startsWith(mailed)) await confirmAddress(tx, person.id);
    await deleteVerificationsOf(tx, person.id);
    await this.#sessions.tellEnded(tx, person.id);
    const changes = { password: { new: "set by a link" } };
    await recordOfPerson(tx, {
      action: "person.password_reset",
      about: person,
      by: byPerson(person, given.by),
      changes,
    });
  }

  async #mailLink(email: string, by: By): Promise<void> {
    const { db, mailer, log, limits: counts } = this.#parts;
    if ((await counts.isTaken(limits.resetAddress, addressKey(by.request?.address ?? ""))) !== null) return;
    if ((await counts.isTaken(limits.resetAccount, email)) !== null) return;
    const person = await credentialOf(db, { email, address: "" });
    if (person === undefined) return;
    if (mailer === null) {
      log.warn(
        { personId: person.id, email: person.email },
        "a person has forgotten their password, and no mail server is configured: create a link for them with POST /v2/operator/password-resets",
      );
      return;
    }
    const { url } = await this.#link(person, { by: byAnybody(by), mark: mailed });
    mailer.post({ to: person.email, subject: "Set a new password for Slipway", text: resetText(person, url) });
  }

  async #link(person: PersonRow, given: { by: By; mark: string }): Promise<ResetLink> {
    const { db, auth, scoped, clock, baseUrl } = this.#parts;
    const { internalAdapter } = await auth().$context;
    const secret = given.mark + randomBytes(32).toString("base64url");
    const expiresAt = new Date(clock.now() + linkMs);
    await db.transaction().execute(async (tx) => {
      const row = { identifier: `reset-password:${secret}`, value: person.id, expiresAt };
      await scoped.within(tx, () => internalAdapter.createVerificationValue(row));
      const changes = { link: { new: given.mark === mailed ? "mailed" : "made by the operator" } };
      await recordOfPerson(tx, { action: "person.password_reset", about: person, by: given.by, changes });
    });
    return { url: new Secret(`${baseUrl()}/dashboard/reset-password/${secret}`), expiresAt };
  }

  async #personOf(secret: string): Promise<string | null> {
    const { auth, clock } = this.#parts;
    if (!secretForm.test(secret)) return null;
    const { internalAdapter } = await auth().$context;
    const found = await internalAdapter.findVerificationValue(`reset-password:${secret}`);
    return found === null || found.expiresAt.getTime() <= clock.now() ? null : found.value;
  }

  async #set(tx: Tx, given: { personId: string; hash: string; except: string }): Promise<PersonRow> {
    const { auth, scoped } = this.#parts;
    const { internalAdapter } = await auth().$context;
    await lockPerson(tx, given.personId);
    await scoped.within(tx, () => internalAdapter.updatePassword(given.personId, given.hash));
    await deleteVerificationsOf(tx, given.personId);
    await this.#sessions.endOthers(tx, { personId: given.personId, except: given.except });
    const person = await personById(tx, given.personId);
    if (person === undefined) throw new Fault("unauthorized", "The session has ended; sign in again.");
    return person;
  }

  /** Whoever did not do it learns that somebody did. */
  #tell(email: string, what: string): void {
    const text = `Your password for Slipway at ${this.#parts.baseUrl()} was ${what}, and your other sessions were ended.\n\nIf this was not you, set a new one now, and tell the owners of your projects.\n`;
    this.#parts.mailer?.post({ to: email, subject: `Your password for Slipway was ${what}`, text });
  }
}

function resetText(person: PersonRow, url: Secret): string {
  return `Hello ${person.name},\n\nsomeone, hopefully you, requested a new password for Slipway. Use this link to set it; the link works once, within an hour:\n\n${url.reveal()}\n\nIf this was not you, ignore this message: your password stays the same.\n`;
}
