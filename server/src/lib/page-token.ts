// Makes and reads the tokens that continue a list after the end of a page. A token is bound to its
// list and query: it is refused elsewhere or when altered, so that nobody gets a page with gaps
// unnoticed. It grants no rights and contains no secret: a forged token can only name a valid
// cursor.
import { createHash } from "node:crypto";
import { Fault } from "./fault.ts";

/** All parameters of a request for a list except the page size. */
type Query = readonly (string | number | boolean | null | undefined)[];

export type PageTokensOptions<Cursor> = {
  /** The name of the list; null for lines of apps, whose tokens have never named their list. */
  readonly list: string | null;
  /** The sort key of the list: numbers from 0 (ids, times) and UUIDs. */
  readonly cursor: { readonly [Key in keyof Cursor]: "number" | "uuid" };
  /** The name of the next page's token in answers. */
  readonly next: "nextToken" | "nextPageToken";
};

/** A page of a list; `nextToken` is null at the end. */
export type Page<Item> = { readonly items: readonly Item[]; readonly nextToken: string | null };

/**
 * Returns the page of the first `size` of these rows. The caller must have read one row more than
 * `size`, if there is one: that row shows whether another page follows.
 */
export function pageOf<Row>(
  rows: readonly Row[],
  size: number,
  tokenAfter: (last: Row) => string,
): Page<Row> {
  const items = rows.slice(0, size);
  const last = rows.length > size ? items.at(-1) : undefined;
  return { items, nextToken: last === undefined ? null : tokenAfter(last) };
}

/** The latest time of a `Date`, in milliseconds; ids and times in microseconds stay below it. */
const numberMax = 8_640_000_000_000_000;
const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
/** Characters of the hash at the end of a token, which binds it to its list and query. */
const checkLength = 12;

/**
 * The tokens of one list: letters, digits, `-` and `_`, at most 60 characters for a time and a
 * UUID.
 */
export class PageTokens<Cursor extends object> {
  readonly #options: PageTokensOptions<Cursor>;

  constructor(options: PageTokensOptions<Cursor>) {
    this.#options = options;
  }

  /** Returns a token that continues after the cursor. */
  make(query: Query, cursor: Cursor): string {
    const parts = this.#keys.map((key) => cursor[key] as string | number);
    return this.#write(query, parts);
  }

  /**
   * Returns the cursor in a token; null without a token. Throws `Fault("invalid")` for a token of
   * another list or another query.
   */
  read(query: Query, token: string | null): Cursor | null {
    if (token === null) return null;
    // The check at the end may contain a dash itself, so it is cut off by its length, together with
    // the dash before it.
    const texts = token.slice(0, -checkLength - 1).split("-");
    const parts = this.#keys.map((key, index) => this.#part(key, texts[index] ?? ""));
    const isCursor = parts.every((part) =>
      typeof part === "string" ? uuidForm.test(part) : part <= numberMax,
    );
    // Each cursor has exactly one token, so writing the cursor again must give the same token.
    if (isCursor && token === this.#write(query, parts)) {
      return Object.fromEntries(this.#keys.map((key, index) => [key, parts[index]])) as Cursor;
    }
    const advice = `use ${this.#options.next} from its last answer and keep the other parameters the same`;
    throw new Fault("invalid", `nextToken does not belong to this query: ${advice}.`);
  }

  get #keys(): (keyof Cursor)[] {
    return Object.keys(this.#options.cursor) as (keyof Cursor)[];
  }

  /** Reads one part of a cursor from its text in a token. */
  #part(key: keyof Cursor, text: string): string | number {
    if (this.#options.cursor[key] === "number") return Number.parseInt(text, 36);
    // Tokens contain UUIDs without their dashes, which are put back here.
    return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }

  /** Writes the parts of a cursor (numbers in base 36, UUIDs without dashes) and the check. */
  #write(query: Query, parts: readonly (string | number)[]): string {
    const { list } = this.#options;
    const names = list === null ? [] : [list];
    const values = query.map((value) => value ?? null);
    const content = [...names, ...parts, ...values];
    const check = createHash("sha256")
      .update(JSON.stringify(content))
      .digest("base64url")
      .slice(0, checkLength);
    const texts = parts.map((part) =>
      typeof part === "number" ? part.toString(36) : part.replaceAll("-", ""),
    );
    return [...texts, check].join("-");
  }
}

/** Returns the tokens of a list that is sorted by number alone. */
export function numberTokens(list: string): PageTokens<{ readonly number: number }> {
  return new PageTokens<{ readonly number: number }>({
    list,
    cursor: { number: "number" },
    next: "nextToken",
  });
}
