// The second step of a sign-in. After the first factor, a person gets a challenge, which is valid
// for a few minutes and a few codes.
import { randomBytes } from "node:crypto";
import { Secret } from "#lib/secret.ts";
import type { PersonRow } from "#accounts/account-store.ts";
import type { Tx } from "#store/database.ts";
import type { PeopleParts } from "./people-parts.ts";
import { lockPerson } from "./people-store.ts";
import { insertVerification, verificationOf } from "./verification-store.ts";

/** The answer to the first step; the client sends the challenge back together with a code. */
export type Challenge = {
  readonly kind: "two_factor";
  readonly challenge: Secret;
  /** The time until the challenge expires, in seconds. */
  readonly expiresIn: number;
};

/** How long the second step of a sign-in may take. */
const challengeSeconds = 600;
/** A challenge: the prefix, and 24 bytes, which have 32 letters in base64url. */
const challengeForm = /^2fa-[A-Za-z0-9_-]{32}$/;

/** Creates challenges, and finds the person of a challenge. */
export class Challenges {
  readonly #parts: Pick<PeopleParts, "clock">;

  constructor(parts: Pick<PeopleParts, "clock">) {
    this.#parts = parts;
  }

  /** Creates a challenge for the person. */
  async make(tx: Tx, personId: string): Promise<Challenge> {
    const secret = `2fa-${randomBytes(24).toString("base64url")}`;
    const expiresAt = new Date(this.#parts.clock.now() + challengeSeconds * 1000);
    await insertVerification(tx, { secret, value: personId, expiresAt });
    return { kind: "two_factor", challenge: new Secret(secret), expiresIn: challengeSeconds };
  }

  /**
   * Locks and returns the person of a challenge; null: the challenge is invalid, has expired, or
   * was deleted when the person's password changed.
   */
  async personOf(tx: Tx, challenge: string): Promise<PersonRow | null> {
    if (!challengeForm.test(challenge)) return null;
    const find = () => verificationOf(tx, challenge, new Date(this.#parts.clock.now()));
    const personId = await find();
    if (personId === undefined) return null;
    const person = await lockPerson(tx, personId);
    // The challenge may have been deleted while this call waited for the lock.
    const isStillValid = (await find()) !== undefined;
    return person === undefined || !isStillValid ? null : person;
  }
}
