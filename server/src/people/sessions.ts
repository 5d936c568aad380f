// Sessions of people: every way of signing in opens one. A session gives access tokens for as long
// as it lasts, and can be listed and ended. Every platform on the database refuses access tokens of
// an ended session within a second of the commit.
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

/** A session and its person. */
export type PersonSession = { readonly person: PersonRow; readonly session: store.SessionRow };

/** The session and the tokens of somebody who has signed in. */
export type SignedIn = PersonSession & {
  readonly kind: "signed_in";
  readonly accessToken: Secret;
  /** How long the access token is valid, in seconds. */
  readonly expiresIn: number;
  /**
   * The client exchanges it for access tokens while the session lasts. It is also the value of the
   * session cookie.
   */
  readonly refreshToken: Secret;
};

/** How somebody signed in. */
export type Way = "password" | "two_factor" | "oidc" | "github" | "device" | "invitation";

/** How long a session lasts after its last use. */
const lifetimeMs = 30 * 24 * 3_600_000;
/** The number of random bytes of a session's token, which is their text in base64url. */
const tokenBytes = 24;
/** The time after which the next use extends a session, so that not every use is written. */
const extendAfterMs = 3_600_000;
/**
 * The maximum number of sessions of a person. A new one ends the one that was unused the longest.
 */
const sessionsMax = 100;
/** The maximum number of stored addresses of a person. */
const addressesMax = 100;
const userAgentLengthMax = 500;

/** Opens, finds and ends sessions. */
export class Sessions {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /**
   * Opens a session, and records it as a sign-in. The caller of this function has locked the
   * person; see `lockPerson`.
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
   * Replaces the caller's session by a new one with the same address and user agent. Throws
   * `Fault("unauthorized")` when the session has ended.
   */
  async replace(tx: Tx, caller: PersonCaller): Promise<store.SessionRow> {
    const { session } = await this.required(tx, caller);
    // Ending a single session does not lock the person, so this session may have ended since it was
    // read.
    if (!(await this.end(tx, { personId: caller.personId, only: session.id })))
      throw sessionEnded();
    return this.#insert(tx, session);
  }

  /** The caller's session and person. Throws `Fault("unauthorized")` when the session has ended. */
  async required(db: Db, { sessionId }: Pick<PersonCaller, "sessionId">): Promise<PersonSession> {
    const session = await store.sessionById(db, sessionId);
    const person =
      session === undefined ? undefined : await store.personById(db, session.person_id);
    const isOver = session === undefined || session.expires_at.getTime() <= this.#parts.clock.now();
    if (isOver || person === undefined) throw sessionEnded();
    return { person, session };
  }

  /** Signs the tokens of a session. */
  async tokensOf({ person, session }: PersonSession): Promise<SignedIn> {
    const refreshToken = this.#parts.tokens.sign(session.token);
    const access = await this.#sign(person, session);
    return { kind: "signed_in", person, session, refreshToken, ...access };
  }

  /**
   * The session of a refresh token or cookie; null: there is none, or it has ended. This use
   * extends the session, unless it was opened or extended within the last hour.
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
        until: new Date(clock.now() + lifetimeMs),
      });
    }
    return { person, session };
  }

  /** Signs an access token of a session. Throws `Fault("unauthorized")` when it has ended. */
  async issueAccess(sessionId: string): Promise<{ accessToken: Secret; expiresIn: number }> {
    const { person, session } = await this.required(this.#parts.db, { sessionId });
    return this.#sign(person, session);
  }

  /** A person's sessions, the last used one first. */
  list(personId: string): Promise<store.SessionRow[]> {
    const { db, clock } = this.#parts;
    return store.listSessions(db, { personId, at: new Date(clock.now()), limit: sessionsMax });
  }

  /** Ends the session, and records it as a sign-out. */
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
   * Ends sessions of the person; their access tokens are refused within a second. The caller of
   * this function has locked the person unless only one session is ended. Returns false when there
   * was no such session.
   */
  async end(tx: Tx, choice: store.SessionChoice): Promise<boolean> {
    const ids = await store.deleteSessions(tx, choice);
    if (ids.length > 0) await notify(tx, "people", choice.personId);
    return ids.length > 0;
  }

  /** Ends all sessions of the person except one, and records it. */
  async endAllOthers(personId: string, except: string, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      await store.lockPerson(tx, personId);
      if (await this.end(tx, { personId, except })) await this.#recordEnd(tx, personId, by);
    });
  }

  #insert(
    tx: Tx,
    origin: Pick<store.SessionRow, "person_id" | "address" | "user_agent">,
  ): Promise<store.SessionRow> {
    const at = new Date(this.#parts.clock.now());
    return store.insertSession(tx, {
      id: randomUUID(),
      person_id: origin.person_id,
      token: randomBytes(tokenBytes).toString("base64url"),
      address: origin.address,
      user_agent: origin.user_agent,
      created_at: at,
      updated_at: at,
      expires_at: new Date(at.getTime() + lifetimeMs),
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
    // The list has the sessions that expire after 1970, which all do: expired ones count too.
    const at = new Date(0);
    // A sign-in adds one session, so far fewer than `sessionsMax` are ever too many.
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
    const accessToken = await signPersonToken({
      personId: person.id,
      sessionId: session.id,
      email: person.email,
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
