// The second step of a sign-in: who has shown the first factor is given a challenge, which is good
// for a few minutes and a few codes.
import { randomBytes } from "node:crypto";
import { Secret } from "#lib/secret.ts";
import type { PersonRow } from "#accounts/account-store.ts";
import type { Tx } from "#store/database.ts";
import type { PeopleParts } from "./people-parts.ts";
import { lockPerson } from "./people-store.ts";
import { insertVerification, verificationOf } from "./verification-store.ts";

/** What is to be sent back together with a code. */
export type Challenge = {
  readonly kind: "two_factor";
  readonly challenge: Secret;
  /** In seconds. */
  readonly expiresIn: number;
};

/** How long the second step of a sign-in may take. */
const challengeSeconds = 600;
const challengeForm = /^2fa-[A-Za-z0-9_-]{32}$/;

/** Makes challenges and finds whose they are. */
export class Challenges {
  readonly #parts: Pick<PeopleParts, "clock">;

  constructor(parts: Pick<PeopleParts, "clock">) {
    this.#parts = parts;
  }

  /** A challenge for the person. */
  async make(tx: Tx, personId: string): Promise<Challenge> {
    const secret = `2fa-${randomBytes(24).toString("base64url")}`;
    const expiresAt = new Date(this.#parts.clock.now() + challengeSeconds * 1000);
    await insertVerification(tx, { secret, value: personId, expiresAt });
    return { kind: "two_factor", challenge: new Secret(secret), expiresIn: challengeSeconds };
  }

  /**
   * Who it is for, locked; null: it is good no more. A changed password takes back those from
   * before.
   */
  async personOf(tx: Tx, challenge: string): Promise<PersonRow | null> {
    if (!challengeForm.test(challenge)) return null;
    const find = () => verificationOf(tx, challenge, new Date(this.#parts.clock.now()));
    const personId = await find();
    const person = personId === undefined ? undefined : await lockPerson(tx, personId);
    return person === undefined || (await find()) === undefined ? null : person;
  }
}
