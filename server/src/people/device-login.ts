// Device login (as RFC 8628 has it): a command line gets two codes, a person who is signed in
// compares the short one and approves, and the command line gets a session of its own for the long
// one, once. Decision 0025 says why these rows are ours. Codes last ten minutes; how many wait is
// bounded.
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

const sessionConstraint = "device_logins_session_id_fkey";

/** What a new session is used with. */
export type DeviceTokens = { readonly accessToken: Secret; readonly refreshToken: Secret };

export type DeviceLoginsOptions = Pick<Foundation, "db" | "clock"> & {
  /** Opens a session of the person within the transaction, and records the sign-in. */
  readonly openSession: (
    tx: Tx,
    opening: { readonly personId: string; readonly by: By },
  ) => Promise<DeviceTokens>;
};

/** What begins a device login. */
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

/** Why a device gets no tokens (yet); the names are those of RFC 8628, 3.5, and RFC 6749, 5.2. */
export type NotYet =
  | "authorization_pending"
  | "slow_down"
  | "access_denied"
  | "expired_token"
  | "invalid_grant";

const lifeMs = 10 * 60_000;
const intervalSeconds = 1;
/** The minimum time between two polls: existing clients ignore the interval that they get. */
const askedAgainMs = 200;
/** For how long a device that comes too late gets the answer that its code has expired. */
const rememberedMs = 60 * 60_000;
const openMax = 10_000;
const removedAtOnceMax = 1_000;
const clientLengthMax = 200;
/** Two codes that are alike among 10,000 of 20^8 come once in a million times. */
const triesMax = 5;

/** Device logins. All state is in the database, so that any platform on it can answer any step. */
export class DeviceLogins {
  readonly #options: DeviceLoginsOptions;
  /** By the hash of a device code. Only for telling who asks too often. */
  readonly #asks: RateLimit;

  constructor(options: DeviceLoginsOptions) {
    this.#options = options;
    this.#asks = new RateLimit({ max: 1, windowMs: askedAgainMs, clock: options.clock });
  }

  /** Begins one. Throws `Fault("rate_limited")` when too many wait on the whole platform. */
  async begin(device: {
    readonly client: string;
    readonly address: string | null;
  }): Promise<BegunLogin> {
    const { db, clock } = this.#options;
    const now = clock.now();
    await store.removeEndedLogins(db, {
      before: new Date(now - rememberedMs),
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
        expires_at: new Date(now + lifeMs),
      });
      if (isAdded)
        return { deviceCode, userCode, expiresInSeconds: lifeMs / 1000, intervalSeconds };
    }
    throw new Error("no user code was free");
  }

  /** What shows this code, however it was typed. Throws `Fault("not_found")`. */
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
   * Approves or denies it as the person, once. Throws `Fault("not_found" | "conflict" |
   * "unauthorized")`.
   */
  async decide(
    typedCode: string,
    answer: { readonly isApproved: boolean; readonly person: PersonCaller; readonly by: By },
  ): Promise<DeviceLogin> {
    const { db, clock } = this.#options;
    const found = await this.find(typedCode);
    const { person, isApproved } = answer;
    const state = isApproved ? "approved" : "denied";
    const decision = { userCode: found.user_code, state, sessionId: person.sessionId } as const;
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

  /** The tokens of a login that was approved, once; else why there are none. */
  async redeem(deviceCode: string, by: By): Promise<DeviceTokens | NotYet> {
    const { db, clock, openSession } = this.#options;
    const hash = hashOfDeviceCode(deviceCode);
    if (!this.#asks.tryTake(hash.toString("base64"))) return "slow_down";
    const login = await store.loginByDeviceCode(db, hash);
    if (login === undefined) return "invalid_grant";
    if (login.expires_at.getTime() <= clock.now()) return "expired_token";
    if (login.state === "denied") return "access_denied";
    if (login.state === "waiting") return "authorization_pending";
    const tokens = await db.transaction().execute(async (tx) => {
      // Who ends all sessions of the person takes this lock first, and the approval goes with the
      // session: before or behind.
      const approver = await store.approverOf(tx, hash);
      if (approver !== undefined) await lockPerson(tx, approver.personId);
      const taken = await store.takeApprovedLogin(tx, hash, new Date(clock.now()));
      return taken === undefined ? null : await openSession(tx, { personId: taken.personId, by });
    });
    return tokens ?? "invalid_grant";
  }
}

/** Into the log of each project that the device could act in from now on. */
async function recordDecision(
  tx: Tx,
  login: store.DeviceLoginRow,
  { person, isApproved, by }: { person: PersonCaller; isApproved: boolean; by: By },
): Promise<void> {
  const outcome = isApproved
    ? ({ outcome: "success" } as const)
    : ({ outcome: "failure", reason: "The person denied the device." } as const);
  await recordOfPerson(tx, {
    action: "person.device_approve",
    about: { id: person.personId, email: person.email, name: person.name },
    by,
    ...outcome,
    changes: { client: { new: login.client }, address: { new: login.address } },
  });
}

function unknownCode(): Fault {
  return new Fault(
    "not_found",
    "No device is showing this code, or the code has expired: codes are valid for ten minutes.",
  );
}

/** The session ended after its token was checked: the row refers to it. */
function refuseEnded(error: unknown): never {
  const isEnded =
    error instanceof Error && "constraint" in error && error.constraint === sessionConstraint;
  throw isEnded ? sessionEnded(error) : error;
}
