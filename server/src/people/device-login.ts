// Device login (RFC 8628): a command line gets a user code and a device code. A person who is
// signed in compares the user code and approves it, and the command line then exchanges the device
// code for a session, once. Codes are valid for ten minutes, and the number of waiting logins is
// bounded. Decision 0025 says why the platform implements this itself.
import { randomUUID } from "node:crypto";
import type { PersonCaller } from "#accounts/caller.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { hashOfDeviceCode, newDeviceCode, newUserCode, readUserCode } from "./device-codes.ts";
import * as store from "./device-store.ts";
import { lockPerson } from "./people-store.ts";
import { recordOfPerson } from "./person-record.ts";
import { sessionEnded } from "./sessions.ts";

/** The foreign key from a login to the session of the person who approved or denied it. */
const sessionConstraint = "device_logins_session_id_fkey";

/** The tokens of a new session. */
export type DeviceTokens = { readonly accessToken: Secret; readonly refreshToken: Secret };

export type DeviceLoginsOptions = Pick<Foundation, "db" | "clock"> & {
  /** Opens a session of the person within the transaction, and records the sign-in. */
  readonly openSession: (
    tx: Tx,
    opening: { readonly personId: string; readonly by: By },
  ) => Promise<DeviceTokens>;
};

/** The codes of a new device login, as the command line gets them. */
export type BegunLogin = {
  readonly deviceCode: string;
  readonly userCode: string;
  readonly expiresInSeconds: number;
  readonly intervalSeconds: number;
};

/** A device login as the approving person sees it. */
export type DeviceLogin = Pick<
  store.DeviceLoginRow,
  "user_code" | "state" | "client" | "address" | "created_at" | "expires_at"
>;

/** Why a device gets no tokens, or not yet, in the words of RFC 8628, 3.5, and RFC 6749, 5.2. */
export type NotYet =
  | "authorization_pending"
  | "slow_down"
  | "access_denied"
  | "expired_token"
  | "invalid_grant";

/** How long the codes of a login are valid. */
const lifetimeMs = 10 * 60_000;
/** The time between two polls that clients are asked to keep. */
const intervalSeconds = 1;
/** The minimum time between two polls: existing clients ignore the interval that they get. */
const pollIntervalMinMs = 200;
/**
 * How long the row of an expired code stays, so that its device learns that the code has expired.
 */
const expiredKeptMs = 60 * 60_000;
/** The maximum number of logins on the whole platform whose codes are still valid. */
const openMax = 10_000;
const removedAtOnceMax = 1_000;
const clientLengthMax = 200;
/**
 * How many user codes are tried for a login. With 10,000 of 20^8 codes in use, one in two million
 * is taken.
 */
const triesMax = 5;

/** Device logins. All state is in the database, so that any platform on it can answer any step. */
export class DeviceLogins {
  readonly #options: DeviceLoginsOptions;
  /**
   * Counts polls by the hash of the device code, so that a device that polls too often is told so.
   */
  readonly #polls: RateLimit;

  constructor(options: DeviceLoginsOptions) {
    this.#options = options;
    this.#polls = new RateLimit({ max: 1, windowMs: pollIntervalMinMs, clock: options.clock });
  }

  /** Begins a login. Throws `Fault("rate_limited")` when too many wait on the whole platform. */
  async begin(device: {
    readonly client: string;
    readonly address: string | null;
  }): Promise<BegunLogin> {
    const { db, clock } = this.#options;
    const now = clock.now();
    await store.removeEndedLogins(db, {
      before: new Date(now - expiredKeptMs),
      max: removedAtOnceMax,
    });
    if ((await store.countOpenLogins(db, { nowAt: new Date(now), max: openMax })) >= openMax) {
      throw new Fault(
        "rate_limited",
        "Too many devices are waiting for approval; try again in a minute.",
        {
          retryAfterSeconds: 60,
        },
      );
    }
    const deviceCode = newDeviceCode();
    for (let tries = 0; tries < triesMax; tries++) {
      const userCode = newUserCode();
      const isAdded = await store.insertDeviceLogin(db, {
        id: randomUUID(),
        device_code_hash: hashOfDeviceCode(deviceCode),
        user_code: userCode,
        client: device.client.slice(0, clientLengthMax),
        address: device.address,
        created_at: new Date(now),
        expires_at: new Date(now + lifetimeMs),
      });
      if (isAdded)
        return { deviceCode, userCode, expiresInSeconds: lifetimeMs / 1000, intervalSeconds };
    }
    throw new Error("no user code was free");
  }

  /** The login with this user code, however it was typed. Throws `Fault("not_found")`. */
  async find(typedCode: string): Promise<DeviceLogin> {
    const { db, clock } = this.#options;
    const userCode = readUserCode(typedCode);
    const row =
      userCode === null
        ? undefined
        : await store.loginByUserCode(db, userCode, new Date(clock.now()));
    if (row === undefined) throw unknownCode();
    return row;
  }

  /**
   * Approves or denies a login in the name of the person, once. Throws `Fault("not_found" |
   * "conflict" | "unauthorized")`.
   */
  async decide(
    typedCode: string,
    answer: { readonly isApproved: boolean; readonly person: PersonCaller; readonly by: By },
  ): Promise<DeviceLogin> {
    const { db, clock } = this.#options;
    const login = await this.find(typedCode);
    const { person, isApproved } = answer;
    const state = isApproved ? "approved" : "denied";
    const decision = { userCode: login.user_code, state, sessionId: person.sessionId } as const;
    return await db.transaction().execute(async (tx) => {
      const decided = await store
        .decideLogin(tx, { ...decision, nowAt: new Date(clock.now()) })
        .catch(refuseEnded);
      if (decided === undefined)
        throw new Fault("conflict", "This code was already approved or denied.");
      await recordDecision(tx, decided, answer);
      return decided;
    });
  }

  /** Returns the tokens of an approved login, once, or else why the device gets none. */
  async redeem(deviceCode: string, by: By): Promise<DeviceTokens | NotYet> {
    const { db, clock, openSession } = this.#options;
    const hash = hashOfDeviceCode(deviceCode);
    if (!this.#polls.tryTake(hash.toString("base64"))) return "slow_down";
    const login = await store.loginByDeviceCode(db, hash);
    if (login === undefined) return "invalid_grant";
    if (login.expires_at.getTime() <= clock.now()) return "expired_token";
    if (login.state === "denied") return "access_denied";
    if (login.state === "waiting") return "authorization_pending";
    const tokens = await db.transaction().execute(async (tx) => {
      // Whatever ends all sessions of a person locks the person first, as is done here. If it comes
      // later, it ends the new session too. If it came earlier, it ended the session in which the
      // login was approved, so that no approved login is found.
      const approver = await store.approverOf(tx, hash);
      if (approver !== undefined) await lockPerson(tx, approver.personId);
      const redeemed = await store.takeApprovedLogin(tx, hash, new Date(clock.now()));
      if (redeemed === undefined) return null;
      return await openSession(tx, { personId: redeemed.personId, by });
    });
    // Another request was faster, or the approval ended while this one waited for the lock.
    return tokens ?? "invalid_grant";
  }
}

/** Records the decision in the audit log of each project in which the device could then act. */
async function recordDecision(
  tx: Tx,
  login: store.DeviceLoginRow,
  { person, isApproved, by }: { person: PersonCaller; isApproved: boolean; by: By },
): Promise<void> {
  const approved = { outcome: "success" } as const;
  const denied = { outcome: "failure", reason: "The person denied the device." } as const;
  const result = isApproved ? approved : denied;
  await recordOfPerson(tx, {
    action: "person.device_approve",
    about: { id: person.personId, email: person.email, name: person.name },
    by,
    ...result,
    changes: { client: { new: login.client }, address: { new: login.address } },
  });
}

function unknownCode(): Fault {
  return new Fault(
    "not_found",
    "No device is showing this code, or the code has expired: codes are valid for ten minutes.",
  );
}

/**
 * Translates the database's error when the session that the login's row refers to is gone: the
 * session has ended since its token was checked.
 */
function refuseEnded(error: unknown): never {
  const isEnded =
    error instanceof Error && "constraint" in error && error.constraint === sessionConstraint;
  throw isEnded ? sessionEnded(error) : error;
}
