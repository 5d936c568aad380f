// What the providers of DNS have in common: requests in JSON with a token, and the search for the
// zone that holds a name.
import { oneLine } from "#lib/one-line.ts";
import type { Clock } from "#lib/clock.ts";
import type { Secret } from "#lib/secret.ts";
import { AuthorityError } from "./authority.ts";
import { zonesOf } from "./dns-records.ts";
import { requestServer } from "./server-request.ts";

export type DnsApiOptions = {
  /** The address of the interface, without a slash at its end. Only tests set it. */
  readonly url?: string;
  readonly token: Secret;
  readonly clock: Clock;
};

type Answer = { readonly status: number; readonly data: unknown };

/** How many characters of an answer are shown in the reason of a failure. */
const reasonLengthMax = 300;

/** The interface of one provider. */
export class DnsApi {
  readonly #url: string;
  readonly #options: DnsApiOptions;

  constructor(url: string, options: DnsApiOptions) {
    this.#url = options.url ?? url;
    this.#options = options;
  }

  /** Sends a request; rejects with `AuthorityError` unless it succeeds or is answered with 404. */
  async send(method: string, path: string, body: object | null = null): Promise<Answer> {
    const { token, clock } = this.#options;
    const sent = {
      url: `${this.#url}${path}`,
      method,
      headers: {
        authorization: `Bearer ${token.reveal()}`,
        accept: "application/json",
        ...(body === null ? {} : { "content-type": "application/json" }),
      },
      body: body === null ? null : JSON.stringify(body),
    };
    const { status, text } = await requestServer(sent, { clock, trusted: null });
    if (status >= 400 && status !== 404) {
      const reason = oneLine(text).slice(0, reasonLengthMax);
      throw new AuthorityError(
        `the provider of DNS answered ${method} ${path} with ${status}: ${reason}`,
      );
    }
    return { status, data: parsed(text) };
  }

  /**
   * Calls `find` with each zone that may hold the name, the longest first, and returns the first
   * result that is not null. Throws `AuthorityError` when there is none.
   */
  async zoneOf<Zone>(name: string, find: (zone: string) => Promise<Zone | null>): Promise<Zone> {
    for (const zone of zonesOf(name)) {
      const found = await find(zone);
      if (found !== null) return found;
    }
    throw new AuthorityError(
      `the provider of DNS has no zone for ${name}, or hides it from the token`,
    );
  }
}

/** The value of a JSON text; null: the text is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
