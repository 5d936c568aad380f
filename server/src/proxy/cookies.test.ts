// Cookies between browsers and apps: an app's reach its own path only, and the platform's reach no
// app.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cookieLines, cookiesOfApp, withoutOwnCookies } from "./cookies.ts";

const own = "/v4/dev-p-00000001/my-app";

const bound: readonly (readonly [string, string])[] = [
  ["a=b", `a=b; Path=${own}`],
  ["a=b; Path=/", `a=b; Path=${own}`],
  ["a=b;path=/;HttpOnly;Secure", `a=b; Path=${own};HttpOnly;Secure`],
  ["a=b; PATH = /inner ; SameSite=Lax", `a=b; Path=${own}/inner; SameSite=Lax`],
  ["a=b; Path=/v2/auth", `a=b; Path=${own}/v2/auth`],
  [`a=b; Path=${own}/x`, `a=b; Path=${own}/x`],
  [`a=b; Path=${own}`, `a=b; Path=${own}`],
  [`a=b; Path=${own}-2`, `a=b; Path=${own}${own}-2`],
  ["a=b; Path=relative", `a=b; Path=${own}`],
  ["a=b; Path", `a=b; Path=${own}`],
  [`a=b; Path=${own}; Path=/`, `a=b; Path=${own}`],
  ["a=b; Path=/; Path=/x", `a=b; Path=${own}/x`],
  ["a=b; Domain=example.test; domain=.test;\tDOMAIN = x", `a=b; Path=${own}`],
  ["a=b; Priority=High; Max-Age=5", `a=b; Path=${own}; Max-Age=5`],
  [
    "a=b; Expires=Wed, 21 Oct 2099 07:28:00 GMT",
    `a=b; Path=${own}; Expires=Wed, 21 Oct 2099 07:28:00 GMT`,
  ],
  // Browsers ignore a path that is longer than 1,024 characters, and take the one of the request.
  [`a=b; Path=/${"x".repeat(1_000)}`, `a=b; Path=${own}`],
  // They read sixteen attributes.
  [`a=b${";x".repeat(20)};Path=/`, `a=b; Path=${own}${";x".repeat(20)}`],
  ["", `; Path=${own}`],
];

for (const [given, expected] of bound) {
  const shown = given.length > 60 ? `${given.slice(0, 60)}…` : given;
  test(`an app's cookie "${shown}" is bound to the app's path`, () => {
    assert.deepEqual(cookiesOfApp([given], own), [expected]);
  });
}

test("no cookie of an app has a name of the platform's", () => {
  const given = [
    "slipway_session=x",
    "SLIPWAY.state=x",
    "__Secure-slipway_device=x",
    "=slipway_session=x",
    " __host-slipway_a=x",
  ];
  assert.deepEqual(cookiesOfApp([...given, "slipways=x"], own), [`slipways=x; Path=${own}`]);
  assert.equal(
    cookieLines(cookiesOfApp(["a=1", "b=2"], own)),
    `Set-Cookie: a=1; Path=${own}\r\nSet-Cookie: b=2; Path=${own}\r\n`,
  );
  assert.deepEqual(cookiesOfApp(null, own), []);
});

test("on a host name of its own an app chooses the paths of its cookies, but no other host", () => {
  const given = [
    "a=1",
    "b=2; Path=/",
    "c=3; Path=/x; Domain=localhost; Secure",
    `d=4; Path=/${"x".repeat(1_100)}`,
    "e=5; Path=x",
  ];
  const expected = [
    "a=1; Path=/",
    "b=2; Path=/",
    "c=3; Path=/x; Secure",
    "d=4; Path=/",
    "e=5; Path=/",
  ];
  assert.deepEqual(cookiesOfApp(given, ""), expected);
});

test("an app is sent all cookies but the platform's", () => {
  const cookies =
    'a=1; slipway_session=secret; b="2"; __Secure-slipway_device=secret;slipway.state=secret';
  assert.equal(withoutOwnCookies(cookies), 'a=1; b="2"');
  assert.equal(withoutOwnCookies("slipway_session=secret"), "");
  assert.equal(withoutOwnCookies("a=1;  b=slipway_session"), "a=1;  b=slipway_session");
});
