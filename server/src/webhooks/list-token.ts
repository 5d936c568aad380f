// Tokens that go on where a page of webhooks' lists ended. A token belongs to its list, project and filters: with others,
// or altered, it is refused, so that nobody gets a page with holes without knowing. Pure.
import { Fault } from "#lib/fault.ts";
import { pageCheck } from "#lib/page-check.ts";

type Scope = readonly (string | undefined)[];

const tokenLengthMax = 200;
/** A whole number or a UUID. The check has no secret in it: whoever makes a token of their own gets no further than this. */
const partForm = /^(?:\d{1,16}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$/;

/** Letters, digits, `-` and `_`. `place`: what the list is ordered by. */
export function makeToken(scope: Scope, place: readonly string[]): string {
  return Buffer.from([...place, checkOf(scope, place)].join(" ")).toString("base64url");
}

/** The place that a token names. Throws `Fault("invalid")` when it is none of ours or of another list. */
export function readToken(scope: Scope, token: string): readonly string[] {
  const parts = token.length <= tokenLengthMax ? Buffer.from(token, "base64url").toString("latin1").split(" ") : [];
  const place = parts.slice(0, -1);
  if (place.length > 0 && place.every((part) => partForm.test(part)) && parts.at(-1) === checkOf(scope, place))
    return place;
  throw new Fault(
    "invalid",
    "nextToken is not of this query: take nextToken of its last answer and leave the other parameters as they are",
  );
}

function checkOf(scope: Scope, place: readonly string[]): string {
  return pageCheck([scope.map((part) => part ?? null), place]);
}
