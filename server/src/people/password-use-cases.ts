// Use cases for passwords: a person changes the password, or sets a new one by a link that was
// mailed or that the operator has handed over. Nobody who requests a link learns whether the
// address is known.
import { randomBytes } from "node:crypto";
import { insertPassword, type PersonRow } from "#accounts/account-store.ts";
import type { PersonCaller } from "#accounts/caller.ts";
import { hashPassword, isPassword } from "#accounts/passwords.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { networkOf } from "#lib/client-address.ts";
import { limits } from "./attempt-limits.ts";
import { checkNewPassword } from "./password-rules.ts";
import * as store from "./people-store.ts";
import type { Trier } from "./device-cookies.ts";
import type { PeopleParts } from "./people-parts.ts";
import { byAnybody, byPerson, recordOfPerson } from "./person-record.ts";
import type { Sessions } from "./sessions.ts";
import { deleteUnconfirmed } from "./two-factor-store.ts";
import {
  deleteVerificationsOf,
  insertVerification,
  takeVerification,
  verificationOf,
} from "./verification-store.ts";

/** A link that sets a password. */
export type ResetLink = { readonly url: Secret; readonly expiresAt: Date };

const linkLifetimeMs = 3_600_000;
/** The maximum number of links that are being made in the background. */
const pendingLinksMax = 200;
/**
 * The first letter of a link's secret. Only a mailed link proves that the address is the person's:
 * the operator who made the other kind of link knows its secret too.
 */
const mailed = "m";
const handedOver = "h";
/** The prefix of stored secrets of links, so that no secret of another purpose works as a link. */
const linkPurpose = "reset-password:";
/** A link's secret: its first letter, and 32 bytes, which are 43 letters in base64url. */
const secretForm = /^[mh][A-Za-z0-9_-]{43}$/;

/** Changes and resets passwords. */
export class PasswordUseCases {
  readonly #parts: PeopleParts;
  readonly #sessions: Sessions;
  /**
   * The links that are being made in the background. A request for a link does not wait for the
   * link, so that the duration of the request does not show whether the address is known.
   */
  readonly #pendingLinks = new Set<Promise<void>>();

  constructor(parts: PeopleParts, sessions: Sessions) {
    this.#parts = parts;
    this.#sessions = sessions;
  }

  /**
   * Changes the password, and ends the person's other sessions. Throws `Fault("not_usable")` when
   * `current` is wrong.
   */
  async change(
    caller: PersonCaller,
    change: { current: Secret; next: Secret; by: By },
  ): Promise<void> {
    const { limits: counts } = this.#parts;
    checkNewPassword("newPassword", change.next, caller.email);
    await counts.counted(limits.confirm, caller.personId, () => this.#change(caller, change));
    this.#mailNotice(caller.email, "changed");
  }

  async #change(
    caller: PersonCaller,
    change: { current: Secret; next: Secret; by: By },
  ): Promise<void> {
    const { db, hashes } = this.#parts;
    const currentHash = await store.passwordHashOf(db, caller.personId);
    if (currentHash === null) {
      throw new Fault(
        "conflict",
        "You have no password; request a link to set one, as for a forgotten password.",
      );
    }
    const isRight = await hashes.run(() => isPassword(change.current.reveal(), currentHash));
    if (!isRight) throw new Fault("not_usable", "The current password is wrong.");
    const newHash = await hashes.run(() => hashPassword(change.next.reveal()));
    await db.transaction().execute(async (tx) => {
      await store.lockPerson(tx, caller.personId);
      // If the password was changed since it was compared, that change has ended this session, and
      // `required` throws.
      const { person } = await this.#sessions.required(tx, caller);
      await store.updatePassword(tx, person.id, newHash);
      await deleteVerificationsOf(tx, person.id);
      await deleteUnconfirmed(tx, person.id);
      await this.#sessions.end(tx, { personId: person.id, except: caller.sessionId });
      await recordOfPerson(tx, {
        action: "person.password_change",
        about: person,
        by: byPerson(person, change.by),
      });
    });
  }

  /**
   * Returns at once. In the background, calls `first`, which may add the person (sign-up.ts), and
   * then mails a link if the address is known. If no mail server is configured, the log tells the
   * operator how to create a link.
   */
  forgot(email: string, by: By, first: () => Promise<void> = async () => undefined): void {
    const { log } = this.#parts;
    if (this.#pendingLinks.size >= pendingLinksMax) {
      throw new Fault(
        "unavailable",
        "Too many links are being requested at the moment; try again in a minute.",
      );
    }
    const pendingLink = first()
      .then(() => this.#mailLink(email.toLowerCase(), by))
      .catch((error: unknown) =>
        log.error({ err: error }, "a link that resets a password could not be made"),
      )
      .finally(() => this.#pendingLinks.delete(pendingLink));
    this.#pendingLinks.add(pendingLink);
  }

  /**
   * Creates a link that the operator hands over. Throws `Fault("not_found")` when no person has the
   * address.
   */
  async makeLink(email: string, by: By): Promise<ResetLink> {
    const { db } = this.#parts;
    // Only the person is needed, and not whether a network address is known, so none is compared.
    const person = await store.credentialOf(db, { email: email.toLowerCase(), address: "" });
    if (person === undefined)
      throw new Fault("not_found", "There is no account with this email address.");
    return this.#link(person, { by, mark: handedOver });
  }

  /**
   * Sets a password by the secret of a link, which works once, and ends all sessions. Throws
   * `Fault("not_usable" | "invalid" | "rate_limited")`.
   */
  async reset(reset: Trier & { readonly secret: string; readonly next: Secret }): Promise<void> {
    const { db, limits: counts, hashes, deviceCookies } = this.#parts;
    await counts.take(limits.secretAddress, deviceCookies.keyOf(reset));
    const personId = await this.#personOf(reset.secret);
    const person = personId === undefined ? undefined : await store.personById(db, personId);
    if (person === undefined) throw linkEnded();
    checkNewPassword("password", reset.next, person.email);
    const hash = await hashes.run(() => hashPassword(reset.next.reveal()));
    await db.transaction().execute((tx) => this.#reset(tx, { ...reset, hash, person }));
    this.#mailNotice(person.email, "reset");
  }

  /** Waits for the links that are being made. */
  async close(): Promise<void> {
    await Promise.all(this.#pendingLinks);
  }

  async #reset(
    tx: Tx,
    change: { secret: string; hash: string; by: By; person: PersonRow },
  ): Promise<void> {
    const { person, secret, hash: passwordHash } = change;
    const lockedPerson = await store.lockPerson(tx, person.id);
    if (!(await takeVerification(tx, linkPurpose + secret))) throw linkEnded();
    if (secret.startsWith(mailed)) {
      // Accounts with providers that were connected before the address was proven may belong to
      // somebody else.
      if (lockedPerson?.email_verified === false) await store.deleteAccounts(tx, person.id);
      await store.confirmAddress(tx, person.id);
    }
    if (!(await store.updatePassword(tx, person.id, passwordHash))) {
      await insertPassword(tx, { personId: person.id, passwordHash });
    }
    await deleteVerificationsOf(tx, person.id);
    await deleteUnconfirmed(tx, person.id);
    await this.#sessions.end(tx, { personId: person.id, except: null });
    const changes = { password: { new: "set by a link" } };
    const by = byPerson(person, change.by);
    await recordOfPerson(tx, { action: "person.password_reset", about: person, by, changes });
  }

  async #mailLink(email: string, by: By): Promise<void> {
    const { db, mailer, log, limits: counts } = this.#parts;
    const network = networkOf(by.request?.address ?? "");
    // `isTaken` returns null while attempts are allowed.
    if ((await counts.isTaken(limits.resetAddress, network)) !== null) return;
    if ((await counts.isTaken(limits.resetAccount, email)) !== null) return;
    // As in `makeLink`, only the person is needed.
    const person = await store.credentialOf(db, { email, address: "" });
    if (person === undefined) return;
    if (mailer === null) {
      log.warn(
        { personId: person.id, email: person.email },
        "a person has forgotten their password, and no mail server is configured: create a link for them with POST /v2/operator/password-resets",
      );
      return;
    }
    const { url } = await this.#link(person, { by: byAnybody(by), mark: mailed });
    mailer.post({
      to: person.email,
      subject: "Set a new password for Slipway",
      text: resetText(person, url),
    });
  }

  /** Stores and records a new link. `mark` is the first letter of its secret. */
  async #link(person: PersonRow, link: { by: By; mark: string }): Promise<ResetLink> {
    const { db, clock, baseUrl } = this.#parts;
    const secret = link.mark + randomBytes(32).toString("base64url");
    const expiresAt = new Date(clock.now() + linkLifetimeMs);
    await db.transaction().execute(async (tx) => {
      await insertVerification(tx, { secret: linkPurpose + secret, value: person.id, expiresAt });
      const changes = { link: { new: link.mark === mailed ? "mailed" : "made by the operator" } };
      await recordOfPerson(tx, {
        action: "person.password_reset",
        about: person,
        by: link.by,
        changes,
      });
    });
    return { url: new Secret(`${baseUrl()}/dashboard/reset-password/${secret}`), expiresAt };
  }

  /** The id of the person whose password the link sets; undefined: the link has ended. */
  async #personOf(secret: string): Promise<string | undefined> {
    const { db, clock } = this.#parts;
    return secretForm.test(secret)
      ? verificationOf(db, linkPurpose + secret, new Date(clock.now()))
      : undefined;
  }

  /** Mails the person that the password was changed, in case somebody else has changed it. */
  #mailNotice(email: string, change: "changed" | "reset"): void {
    const text = `Your password for Slipway at ${this.#parts.baseUrl()} was ${change}, and your other sessions were ended.\n\nIf this was not you, request a link for a new one on the sign-in page, and tell the owners of your projects.\n`;
    const subject = `Your password for Slipway was ${change}`;
    this.#parts.mailer?.post({ to: email, subject, text });
  }
}

function linkEnded(): Fault {
  return new Fault("not_usable", "The link has expired or was already used; request a new one.");
}

function resetText(person: PersonRow, url: Secret): string {
  return `Hello ${person.name},\n\nSomeone, hopefully you, requested a new password for Slipway. Use this link to set it; the link works once, within an hour:\n\n${url.reveal()}\n\nIf this was not you, ignore this message: your password stays the same.\n`;
}
