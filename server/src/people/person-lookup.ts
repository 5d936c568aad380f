// What an access token of a person gives: while its session lasts, the roles that the person has
// now.
import type { PersonClaims } from "#accounts/token-claims.ts";
import type { Lookup } from "#accounts/token-lookup.ts";
import type { Db } from "#store/database.ts";
import { membershipsOf, personById, sessionById } from "./people-store.ts";

/** Looks at the session's row, the person's and their memberships. */
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
