// Tokens that go on where a page of runs ended. A token belongs to its app and its filters: with others, or altered, it
// is refused, so that nobody gets a page with holes without knowing.
import { Fault } from "#lib/fault.ts";
import type { AppId, RunId } from "#lib/ids.ts";
import { pageCheck } from "#lib/page-check.ts";

/** A run's place in the order of time; microseconds since the epoch, as exact as the database keeps them. */
export type RunPlaceInTime = { readonly atMicros: number; readonly id: RunId };

/** What a token is bound to. */
export type RunTokenScope = {
  readonly list: "runs" | "dead";
  readonly appId: AppId;
  readonly asyncOnly: boolean;
  readonly status: string | null;
};

const tokenForm = /^([0-9a-z]{1,12})-([0-9a-f]{32})-([\w-]{12})$/;

/** Letters, digits, `-` and `_`; at most 60 characters. */
export function makeRunToken(scope: RunTokenScope, place: RunPlaceInTime): string {
  return `${place.atMicros.toString(36)}-${place.id.replaceAll("-", "")}-${checkOf(scope, place)}`;
}

/** The place that a token names. Throws `Fault("invalid")` when it is none of ours or of another query. */
export function readRunToken(scope: RunTokenScope, token: string): RunPlaceInTime {
  const [, at = "", hex = "", check = ""] = tokenForm.exec(token) ?? [];
  const id = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as RunId;
  const place = { atMicros: Number.parseInt(at, 36), id };
  // The check has no secret in it: whoever makes a token of their own must not name a time that there is not.
  if (Number.isSafeInteger(place.atMicros) && check !== "" && check === checkOf(scope, place)) return place;
  const message =
    "nextToken is not of this query: take nextToken of its last answer and leave asyncOnly and status as they are.";
  throw new Fault("invalid", message);
}

function checkOf({ list, appId, asyncOnly, status }: RunTokenScope, place: RunPlaceInTime): string {
  return pageCheck([list, place.atMicros, place.id, appId, asyncOnly, status]);
}
