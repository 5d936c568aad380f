// Two-factor sign-in with codes of an authenticator app (TOTP, RFC 6238) and backup codes. better-auth keeps the secrets,
// checks codes and counts wrong ones; here is who may ask for what, and what the audit log says of it.
import { createHash } from "node:crypto";
import { personByEmail } from "#accounts/account-store.ts";
import type { PersonRow } from "#accounts/account-store.ts";
import type { PersonCaller } from "#accounts/caller.ts";
import type { By } from "#audit/actor.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { limits } from "./attempt-limits.ts";
import { lockSeconds } from "./auth.ts";
import { faultOfAuth } from "./auth-failure.ts";
import {
  deleteVerificationsOf,
  lastCodeOf,
  lockPerson,
  noteCode,
  personById,
  removeTwoFactor,
  sessionById,
} from "./people-store.ts";
import type { Trier } from "./device-cookies.ts";
import type { PeopleParts } from "./people-parts.ts";
import { byAnybody, byPerson, recordOfPerson } from "./person-record.ts";
import type { PersonSession, Sessions, SignedIn } from "./sessions.ts";

/** What a person needs to set up their authenticator app, shown once. */
export type Enrolment = { readonly uri: string; readonly backupCodes: readonly string[] };

/** A challenge and a code for it. */
export type CodeSignIn = Trier & { readonly challenge: string; readonly code: string };

const challengeForm = /^2fa-[A-Za-z0-9_-]{32}$/;
const appCodeForm = /^\d{6}$/;
/** The app's codes are taken for one step of 30 seconds before and after their own. */
const codeReuseMs = 120_000;

/** Turns it on and off, and takes codes. */
export class TwoFactor {
  readonly #parts: PeopleParts;
  readonly #sessions: Sessions;

  constructor(parts: PeopleParts, sessions: Sessions) {
    this.#parts = parts;
    this.#sessions = sessions;
  }

  /** The second step of a sign-in. Throws `Fault("unauthorized" | "rate_limited")`. */
  async signIn(given: CodeSignIn): Promise<SignedIn> {
    const { db, limits: counts, deviceCookies } = this.#parts;
    const trier = deviceCookies.keyOf(given);
    await counts.take(limits.signInAddress, trier);
    // A refusal is returned, not thrown: the count of wrong codes is part of the transaction, and must be kept.
    const done = await db.transaction().execute((tx) => this.#signIn(tx, given));
    if (done instanceof Fault) throw done;
    await counts.giveBack(limits.signInAddress, trier);
    return this.#sessions.tokensOf(done);
  }

  /** Begins to turn it on: it is on once a code of the app was confirmed. The password, if there is one, is asked for. */
  async begin(caller: PersonCaller, password: Secret | null): Promise<Enrolment> {
    const { auth, hashes } = this.#parts;
    await this.#countTry(caller);
    const headers = await this.#headersOf(caller);
    const body = { ...passwordOf(password), method: "totp" as const };
    const made = await hashes.run(() => refused(auth().api.enableTwoFactor({ body, headers })));
    if (made.method !== "totp") throw new Error("better-auth made another second factor than was asked for");
    await this.#giveBackTry(caller);
    return { uri: made.totpURI, backupCodes: made.backupCodes };
  }

  /** Turns it on, with a code of the app. The session is replaced by a new one. */
  async confirm(caller: PersonCaller, code: string, by: By): Promise<SignedIn> {
    const { auth, tokens } = this.#parts;
    await this.#countTry(caller);
    const headers = await this.#headersOf(caller);
    return this.#replaceSession(caller, by, "person.two_factor_enable", async () => {
      const found = await personById(this.#parts.db, caller.personId);
      if (found?.two_factor_enabled === true) throw new Fault("conflict", "Two-factor sign-in is already on.");
      const answer = await refused(auth().api.verifyTOTP({ body: { code }, headers, returnHeaders: true }));
      return tokens.setBy(answer.headers);
    });
  }

  /** Turns it off, with a code and, if there is one, the password. The session is replaced by a new one. */
  async disable(caller: PersonCaller, given: { code: string; password: Secret | null; by: By }): Promise<SignedIn> {
    const { auth, tokens } = this.#parts;
    await this.#countTry(caller);
    const headers = await this.#headersOf(caller);
    return this.#replaceSession(caller, given.by, "person.two_factor_disable", async (tx) => {
      await this.#requireCode(tx, caller, { code: given.code, headers });
      const body = passwordOf(given.password);
      const answer = await refused(auth().api.disableTwoFactor({ body, headers, returnHeaders: true }));
      return tokens.setBy(answer.headers);
    });
  }

  /** New backup codes instead of all before, with a code and, if there is one, the password. */
  async renewBackupCodes(
    caller: PersonCaller,
    given: { code: string; password: Secret | null; by: By },
  ): Promise<readonly string[]> {
    const { db, auth, scoped, hashes } = this.#parts;
    await this.#countTry(caller);
    const headers = await this.#headersOf(caller);
    const { backupCodes } = await hashes.run(() =>
      db.transaction().execute((tx) =>
        scoped.within(tx, async () => {
          await this.#requireCode(tx, caller, { code: given.code, headers });
          const made = await refused(auth().api.generateBackupCodes({ body: passwordOf(given.password), headers }));
          const changes = { backupCodes: { new: "made anew" } };
          const by = byPerson(aboutOf(caller), given.by);
          await recordOfPerson(tx, { action: "person.two_factor_enable", about: aboutOf(caller), by, changes });
          return made;
        }),
      ),
    );
    await this.#giveBackTry(caller);
    return backupCodes;
  }

  /** Turns it off for somebody who has lost all that would, and ends their sessions. Throws `Fault("not_found" | "conflict")`. */
  async reset(email: string, by: By): Promise<void> {
    const { db, mailer, baseUrl } = this.#parts;
    await db.transaction().execute(async (tx) => {
      const person = await personByEmail(tx, email);
      if (person === undefined) throw new Fault("not_found", "There is no account with this email address.");
      if (!person.two_factor_enabled) throw new Fault("conflict", "Two-factor sign-in of this person is not on.");
      await lockPerson(tx, person.id);
      await removeTwoFactor(tx, person.id);
      await deleteVerificationsOf(tx, person.id);
      await this.#sessions.endOthers(tx, { personId: person.id, except: null });
      await recordOfPerson(tx, { action: "person.two_factor_disable", about: person, by });
    });
    const text = `The operator of Slipway at ${baseUrl()} has turned off your two-factor sign-in and ended your sessions.\n\nIf you did not request this, tell them and the owners of your projects.\n`;
    mailer?.post({ to: email, subject: "Two-factor sign-in was turned off", text });
  }

  async #signIn(tx: Tx, { challenge, code: given, by }: CodeSignIn): Promise<PersonSession | Fault> {
    const { auth, scoped, tokens } = this.#parts;
    const context = await auth().$context;
    const person = await this.#challenged(tx, challenge);
    if (person === null) {
      return new Fault("unauthorized", "The sign-in has expired, or had too many wrong codes; start it again.");
    }
    const headers = tokens.cookieFor(context.createAuthCookie("two_factor").name, challenge);
    try {
      const answer = await scoped.within(tx, () => this.#verify(tx, { person, code: given, headers }));
      const session = await this.#sessions.welcome(tx, person, { token: answer.token, way: "two_factor", by });
      return { person, session };
    } catch (error) {
      const { code, message: reason } = error instanceof Fault ? error : faultOfAuth(error);
      const fault = code === "rate_limited" ? lockedFault(reason) : new Fault("unauthorized", reason);
      const event = { action: "person.sign_in", outcome: "failure", about: person, by: byAnybody(by), reason } as const;
      await recordOfPerson(tx, event);
      return fault;
    }
  }

  /** Who the challenge is for, locked; null: it is good no more. A changed password takes back those from before. */
  async #challenged(tx: Tx, challenge: string): Promise<PersonRow | null> {
    const { auth, scoped, clock } = this.#parts;
    if (!challengeForm.test(challenge)) return null;
    const { internalAdapter } = await auth().$context;
    const find = () => scoped.within(tx, () => internalAdapter.findVerificationValue(challenge));
    const asked = await find();
    if (asked === null || asked.expiresAt.getTime() <= clock.now()) return null;
    const person = await lockPerson(tx, asked.value);
    return person === undefined || (await find()) === null ? null : person;
  }

  /** Takes a code of the app, once, or a backup code. */
  async #verify(tx: Tx, given: { person: PersonRow; code: string; headers: Headers }): Promise<{ token: string }> {
    const { auth, clock } = this.#parts;
    const { person, headers } = given;
    const code = given.code.replaceAll(" ", "");
    // Locks the row: codes of one person are taken one after the other, so that none is tried past the count of wrong ones.
    const last = await lastCodeOf(tx, person.id);
    if (!appCodeForm.test(code)) {
      const answer = await refused(auth().api.verifyBackupCode({ body: { code }, headers }));
      return { token: must(answer.token, "a backup code gives a session") };
    }
    const hash = createHash("sha256").update(`${person.id} ${code}`).digest("base64url");
    const isUsed = last?.last_code_hash === hash && clock.now() - (last.last_code_at?.getTime() ?? 0) < codeReuseMs;
    // A code that was used counts as a wrong one; so it is sent on as one that is wrong for sure.
    const answer = await refused(auth().api.verifyTOTP({ body: { code: isUsed ? "used" : code }, headers }));
    await noteCode(tx, { personId: person.id, hash, at: new Date(clock.now()) });
    return { token: answer.token };
  }

  /** Throws `Fault` unless the code is one that a sign-in would take. */
  async #requireCode(
    tx: Tx,
    caller: PersonCaller,
    { code, headers }: { code: string; headers: Headers },
  ): Promise<void> {
    const { auth } = this.#parts;
    const person = await personById(tx, caller.personId);
    if (person?.two_factor_enabled !== true) throw new Fault("conflict", "Two-factor sign-in is not on.");
    const trimmed = code.replaceAll(" ", "");
    if (appCodeForm.test(trimmed)) await refused(auth().api.verifyTOTP({ body: { code: trimmed }, headers }));
    else await refused(auth().api.verifyBackupCode({ body: { code: trimmed, disableSession: true }, headers }));
  }

  async #replaceSession(
    caller: PersonCaller,
    by: By,
    action: "person.two_factor_enable" | "person.two_factor_disable",
    change: (tx: Tx) => Promise<string | null>,
  ): Promise<SignedIn> {
    const { db, scoped, hashes } = this.#parts;
    const done = await hashes.run(() =>
      db.transaction().execute((tx) =>
        scoped.within(tx, async () => {
          await lockPerson(tx, caller.personId);
          const token = must(await change(tx), "better-auth replaces the session");
          const about = aboutOf(caller);
          await recordOfPerson(tx, { action, about, by: byPerson(about, by) });
          await notify(tx, "people", caller.personId);
          return this.#sessions.byToken(tx, token);
        }),
      ),
    );
    await this.#giveBackTry(caller);
    return this.#sessions.tokensOf(done);
  }

  /** The cookie of the caller's session, as better-auth wants it. */
  async #headersOf(caller: PersonCaller): Promise<Headers> {
    const { db, auth, tokens } = this.#parts;
    const session = await sessionById(db, caller.sessionId);
    if (session === undefined) throw new Fault("unauthorized", "The session has ended; sign in again.");
    const context = await auth().$context;
    return tokens.cookieFor(context.authCookies.sessionToken.name, session.token);
  }

  /** Passwords and codes of somebody whose access token was stolen are guessed here. */
  async #countTry(caller: PersonCaller): Promise<void> {
    await this.#parts.limits.take(limits.confirm, caller.personId);
  }

  async #giveBackTry(caller: PersonCaller): Promise<void> {
    await this.#parts.limits.giveBack(limits.confirm, caller.personId);
  }
}

function lockedFault(message: string): Fault {
  return new Fault("rate_limited", message, { retryAfterSeconds: lockSeconds });
}

/** The refusals of better-auth as faults. */
async function refused<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw faultOfAuth(error);
  }
}

function passwordOf(password: Secret | null): { password?: string } {
  return password === null ? {} : { password: password.reveal() };
}

function aboutOf({ personId, email, name }: PersonCaller): { id: string; email: string; name: string } {
  return { id: personId, email, name };
}
