// Tokens that go on where a page of the audit log ended. A token belongs to its project and its filters: with others, or
// altered, it is refused, so that nobody gets a page with holes without knowing.
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { pageCheck } from "#lib/page-check.ts";
import type { EntryPlace } from "./audit-store.ts";
import type { Instant } from "./instant.ts";

/** What a token is bound to: all that the caller wished but the size of the page. */
export type AuditTokenScope = {
  readonly projectId: ProjectId;
  readonly from: Instant | null;
  readonly to: Instant | null;
  readonly action: string | null;
  readonly actorId: string | null;
  readonly outcome: string | null;
};

const tokenForm = /^([0-9a-z]{1,11})-([0-9a-z]{1,11})-([\w-]{12})$/;

/** Letters, digits, `-` and `_`; at most 36 characters. */
export function makeAuditToken(scope: AuditTokenScope, place: EntryPlace): string {
  return `${place.atMicros.toString(36)}-${place.id.toString(36)}-${checkOf(scope, place)}`;
}

/** The place that a token names. Throws `Fault("invalid")` when it is none of ours or of another query. */
export function readAuditToken(scope: AuditTokenScope, token: string): EntryPlace {
  const [, at = "", id = "", check = ""] = tokenForm.exec(token) ?? [];
  const place = { atMicros: Number.parseInt(at, 36), id: Number.parseInt(id, 36) };
  // The check has no secret in it: whoever makes a token of their own must not name a place that there cannot be.
  const isPlace = Number.isSafeInteger(place.atMicros) && Number.isSafeInteger(place.id);
  if (isPlace && token === makeAuditToken(scope, place) && check !== "") return place;
  throw new Fault(
    "invalid",
    "nextToken is not of this query: take nextPageToken of its last answer and leave the other parameters as they are.",
  );
}

function checkOf({ projectId, from, to, action, actorId, outcome }: AuditTokenScope, place: EntryPlace): string {
  const times = [from, to].map((time) => (time === null ? null : `${time.micros}.${time.rest}`));
  return pageCheck(["audit", place.atMicros, place.id, projectId, ...times, action, actorId, outcome]);
}
