// Pages of lists: what a request asks for, and the answer of the lists that have `items`.
import type { Page } from "#lib/page-token.ts";
import type { ApiCall } from "./call.ts";

/** The page that a request asks for. The contract has validated the types of the values. */
export function pageWanted({ query }: ApiCall): { readonly pageSize: number; readonly nextToken: string | null } {
  return { pageSize: Number(query["pageSize"]), nextToken: query["nextToken"] as string | null };
}

/** The page after a row with a number. The contract has validated the types of the values. */
export function pageBefore({ query }: ApiCall): { readonly size: number; readonly before: number | null } {
  return { size: Number(query["pageSize"]), before: query["nextToken"] === null ? null : Number(query["nextToken"]) };
}

/** The answer; `nextToken` is absent at the end. */
export function showPage<Item, Shown>({ items, nextToken }: Page<Item>, show: (item: Item) => Shown) {
  return { items: items.map(show), ...(nextToken === null ? {} : { nextToken }) };
}
