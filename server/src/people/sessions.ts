// Sessions of people: opened by whatever way of signing in, used to get access tokens, listed and
// ended. Every platform refuses access tokens of an ended session within a second of the commit.
import { randomBytes, randomUUID } from "node:crypto";
import type { PersonRow } from "#accounts/account-store.ts";
import type { PersonCaller } from "#accounts/caller.ts";
import type { By } from "#audit/record.ts";
import { personTokenSeconds, signPersonToken } from "#accounts/person-token.ts";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import * as store from "./people-store.ts";
import type { PeopleParts } from "./people-parts.ts";
import { byPerson, recordOfPerson } from "./person-record.ts";

/** A session with whose it is. */
export type PersonSession = { readonly person: PersonRow; readonly session: store.SessionRow };

/** What whoever signed in is given. */
export type SignedIn = PersonSession & {
  readonly kind: "signed_in";
  readonly accessToken: Secret;
  /** How long the access token is valid, in seconds. */
  readonly expiresIn: number;
  /** Gives further access tokens for as long as the session lasts; also the value of the cookie. */
  readonly refreshToken: Secret;
};

/** How somebody signed in. */
export type Way = "password" | "two_factor" | "oidc" | "github" | "device" | "invitation";

const lifeMs = 30 * 24 * 3_600_000;
/** As text they have 32 letters; see session-tokens.ts. */
const tokenBytes = 24;
/** A session that is used goes on; not every use is written. */
const extendAfterMs = 3_600_000;
/** The most sessions of a person; a further one ends the one that was used the longest time ago. */
const sessionsMax = 100;
/** The most addresses that are known of a person. */
const addressesMax = 100;
const userAgentLengthMax = 500;

/** Opens, finds and ends sessions. */
export class Sessions {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /**
   * A new session, recorded as a sign-in, whatever sessions the caller had before. The person is
   * locked: see `lockPerson`.
   */
  async open(
    tx: Tx,
    person: PersonRow,
    entry: { readonly way: Way; readonly by: By },
  ): Promise<store.SessionRow> {
    const address = entry.by.request?.address ?? "";
    const user_agent = (entry.by.request?.userAgent ?? "").slice(0, userAgentLengthMax);
    const session = await this.#insert(tx, { person_id: person.id, address, user_agent });
    const at = session.created_at;
    await this.#endSurplus(tx, person.id);
    const by = byPerson(person, entry.by);
    if (address !== "") {
      const { isNew, isFirst } = await store.noteAddress(tx, {
        personId: person.id,
        address,
        at,
        addressesMax,
      });
      if (isNew && !isFirst)
        await recordOfPerson(tx, { action: "person.new_address", about: person, by });
    }
    const changes = { way: { new: entry.way } };
    await recordOfPerson(tx, { action: "person.sign_in", about: person, by, changes });
    return session;
  }

  /**
   * A new session in place of the caller's, opened where that one was. Throws
   * `Fault("unauthorized")` when it has ended.
   */
  async replace(tx: Tx, caller: PersonCaller): Promise<store.SessionRow> {
    const { session } = await this.required(tx, caller);
    // Whoever ends one session does not lock the person, and may have done so since it was read.
    if (!(await this.end(tx, { personId: caller.personId, only: session.id })))
      throw sessionEnded();
    return this.#insert(tx, session);
  }

  /** The caller's session, with whose it is. Throws `Fault("unauthorized")` when it has ended. */
  async required(db: Db, { sessionId }: Pick<PersonCaller, "sessionId">): Promise<PersonSession> {
    const session = await store.sessionById(db, sessionId);
    const person =
      session === undefined ? undefined : await store.personById(db, session.person_id);
    const isOver = session === undefined || session.expires_at.getTime() <= this.#parts.clock.now();
    if (isOver || person === undefined) throw sessionEnded();
    return { person, session };
  }

  /** The tokens of a session. */
  async tokensOf({ person, session }: PersonSession): Promise<SignedIn> {
    const refreshToken = this.#parts.tokens.sign(session.token);
    const access = await this.#sign(person, session);
    return { kind: "signed_in", person, session, refreshToken, ...access };
  }

  /**
   * The session of a refresh token or cookie; null when there is none (any more). It goes on from
   * now.
   */
  async of(refreshToken: string): Promise<PersonSession | null> {
    const { db, clock, tokens } = this.#parts;
    const token = tokens.read(refreshToken);
    const session = token === null ? undefined : await store.sessionByToken(db, token);
    if (session === undefined || session.expires_at.getTime() <= clock.now()) return null;
    const person = await store.personById(db, session.person_id);
    if (person === undefined) return null;
    if (clock.now() - session.updated_at.getTime() > extendAfterMs) {
      await store.extendSession(db, session.id, {
        at: new Date(clock.now()),
        until: new Date(clock.now() + lifeMs),
      });
    }
    return { person, session };
  }

  /** An access token of a session. Throws `Fault("unauthorized")` when it has ended. */
  async issueAccess(sessionId: string): Promise<{ accessToken: Secret; expiresIn: number }> {
    const { person, session } = await this.required(this.#parts.db, { sessionId });
    return this.#sign(person, session);
  }

  /** A person's sessions, the one that was used last first. */
  list(personId: string): Promise<store.SessionRow[]> {
    const { db, clock } = this.#parts;
    return store.listSessions(db, { personId, at: new Date(clock.now()), limit: sessionsMax });
  }

  /** Ends the session that is used to sign out. */
  async signOut({ person, session }: PersonSession, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      if (!(await this.end(tx, { personId: person.id, only: session.id }))) return;
      await recordOfPerson(tx, {
        action: "person.sign_out",
        about: person,
        by: byPerson(person, by),
      });
    });
  }

  /** Ends one session of the person. Throws `Fault("not_found")`. */
  async endOne(personId: string, sessionId: string, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      if (!(await this.end(tx, { personId, only: sessionId }))) {
        throw new Fault("not_found", "You have no session with that id.");
      }
      await this.#recordEnd(tx, personId, by);
    });
  }

  /**
   * Ends sessions of the person, who is locked where all are ended but one (null: all); what they
   * are used for stops within a second. False: there was none.
   */
  async end(tx: Tx, which: store.SessionChoice): Promise<boolean> {
    const ids = await store.deleteSessions(tx, which);
    if (ids.length > 0) await notify(tx, "people", which.personId);
    return ids.length > 0;
  }

  /** Ends all sessions of the person but this one, recorded by itself. */
  async endAllOthers(personId: string, except: string, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      await store.lockPerson(tx, personId);
      if (await this.end(tx, { personId, except })) await this.#recordEnd(tx, personId, by);
    });
  }

  #insert(
    tx: Tx,
    {
      person_id,
      address,
      user_agent,
    }: Pick<store.SessionRow, "person_id" | "address" | "user_agent">,
  ): Promise<store.SessionRow> {
    const at = new Date(this.#parts.clock.now());
    const times = { created_at: at, updated_at: at, expires_at: new Date(at.getTime() + lifeMs) };
    const token = randomBytes(tokenBytes).toString("base64url");
    return store.insertSession(tx, {
      id: randomUUID(),
      person_id,
      token,
      address,
      user_agent,
      ...times,
    });
  }

  async #recordEnd(tx: Tx, personId: string, by: By): Promise<void> {
    const person = await store.personById(tx, personId);
    if (person === undefined) return;
    await recordOfPerson(tx, {
      action: "person.session_end",
      about: person,
      by: byPerson(person, by),
    });
  }

  async #endSurplus(tx: Db, personId: string): Promise<void> {
    const at = new Date(0);
    const all = await store.listSessions(tx, { personId, at, limit: sessionsMax * 2 });
    const surplus = all.slice(sessionsMax);
    for (const { id } of surplus) await store.deleteSessions(tx, { personId, only: id });
    if (surplus.length > 0) await notify(tx, "people", personId);
  }

  async #sign(
    person: PersonRow,
    session: store.SessionRow,
  ): Promise<{ accessToken: Secret; expiresIn: number }> {
    const { keys, clock } = this.#parts;
    const named = { personId: person.id, sessionId: session.id, email: person.email };
    const accessToken = await signPersonToken({
      ...named,
      key: keys.current(),
      nowMs: clock.now(),
    });
    return { accessToken, expiresIn: personTokenSeconds };
  }
}

/** The refusal of a session that was ended or has expired. */
export function sessionEnded(cause?: unknown): Fault {
  return new Fault(
    "unauthorized",
    "The session has ended; sign in again.",
    cause === undefined ? {} : { cause },
  );
}
