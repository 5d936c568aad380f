// Two-factor sign-in with codes of an authenticator app and backup codes: who may ask for what,
// which codes are taken, and what the audit log says of it. A code is good once; wrong ones in a
// row lock the second step for a while.
import { symmetricDecrypt, symmetricEncrypt } from "better-auth/crypto";
import { personByEmail, type PersonRow } from "#accounts/account-store.ts";
import type { PersonCaller } from "#accounts/caller.ts";
import { isPassword } from "#accounts/passwords.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db, Tx } from "#store/database.ts";
import { isSameText } from "#lib/same-text.ts";
import { appCodeTime, appUri, newAppSecret, newBackupCodes } from "./app-codes.ts";
import { limits } from "./attempt-limits.ts";
import type { Trier } from "./device-cookies.ts";
import { lockPerson, passwordHashOf } from "./people-store.ts";
import { byAnybody, byPerson, recordOfPerson } from "./person-record.ts";
import type { PersonSession, SignedIn } from "./sessions.ts";
import type { SignInParts } from "./sign-in-parts.ts";
import * as store from "./two-factor-store.ts";
import { deleteVerificationsOf, takeVerification } from "./verification-store.ts";

/** What a person needs to set up their authenticator app, shown once. */
export type Enrolment = { readonly uri: string; readonly backupCodes: readonly string[] };

/** A challenge and a code for it. */
export type CodeSignIn = Trier & { readonly challenge: string; readonly code: string };

/** What a person shows again to change their second factor; the password, if they have one. */
type Confirmation = { readonly code: string; readonly password: Secret | null };

const appCodeForm = /^\d{6}$/;
/**
 * Wrong codes in a row, over all sign-ins of a person, before codes are refused for `lockSeconds`.
 */
const wrongCodesMax = 10;
const lockSeconds = 900;
const wrongCode = "The code is wrong or was already used.";
const notOn = "Two-factor sign-in is not on.";

/** Turns it on and off, and takes codes. */
export class TwoFactor {
  readonly #parts: SignInParts;

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /** The second step of a sign-in. Throws `Fault("unauthorized" | "rate_limited")`. */
  async signIn(codeSignIn: CodeSignIn): Promise<SignedIn> {
    const { db, limits: counts, deviceCookies } = this.#parts;
    const done = await counts.counted(
      limits.signInAddress,
      deviceCookies.keyOf(codeSignIn),
      async () => {
        // A refusal is returned, not thrown: the count of wrong codes is part of the transaction,
        // and must be kept.
        const answer = await db.transaction().execute((tx) => this.#signIn(tx, codeSignIn));
        if (answer instanceof Fault) throw answer;
        return answer;
      },
    );
    return this.#parts.sessions.tokensOf(done);
  }

  /**
   * Begins to turn it on: it is on once a code of the app was confirmed. The password, if there is
   * one, is asked for.
   */
  async begin(caller: PersonCaller, password: Secret | null): Promise<Enrolment> {
    const { db, secret: key, hashes } = this.#parts;
    return this.#counted(caller, async () => {
      await this.#parts.sessions.required(db, caller);
      await hashes.run(() => requirePassword(db, caller, password));
      const secret = newAppSecret();
      const backupCodes = newBackupCodes();
      const sealed = {
        secret: await sealFactor(key, secret),
        backup_codes: await this.#sealCodes(backupCodes),
      };
      await db.transaction().execute(async (tx) => {
        await lockPerson(tx, caller.personId);
        // Whoever has changed the password since it was compared has ended this session.
        await this.#parts.sessions.required(tx, caller);
        if (await store.putTwoFactor(tx, { person_id: caller.personId, ...sealed })) return;
        throw new Fault("conflict", "Two-factor sign-in is already on; turn it off first.");
      });
      return { uri: appUri(secret, caller.email), backupCodes };
    });
  }

  /** Turns it on, with a code of the app. The session is replaced by a new one. */
  confirm(caller: PersonCaller, code: string, by: By): Promise<SignedIn> {
    return this.#switch(caller, { by, isOn: true }, async (tx, person) => {
      if (person.two_factor_enabled)
        throw new Fault("conflict", "Two-factor sign-in is already on.");
      const factor = await store.lockTwoFactor(tx, person.id);
      if (factor === undefined) throw new Fault("conflict", notOn);
      if (!(await this.#takeAppCode(tx, factor, code))) throw new Fault("not_usable", wrongCode);
    });
  }

  /**
   * Turns it off, with a code and, if there is one, the password. The session is replaced by a new
   * one.
   */
  disable(
    caller: PersonCaller,
    confirmation: Confirmation & { readonly by: By },
  ): Promise<SignedIn> {
    return this.#switch(caller, { by: confirmation.by, isOn: false }, (tx) =>
      this.#require(tx, caller, confirmation),
    );
  }

  /** New backup codes instead of all before, with a code and, if there is one, the password. */
  async renewBackupCodes(
    caller: PersonCaller,
    confirmation: Confirmation & { readonly by: By },
  ): Promise<readonly string[]> {
    const backupCodes = newBackupCodes();
    await this.#change(caller, async (tx) => {
      await this.#require(tx, caller, confirmation);
      await store.updateTwoFactor(tx, caller.personId, {
        backup_codes: await this.#sealCodes(backupCodes),
      });
      const changes = { backupCodes: { new: "made anew" } };
      const about = aboutOf(caller);
      await recordOfPerson(tx, {
        action: "person.two_factor_enable",
        about,
        by: byPerson(about, confirmation.by),
        changes,
      });
    });
    return backupCodes;
  }

  /**
   * Turns it off for somebody who has lost all that would, and ends their sessions. Throws
   * `Fault("not_found" | "conflict")`.
   */
  async reset(email: string, by: By): Promise<void> {
    const { db, mailer, baseUrl } = this.#parts;
    await db.transaction().execute(async (tx) => {
      const person = await personByEmail(tx, email);
      if (person === undefined)
        throw new Fault("not_found", "There is no account with this email address.");
      if (!person.two_factor_enabled)
        throw new Fault("conflict", "Two-factor sign-in of this person is not on.");
      await lockPerson(tx, person.id);
      await store.switchTwoFactor(tx, person.id, false);
      await deleteVerificationsOf(tx, person.id);
      await this.#parts.sessions.end(tx, { personId: person.id, except: null });
      await recordOfPerson(tx, { action: "person.two_factor_disable", about: person, by });
    });
    const text = `The operator of Slipway at ${baseUrl()} has turned off your two-factor sign-in and ended your sessions.\n\nIf you did not request this, tell them and the owners of your projects.\n`;
    mailer?.post({ to: email, subject: "Two-factor sign-in was turned off", text });
  }

  async #signIn(tx: Tx, codeSignIn: CodeSignIn): Promise<PersonSession | Fault> {
    const { challenge, by } = codeSignIn;
    const person = await this.#parts.challenges.personOf(tx, challenge);
    if (person === null) {
      return new Fault(
        "unauthorized",
        "The sign-in has expired, or had too many wrong codes; start it again.",
      );
    }
    const refusal = await this.#refusal(tx, person, codeSignIn);
    if (refusal !== null) {
      const event = {
        action: "person.sign_in",
        outcome: "failure",
        about: person,
        by: byAnybody(by),
      } as const;
      await recordOfPerson(tx, { ...event, reason: refusal.message });
      return refusal;
    }
    await takeVerification(tx, challenge);
    return {
      person,
      session: await this.#parts.sessions.open(tx, person, { way: "two_factor", by }),
    };
  }

  /** Takes the code of a sign-in, and counts it where it is wrong; null: it was right. */
  async #refusal(tx: Tx, person: PersonRow, codeSignIn: CodeSignIn): Promise<Fault | null> {
    const now = this.#parts.clock.now();
    const factor = await store.lockTwoFactor(tx, person.id);
    if (factor?.verified !== true) return new Fault("unauthorized", notOn);
    if ((factor.locked_until?.getTime() ?? 0) > now) {
      const text = "There were too many wrong codes; try again in 15 minutes.";
      return new Fault("rate_limited", text, { retryAfterSeconds: lockSeconds });
    }
    if ((await this.#parts.limits.isTaken(limits.challenge, codeSignIn.challenge, tx)) !== null) {
      await takeVerification(tx, codeSignIn.challenge);
      return new Fault("unauthorized", "There were too many wrong codes; start the sign-in again.");
    }
    const code = codeSignIn.code.replaceAll(" ", "");
    if (await this.#takeCode(tx, factor, code)) {
      await store.updateTwoFactor(tx, person.id, {
        failed_verification_count: 0,
        locked_until: null,
      });
      return null;
    }
    const wrong = (factor.locked_until === null ? factor.failed_verification_count : 0) + 1;
    const locked_until = wrong < wrongCodesMax ? null : new Date(now + lockSeconds * 1000);
    await store.updateTwoFactor(tx, person.id, { failed_verification_count: wrong, locked_until });
    return new Fault("unauthorized", wrongCode);
  }

  /** Whether it is a code of the app now, or a backup code, which it takes away. */
  async #takeCode(tx: Tx, factor: store.TwoFactorRow, code: string): Promise<boolean> {
    if (appCodeForm.test(code)) return this.#takeAppCode(tx, factor, code);
    const { secret } = this.#parts;
    const codes = JSON.parse(await openFactor(secret, factor.backup_codes)) as string[];
    const others = codes.filter((one) => !isSameText(one, code));
    if (others.length === codes.length) return false;
    await store.updateTwoFactor(tx, factor.person_id, {
      backup_codes: await this.#sealCodes(others),
    });
    return true;
  }

  /**
   * Whether it is a code of the app now, later than the last that was taken, for whatever it was:
   * whoever saw one has no use for it.
   */
  async #takeAppCode(tx: Tx, factor: store.TwoFactorRow, code: string): Promise<boolean> {
    const { secret, clock } = this.#parts;
    const time = appCodeTime(await openFactor(secret, factor.secret), code, clock.now());
    if (time === null || time <= (factor.last_code_at?.getTime() ?? 0)) return false;
    await store.updateTwoFactor(tx, factor.person_id, { last_code_at: new Date(time) });
    return true;
  }

  /**
   * Throws `Fault` unless it is on, the code is one that a sign-in would take, and the password is
   * right.
   */
  async #require(tx: Tx, caller: PersonCaller, { code, password }: Confirmation): Promise<void> {
    const factor = await store.lockTwoFactor(tx, caller.personId);
    if (factor?.verified !== true) throw new Fault("conflict", notOn);
    if (!(await this.#takeCode(tx, factor, code.replaceAll(" ", ""))))
      throw new Fault("not_usable", wrongCode);
    await requirePassword(tx, caller, password);
  }

  async #switch(
    caller: PersonCaller,
    { by, isOn }: { readonly by: By; readonly isOn: boolean },
    require: (tx: Tx, person: PersonRow) => Promise<void>,
  ): Promise<SignedIn> {
    const done = await this.#change(caller, async (tx, person) => {
      await require(tx, person);
      await store.switchTwoFactor(tx, person.id, isOn);
      const action = isOn ? "person.two_factor_enable" : "person.two_factor_disable";
      await recordOfPerson(tx, { action, about: person, by: byPerson(person, by) });
      return {
        person: { ...person, two_factor_enabled: isOn },
        session: await this.#parts.sessions.replace(tx, caller),
      };
    });
    return this.#parts.sessions.tokensOf(done);
  }

  /** In one transaction, with the person locked, when it is the turn of who hashes passwords. */
  #change<T>(caller: PersonCaller, change: (tx: Tx, person: PersonRow) => Promise<T>): Promise<T> {
    const { db, hashes } = this.#parts;
    return this.#counted(caller, () =>
      hashes.run(() =>
        db.transaction().execute(async (tx) => {
          await lockPerson(tx, caller.personId);
          const { person } = await this.#parts.sessions.required(tx, caller);
          return change(tx, person);
        }),
      ),
    );
  }

  /**
   * Counts a try, unless it succeeds: passwords and codes of somebody whose access token was stolen
   * are guessed here.
   */
  #counted<T>({ personId }: PersonCaller, work: () => Promise<T>): Promise<T> {
    return this.#parts.limits.counted(limits.confirm, personId, work);
  }

  #sealCodes(codes: readonly string[]): Promise<string> {
    return sealFactor(this.#parts.secret, JSON.stringify(codes));
  }
}

/** Throws `Fault("not_usable")` unless it is the person's, or they have none. */
export async function requirePassword(
  db: Db,
  { personId }: PersonCaller,
  password: Secret | null,
): Promise<void> {
  const hash = await passwordHashOf(db, personId);
  if (hash === null || (password !== null && (await isPassword(password.reveal(), hash)))) return;
  throw new Fault("not_usable", "The password is wrong.");
}

function aboutOf({ personId, email, name }: PersonCaller): {
  id: string;
  email: string;
  name: string;
} {
  return { id: personId, email, name };
}

/** The text to store. */
function sealFactor(key: Secret, text: string): Promise<string> {
  return symmetricEncrypt({ key: keysOf(key), data: text });
}

/** What was sealed. Throws when it was altered, or sealed with another secret. */
function openFactor(key: Secret, sealed: string): Promise<string> {
  return symmetricDecrypt({ key: keysOf(key), data: sealed });
}

/** The number is part of what is stored. */
function keysOf(key: Secret): { keys: Map<number, string>; currentVersion: number } {
  return { keys: new Map([[1, key.reveal()]]), currentVersion: 1 };
}
