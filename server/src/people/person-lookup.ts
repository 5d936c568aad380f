// Finds the caller behind a person's access token. While the token's session lasts, the caller has
// the roles that the person has now.
import type { PersonClaims } from "#accounts/token-claims.ts";
import type { Lookup } from "#accounts/token-lookup.ts";
import type { Db } from "#store/database.ts";
import { membershipsOf, personById, sessionById } from "./people-store.ts";

/** Reads the session, the person and the person's memberships. */
export function personLookup(db: Db): Lookup<PersonClaims> {
  return async ({ personId, sessionId, expiresAtMs }) => {
    const session = await sessionById(db, sessionId);
    if (session === undefined || session.person_id !== personId) return null;
    const person = await personById(db, personId);
    if (person === undefined) return null;
    const memberships = await membershipsOf(db, personId);
    const roles = new Map(memberships.map(({ projectId, role }) => [projectId, role]));
    const { email, name } = person;
    const caller = {
      kind: "person",
      personId,
      sessionId,
      email,
      name,
      roles,
      projectId: null,
    } as const;
    return { caller, expiresAtMs: Math.min(expiresAtMs, session.expires_at.getTime()) };
  };
}
