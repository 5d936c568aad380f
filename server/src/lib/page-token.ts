// Tokens that go on where a page of a list ended. A token belongs to its list and to the query: with another one, or altered,
// it is refused, so that nobody gets a page with holes without knowing. It gives no right to anything and holds no secret,
// so whoever makes one still has to name a place that there can be.
import { createHash } from "node:crypto";
import { Fault } from "./fault.ts";

/** What the caller wished of the list but the size of the page. */
type Query = readonly (string | number | boolean | null | undefined)[];

export type PageTokensOptions<Cursor> = {
  /** Null: lines of apps, whose tokens named no list from the first. */
  readonly list: string | null;
  /** What the list is ordered by: numbers from 0 (ids, times), and UUIDs. */
  readonly cursor: { readonly [Key in keyof Cursor]: "number" | "uuid" };
  /** What answers call the token of the next page. */
  readonly next: "nextToken" | "nextPageToken";
};

/** The last time that a Date can hold, in milliseconds; ids and times in microseconds do not come so far. */
const numberMax = 8_640_000_000_000_000;
const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
const checkLength = 12;

/** The tokens of one list. They are letters, digits, `-` and `_`, at most 60 for a time and a UUID. */
export class PageTokens<Cursor extends object> {
  readonly #options: PageTokensOptions<Cursor>;

  constructor(options: PageTokensOptions<Cursor>) {
    this.#options = options;
  }

  /** Goes on behind the place. */
  make(query: Query, cursor: Cursor): string {
    const parts = this.#keys.map((key) => cursor[key] as string | number);
    return this.#write(query, parts);
  }

  /** The place that a token names. Throws `Fault("invalid")` when it is none of ours or of another query. */
  read(query: Query, token: string): Cursor {
    const texts = token.slice(0, -checkLength - 1).split("-");
    const parts = this.#keys.map((key, index) => this.#part(key, texts[index] ?? ""));
    const isPlace = parts.every((part) => (typeof part === "string" ? uuidForm.test(part) : part <= numberMax));
    // Written again, it must be the same: there is one token for each place.
    if (isPlace && token === this.#write(query, parts)) {
      return Object.fromEntries(this.#keys.map((key, index) => [key, parts[index]])) as Cursor;
    }
    const advice = `use ${this.#options.next} from its last answer and keep the other parameters the same`;
    throw new Fault("invalid", `nextToken does not belong to this query: ${advice}.`);
  }

  get #keys(): (keyof Cursor)[] {
    return Object.keys(this.#options.cursor) as (keyof Cursor)[];
  }

  #part(key: keyof Cursor, text: string): string | number {
    if (this.#options.cursor[key] === "number") return Number.parseInt(text, 36);
    return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  }

  #write(query: Query, parts: readonly (string | number)[]): string {
    const { list } = this.#options;
    const bound = [...(list === null ? [] : [list]), ...parts, ...query.map((one) => one ?? null)];
    const check = createHash("sha256").update(JSON.stringify(bound)).digest("base64url").slice(0, checkLength);
    const texts = parts.map((part) => (typeof part === "number" ? part.toString(36) : part.replaceAll("-", "")));
    return [...texts, check].join("-");
  }
}
