// What browsers are told of the session's cookie.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Fault } from "#lib/fault.ts";
import { Secret } from "#lib/secret.ts";
import {
  clearSessionCookie,
  requireOwnPage,
  sessionCookie,
  setSessionCookie,
} from "./session-cookie.ts";

/** As much of an answer as setting a header needs. */
function lineOf(set: (reply: FastifyReply) => void): string {
  const lines: string[] = [];
  set({
    header: (_name: string, line: string) => void lines.push(line),
  } as unknown as FastifyReply);
  return lines.join("\n");
}

function asking(headers: Record<string, string>): FastifyRequest {
  return { headers } as unknown as FastifyRequest;
}

test("behind https the cookie is for https only, by its name too, and is read by that name", () => {
  const baseUrl = "https://slipway.example.test";
  const line = lineOf((reply) => setSessionCookie(reply, new Secret("value"), baseUrl));
  assert.equal(
    line,
    "__Secure-slipway_session=value; Path=/v2/auth; Max-Age=2592000; HttpOnly; SameSite=Strict; Priority=High; Secure",
  );
  const gone = lineOf((reply) => clearSessionCookie(reply, baseUrl));
  assert.match(gone, /^__Secure-slipway_session=; .*Max-Age=0;.*Secure$/);
  const cookie = "other=1; __Secure-slipway_session=value; slipway_session=planted";
  assert.equal(sessionCookie(asking({ cookie }), baseUrl), "value");
  assert.equal(sessionCookie(asking({ cookie: "slipway_session=planted" }), baseUrl), null);
});

const baseUrl = "https://slipway.example.test";
const taken = [
  {},
  { origin: "https://slipway.example.test" },
  { origin: "http://10.0.0.1:7070", host: "10.0.0.1:7070" },
  { "sec-fetch-site": "same-origin", origin: "https://slipway.example.test" },
  { "sec-fetch-site": "none" },
];
const refused = [
  { origin: "https://slipway.example.test.evil.example" },
  { origin: "http://slipway.example.test", host: "slipway.example" },
  { origin: "null", host: "slipway.example.test" },
  { origin: "", host: "" },
  { "sec-fetch-site": "cross-site", origin: "https://slipway.example.test" },
  { "sec-fetch-site": "same-site" },
  { "sec-fetch-site": "" },
];

for (const headers of taken) {
  test(`a request with ${JSON.stringify(headers)} may come from a page of the platform`, () => {
    requireOwnPage(asking(headers), baseUrl);
  });
}

for (const headers of refused) {
  test(`a request with ${JSON.stringify(headers)} comes from elsewhere`, () => {
    assert.throws(() => requireOwnPage(asking(headers as Record<string, string>), baseUrl), Fault);
  });
}
