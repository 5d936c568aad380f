// Two-factor sign-in with codes of an authenticator app and backup codes: turns it on and off,
// decides which codes are accepted, and writes the entries in the audit log. A code works once.
// Several wrong codes in a row lock the second step for a while.
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

/** The data with which a person sets up their authenticator app. It is shown once. */
export type Enrolment = { readonly uri: string; readonly backupCodes: readonly string[] };

/** A challenge and a code for it. */
export type CodeSignIn = Trier & { readonly challenge: string; readonly code: string };

/** The proof with which a person changes their second factor. */
type Confirmation = {
  /** A code of the authenticator app, or a backup code. */
  readonly code: string;
  /** Null: none was sent, which is accepted only from a person without a password. */
  readonly password: Secret | null;
};

/** A code of an authenticator app. Backup codes have another form. */
const appCodeForm = /^\d{6}$/;
/**
 * After this many wrong codes in a row, over all sign-ins of a person, codes are refused for
 * `lockSeconds`.
 */
const wrongCodesMax = 10;
const lockSeconds = 900;
const wrongCode = "The code is wrong or was already used.";
const notOn = "Two-factor sign-in is not on.";

/** Turns two-factor sign-in on and off, and checks codes. */
export class TwoFactor {
  readonly #parts: SignInParts;

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /** The second step of a sign-in. Throws `Fault("unauthorized" | "rate_limited")`. */
  async signIn(codeSignIn: CodeSignIn): Promise<SignedIn> {
    const { db, limits: attemptLimits, deviceCookies } = this.#parts;
    const opened = await attemptLimits.counted(
      limits.signInAddress,
      deviceCookies.keyOf(codeSignIn),
      async () => {
        // A refusal is returned, not thrown: the transaction, which counts the wrong code, must be
        // committed.
        const result = await db.transaction().execute((tx) => this.#signIn(tx, codeSignIn));
        if (result instanceof Fault) throw result;
        return result;
      },
    );
    return this.#parts.sessions.tokensOf(opened);
  }

  /**
   * Begins to turn two-factor sign-in on; it is on once `confirm` has accepted a code of the app.
   * Requires the person's password, if the person has one.
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
        // If the password was changed since it was compared, that change has ended this session.
        await this.#parts.sessions.required(tx, caller);
        if (await store.putTwoFactor(tx, { person_id: caller.personId, ...sealed })) return;
        throw new Fault("conflict", "Two-factor sign-in is already on; turn it off first.");
      });
      return { uri: appUri(secret, caller.email), backupCodes };
    });
  }

  /** Turns two-factor sign-in on, with a code of the app. A new session replaces the caller's. */
  confirm(caller: PersonCaller, code: string, by: By): Promise<SignedIn> {
    return this.#switch(caller, { by, isOn: true }, async (tx, person) => {
      if (person.two_factor_enabled)
        throw new Fault("conflict", "Two-factor sign-in is already on.");
      const factor = await store.lockTwoFactor(tx, person.id);
      if (factor === undefined) throw new Fault("conflict", notOn);
      if (!(await this.#acceptAppCode(tx, factor, withoutSpaces(code))))
        throw new Fault("not_usable", wrongCode);
    });
  }

  /**
   * Turns two-factor sign-in off. Requires a code and, if the person has one, the password. A new
   * session replaces the caller's.
   */
  disable(
    caller: PersonCaller,
    confirmation: Confirmation & { readonly by: By },
  ): Promise<SignedIn> {
    return this.#switch(caller, { by: confirmation.by, isOn: false }, (tx) =>
      this.#require(tx, caller, confirmation),
    );
  }

  /** Replaces all backup codes. Requires a code and, if the person has one, the password. */
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
      // The audit log has no action for new backup codes alone, so this is the nearest one.
      const changes = { backupCodes: { new: "replaced" } };
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
   * Turns two-factor sign-in off for a person who has lost the app and the backup codes, and ends
   * all sessions of that person. Throws `Fault("not_found" | "conflict")`.
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
    const refusal = await this.#checkCode(tx, person, codeSignIn);
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

  /**
   * Checks the code of a sign-in, and counts a wrong one. Returns the refusal, or null if the code
   * is right.
   */
  async #checkCode(tx: Tx, person: PersonRow, codeSignIn: CodeSignIn): Promise<Fault | null> {
    const now = this.#parts.clock.now();
    const factor = await store.lockTwoFactor(tx, person.id);
    if (factor?.verified !== true) return new Fault("unauthorized", notOn);
    // Without a lock this is far below zero.
    const lockedMs = (factor.locked_until?.getTime() ?? 0) - now;
    if (lockedMs > 0) {
      const retryAfterSeconds = Math.ceil(lockedMs / 1000);
      const text = `There were too many wrong codes; try again in ${retryAfterSeconds} s.`;
      return new Fault("rate_limited", text, { retryAfterSeconds });
    }
    // A challenge takes only a few codes, and ends with the first code above that limit.
    if ((await this.#parts.limits.isTaken(limits.challenge, codeSignIn.challenge, tx)) !== null) {
      await takeVerification(tx, codeSignIn.challenge);
      return new Fault("unauthorized", "There were too many wrong codes; start the sign-in again.");
    }
    if (await this.#acceptCode(tx, factor, codeSignIn.code)) {
      await store.updateTwoFactor(tx, person.id, {
        failed_verification_count: 0,
        locked_until: null,
      });
      return null;
    }
    // A lock that is still stored has ended, as was checked above: the count begins again.
    const earlierCount = factor.locked_until === null ? factor.failed_verification_count : 0;
    const wrongCount = earlierCount + 1;
    await store.updateTwoFactor(tx, person.id, {
      failed_verification_count: wrongCount,
      locked_until: wrongCount < wrongCodesMax ? null : new Date(now + lockSeconds * 1000),
    });
    return new Fault("unauthorized", wrongCode);
  }

  /**
   * Whether the authenticator app shows the code now, or the code is a backup code, which is then
   * deleted.
   */
  async #acceptCode(tx: Tx, factor: store.TwoFactorRow, typed: string): Promise<boolean> {
    const code = withoutSpaces(typed);
    if (appCodeForm.test(code)) return this.#acceptAppCode(tx, factor, code);
    const { secret } = this.#parts;
    const backupCodes = JSON.parse(await openFactor(secret, factor.backup_codes)) as string[];
    const remaining = backupCodes.filter((backupCode) => !isSameText(backupCode, code));
    if (remaining.length === backupCodes.length) return false;
    await store.updateTwoFactor(tx, factor.person_id, {
      backup_codes: await this.#sealCodes(remaining),
    });
    return true;
  }

  /**
   * Whether the authenticator app shows the code now, and began to show it after the last accepted
   * code. So a code works only once, for one action, and nobody who has seen it can use it again.
   */
  async #acceptAppCode(tx: Tx, factor: store.TwoFactorRow, code: string): Promise<boolean> {
    const { secret, clock } = this.#parts;
    const time = appCodeTime(await openFactor(secret, factor.secret), code, clock.now());
    if (time === null || time <= (factor.last_code_at?.getTime() ?? 0)) return false;
    await store.updateTwoFactor(tx, factor.person_id, { last_code_at: new Date(time) });
    return true;
  }

  /**
   * Throws `Fault` unless two-factor sign-in is on, a sign-in would accept the code, and the
   * password is right.
   */
  async #require(tx: Tx, caller: PersonCaller, { code, password }: Confirmation): Promise<void> {
    const factor = await store.lockTwoFactor(tx, caller.personId);
    if (factor?.verified !== true) throw new Fault("conflict", notOn);
    if (!(await this.#acceptCode(tx, factor, code))) throw new Fault("not_usable", wrongCode);
    await requirePassword(tx, caller, password);
  }

  /**
   * Turns two-factor sign-in on or off after `check`, which throws a refusal, and replaces the
   * caller's session.
   */
  async #switch(
    caller: PersonCaller,
    { by, isOn }: { readonly by: By; readonly isOn: boolean },
    check: (tx: Tx, person: PersonRow) => Promise<void>,
  ): Promise<SignedIn> {
    const replaced = await this.#change(caller, async (tx, person) => {
      await check(tx, person);
      await store.switchTwoFactor(tx, person.id, isOn);
      const action = isOn ? "person.two_factor_enable" : "person.two_factor_disable";
      await recordOfPerson(tx, { action, about: person, by: byPerson(person, by) });
      return {
        person: { ...person, two_factor_enabled: isOn },
        session: await this.#parts.sessions.replace(tx, caller),
      };
    });
    return this.#parts.sessions.tokensOf(replaced);
  }

  /**
   * Runs `change` in one transaction with the person locked. Only a few changes run at once, since
   * each may compare a password.
   */
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
   * Limits how often `work` may fail: a thief of an access token could otherwise guess the person's
   * password and codes here.
   */
  #counted<T>({ personId }: PersonCaller, work: () => Promise<T>): Promise<T> {
    return this.#parts.limits.counted(limits.confirm, personId, work);
  }

  #sealCodes(codes: readonly string[]): Promise<string> {
    return sealFactor(this.#parts.secret, JSON.stringify(codes));
  }
}

/** Throws `Fault("not_usable")` unless the password is the person's, or the person has none. */
export async function requirePassword(
  db: Db,
  { personId }: PersonCaller,
  password: Secret | null,
): Promise<void> {
  const hash = await passwordHashOf(db, personId);
  if (hash === null || (password !== null && (await isPassword(password.reveal(), hash)))) return;
  throw new Fault("not_usable", "The password is wrong.");
}

/** Authenticator apps show `123 456`, and people type it as they see it. */
function withoutSpaces(code: string): string {
  return code.replaceAll(" ", "");
}

function aboutOf({ personId, email, name }: PersonCaller): {
  id: string;
  email: string;
  name: string;
} {
  return { id: personId, email, name };
}

/** Encrypts a text for the database. */
function sealFactor(key: Secret, text: string): Promise<string> {
  return symmetricEncrypt({ key: keysOf(key), data: text });
}

/** Decrypts a text. Throws when the text was altered, or encrypted with another secret. */
function openFactor(key: Secret, sealed: string): Promise<string> {
  return symmetricDecrypt({ key: keysOf(key), data: sealed });
}

/**
 * The key in the form that better-auth takes. Each stored text contains the key's version, of which
 * there is only one so far.
 */
function keysOf(key: Secret): { keys: Map<number, string>; currentVersion: number } {
  return { keys: new Map([[1, key.reveal()]]), currentVersion: 1 };
}
