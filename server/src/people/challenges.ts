// The second step of a sign-in: who has shown the first factor is given a challenge, which is good for a few minutes and
// a few codes. better-auth keeps and counts it; only a hash of it is in the database.
import { randomBytes } from "node:crypto";
import { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { challengeSeconds } from "./auth.ts";
import type { PeopleParts } from "./people-parts.ts";

/** What is to be sent back together with a code. */
export type Challenge = {
  readonly kind: "two_factor";
  readonly challenge: Secret;
  /** In seconds. */
  readonly expiresIn: number;
};

/** Makes challenges. */
export class Challenges {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /** A challenge for the person, under the names that better-auth's check of codes looks for. */
  async make(tx: Tx, personId: string): Promise<Challenge> {
    const { auth, clock, scoped } = this.#parts;
    const { internalAdapter } = await auth().$context;
    const identifier = `2fa-${randomBytes(24).toString("base64url")}`;
    const expiresAt = new Date(clock.now() + challengeSeconds * 1000);
    await scoped.within(tx, async () => {
      await internalAdapter.createVerificationValue({ identifier, value: personId, expiresAt });
      const attempts = `2fa-attempts-${identifier}`;
      await internalAdapter.createVerificationValue({ identifier: attempts, value: "0", expiresAt });
    });
    return { kind: "two_factor", challenge: new Secret(identifier), expiresIn: challengeSeconds };
  }
}
