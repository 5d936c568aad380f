// Requests as the published command-line client sends them, to the byte where it matters: its
// headers on every request, the double slash of a base URL that ends with one, nulls and lists in
// the payload of a deployment, an upload without a token. What it reads of answers is checked as
// strictly as it does: times are RFC 3339, some numbers are integers and some texts.
import assert from "node:assert/strict";
import { request as httpRequest } from "node:http";
import type { Json } from "./management-api.ts";

export type Answered = {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: Json;
};

type Asked = {
  readonly body?: unknown;
  /** Sent as they are. */
  readonly bytes?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
};

/** With the token of a service account, as from its environment variable. */
export class PublishedClient {
  readonly #baseUrl: string;
  readonly #token: string | null;

  constructor(given: { readonly baseUrl: string; readonly token: string | null }) {
    this.#baseUrl = given.baseUrl;
    this.#token = given.token;
  }

  /** The base URL ends with a slash, and the path begins with one. */
  async ask(method: string, path: string, { body, headers }: Asked = {}): Promise<Answered> {
    return await send(method, `${this.#baseUrl}/${path}`, {
      ...(body === undefined ? {} : { bytes: Buffer.from(JSON.stringify(body)) }),
      headers: {
        "content-type": "application/json",
        "x-source": "cli",
        "x-cli-version": "2.1.4",
        "x-client-os": "linux",
        "x-client-arch": "amd64",
        ...(this.#token === null ? {} : { authorization: `Bearer ${this.#token}` }),
        ...headers,
      },
    });
  }
}

/** One request without a token, unless a header has one. */
export async function send(
  method: string,
  url: string,
  { bytes, headers = {} }: Asked = {},
): Promise<Answered> {
  const length = bytes === undefined ? {} : { "content-length": String(bytes.length) };
  return await new Promise((resolve, reject) => {
    const request = httpRequest(
      url,
      { method, headers: { "user-agent": "Go-http-client/1.1", ...length, ...headers } },
      (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => void parts.push(part));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(parts).toString();
          const isJson = String(response.headers["content-type"]).startsWith("application/json");
          const { statusCode: status = 0, headers: answered } = response;
          resolve({
            status,
            headers: answered,
            body: isJson && text !== "" ? JSON.parse(text) : text,
          });
        });
      },
    );
    request.on("error", reject);
    request.end(bytes);
  });
}

/** Builds end for the client in these states only; in any other it asks on. */
export const endedBuilds = [
  "success",
  "ready",
  "build_failure",
  "init_failure",
  "failure",
  "cancelled",
  "init_timeout",
];

const timeForm = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})$/;

/** The fields that the client parses as times; null is fine where it may be absent, "" never. */
export function assertTimes(
  record: Json,
  names: readonly string[],
  { areNullable = false } = {},
): void {
  for (const name of names) {
    if (areNullable && (record[name] === null || record[name] === undefined)) continue;
    assert.match(String(record[name]), timeForm, `${name} of ${JSON.stringify(record)}`);
  }
}

/** The fields that the client parses as integers, or gives up on the whole answer. */
export function assertIntegers(record: Json, names: readonly string[]): void {
  for (const name of names)
    assert.ok(Number.isSafeInteger(record[name]), `${name} of ${JSON.stringify(record)}`);
}

/** The fields that the client parses as texts. */
export function assertTexts(record: Json, names: readonly string[]): void {
  for (const name of names)
    assert.equal(typeof record[name], "string", `${name} of ${JSON.stringify(record)}`);
}
