// Tokens that go on where a page of app logs ended. A token belongs to its app, direction and filters: with others, or
// altered, it is refused, so that nobody gets a page with holes without knowing.
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import { pageCheck } from "#lib/page-check.ts";
import type { AppLineFilter, Place } from "./app-log-store.ts";

/** What a token is bound to. */
export type TokenScope = AppLineFilter & { readonly appId: AppId; readonly direction: "forward" | "backward" };

/** The last time that a Date can hold, in milliseconds since the epoch. */
const timeMax = 8_640_000_000_000_000;
const tokenForm = /^([0-9a-z]{1,11})-([0-9a-z]{1,11})-([\w-]{12})$/;

/** Letters, digits, `-` and `_`; at most 40 characters. */
export function makePageToken(scope: TokenScope, place: Place): string {
  return `${place.at.toString(36)}-${place.id.toString(36)}-${checkOf(scope, place)}`;
}

/** The place that a token names. Throws a fault when it is none of ours or of another query. */
export function readPageToken(scope: TokenScope, token: string): Place {
  const [, at = "", id = "", check = ""] = tokenForm.exec(token) ?? [];
  const place = { at: Number.parseInt(at, 36), id: Number.parseInt(id, 36) };
  // Whoever makes a token of their own must not name a place that there cannot be.
  const isPlace = place.at <= timeMax && Number.isSafeInteger(place.id);
  if (isPlace && check !== "" && check === checkOf(scope, place)) return place;
  throw new Fault(
    "invalid",
    "nextToken is not of this query: take nextPageToken of its last answer and leave the other parameters as they are",
  );
}

function checkOf(scope: TokenScope, place: Place): string {
  const { appId, direction, container, afterDate, beforeDate, search, stream, runId } = scope;
  const bound = [appId, direction, container, afterDate, beforeDate, search, stream, runId].map(
    (value) => value ?? null,
  );
  return pageCheck([place.at, place.id, ...bound]);
}
