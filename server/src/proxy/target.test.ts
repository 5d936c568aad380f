// From the target of a request to the app that it is for and what its replica is asked for.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "#lib/fault.ts";
import { isCallPath, originForm, readTarget } from "./target.ts";

function read(url: string) {
  const target = readTarget(originForm(url), null);
  return target instanceof Fault ? `${target.code}: ${target.message}` : target;
}

/** Why the target is refused; empty when it is not. */
function refusalOf(url: string): string {
  const target = read(url);
  return typeof target === "string" ? target : "";
}

function pathOf(url: string): string {
  const target = read(url);
  return typeof target === "string" ? target : target.path;
}

test("project, app and the rest of the path are told apart", () => {
  assert.deepEqual(read("/v4/p-1/hello/run"), {
    projectId: "p-1",
    appName: "hello",
    path: "/run",
    isAsync: false,
    webhookEndpoint: null,
    hasOwnHost: false,
  });
  assert.equal(pathOf("/v4/p-1/hello"), "/");
  assert.equal(pathOf("/v4/p-1/hello/"), "/");
  assert.equal(pathOf("/v4/p-1/hello?a=1"), "/?a=1");
  assert.equal(pathOf("/v4/p-1/hello/chat/completions?a=1&b"), "/chat/completions?a=1&b");
});

test("slashes before the app's own path count as one, its own stay", () => {
  assert.equal(pathOf("//v4//p-1///hello////run"), "/run");
  assert.equal(pathOf("/v4/p-1/hello/a//b///"), "/a//b///");
});

test("scheme and host of a client that speaks to a proxy are left out", () => {
  assert.equal(pathOf("http://example.test:7070/v4/p-1/hello/run?x=http://y/"), "/run?x=http://y/");
  assert.equal(originForm("HTTPS://example.test"), "");
});

test("the rest is kept byte for byte", () => {
  const rest = "/%2F%2e%2E/../a%20b+c;d=e:@!$&'()*,~|^`{}\"<>\\";
  assert.equal(pathOf(`/v4/p-1/hello${rest}?%61sync=true&q=%zz#f`), `${rest}?%61sync=true&q=%zz#f`);
});

test("a path that names no app is not found", () => {
  for (const url of ["/v4/", "/v4", "/v4/p-1", "/v4//", "/v4/p-1/", "/v4/?p-1/hello"]) {
    assert.match(refusalOf(url), /^not_found: /, url);
  }
});

test("only what begins with /v4/ is a call", () => {
  for (const url of ["/v4/p/a/run", "//v4/p/a", "/v4", "http://host/v4/p/a"])
    assert.ok(isCallPath(originForm(url)), url);
  for (const url of ["/v2/v4/", "/v40/p/a", "/", "/healthz", "*", "v4/p/a"])
    assert.ok(!isCallPath(originForm(url)), url);
});

test("async and webhookEndpoint are the platform's, in any place, and are not passed on", () => {
  const target = read(
    "/v4/p-1/hello/run?a=1&async=true&b=%20&webhookEndpoint=https%3A%2F%2Fx.test%2F%3Fy%3D1&c",
  );
  assert.deepEqual(target, {
    projectId: "p-1",
    appName: "hello",
    path: "/run?a=1&b=%20&c",
    isAsync: true,
    webhookEndpoint: "https://x.test/?y=1",
    hasOwnHost: false,
  });
  assert.equal(pathOf("/v4/p-1/hello/run?async=false"), "/run");
});

test("names that only hold those words are passed on", () => {
  assert.equal(
    pathOf("/v4/p-1/hello/run?asynchronous=1&my_async=2"),
    "/run?asynchronous=1&my_async=2",
  );
});

test("an async that is neither true nor false is refused and named", () => {
  for (const value of ["", "1", "yes", "tru", "True", "FALSE", "true%20"]) {
    assert.equal(
      read(`/v4/p-1/hello/run?async=${value}`),
      `invalid: async must be true or false; given: "${value}"`,
    );
  }
  assert.match(
    refusalOf("/v4/p-1/hello/run?async=true&async=false"),
    /^invalid: async is given twice/,
  );
  assert.match(
    refusalOf("/v4/p-1/hello/run?webhookEndpoint=%E0%A4%A"),
    /^invalid: webhookEndpoint must be/,
  );
  assert.match(
    refusalOf("/v4/p-1/hello/run?webhookEndpoint=a&webhookEndpoint=b"),
    /^invalid: webhookEndpoint is/,
  );
});

test("whatever follows the app's name reaches the replica unchanged", () => {
  const rest = fc
    .string({ unit: fc.constantFrom(...Array.from("abc/%.?&=~+;:@#")) })
    .filter((text) => !text.startsWith("/"));
  fc.assert(
    fc.property(rest, (text) => {
      assert.equal(pathOf(`/v4/p-1/hello/${text}`), `/${text}`);
    }),
  );
});

const spelled = fc
  .array(fc.constantFrom("plain", "upper", "once", "twice"), { minLength: 8, maxLength: 8 })
  .map((ways) => ways.map((way, index) => spell("_slipway"[index] ?? "", way)).join(""));

function spell(letter: string, way: string): string {
  const encoded = `%${letter.charCodeAt(0).toString(16)}`;
  if (way === "upper") return letter.toUpperCase();
  if (way === "once") return encoded;
  return way === "twice" ? encoded.replace("%", "%25") : letter;
}

const detour = fc.constantFrom(
  "",
  "./",
  "../",
  "%2e/",
  "a/../",
  "a/%2E%2e/",
  "%2f",
  "//",
  "a//../",
  "a%2f..%2f",
  "%5c",
  "x/..;/../",
);
const ending = fc.constantFrom(
  "",
  "/",
  "/runs/1",
  "?a=b",
  "%2fruns",
  ";v=1/runs",
  "/../_slipway/x",
);

test("the platform's own paths of a replica are refused however they are spelled", () => {
  fc.assert(
    fc.property(spelled, detour, ending, (segment, before, after) => {
      assert.match(
        refusalOf(`/v4/p-1/hello/${before}${segment}${after}`),
        /^not_found: Paths below \/_slipway/,
      );
    }),
    { numRuns: 2_000 },
  );
});

test("paths that only look like the platform's own pass byte for byte", () => {
  const paths = [
    "/_slipways/x",
    "/_slipway-x",
    "/a/_slipway/runs",
    "/run_it/%5f",
    "/my_slipway",
    "/%5fslip/way",
    "/run?x=_slipway&y=%5fslipway",
    "/run?/_slipway/ready",
    "/a/b/../_slipway",
    "/100%",
  ];
  for (const path of paths) assert.equal(pathOf(`/v4/p-1/hello${path}`), path);
});

test("a path of a thousand encodings is judged quickly", () => {
  const path = `/${"%25".repeat(10_000)}5fslipway`;
  assert.equal(pathOf(`/v4/p-1/hello${path}`), path);
});

test("on an app's own host name every path is the app's, and its path by the platform's name means the same", () => {
  const home = { projectId: "p-00000001", appName: "web" };
  const of = (url: string) => {
    const target = readTarget(originForm(url), home);
    return target instanceof Fault
      ? target.code
      : [target.projectId, target.appName, target.path, target.hasOwnHost];
  };
  const own = (path: string) => ["p-00000001", "web", path, true];
  assert.deepEqual(of("/"), own("/"));
  assert.deepEqual(of("/a/b?c=1"), own("/a/b?c=1"));
  assert.deepEqual(of("/v2/projects"), own("/v2/projects"));
  assert.deepEqual(of("/v4/p-00000001/web"), own("/"));
  assert.deepEqual(of("/v4/p-00000001/web/a"), own("/a"));
  assert.deepEqual(of("/v4/p-00000001/web?a=1"), own("/?a=1"));
  assert.deepEqual(
    of("/v4/p-00000001/website/a"),
    own("/v4/p-00000001/website/a"),
    "no other app is there",
  );
  assert.deepEqual(of("/v4/p-00000002/web/a"), own("/v4/p-00000002/web/a"));
  assert.deepEqual(of("http://other.example/a"), own("/a"));
  assert.deepEqual(of("/_slipway/ready"), "not_found");
  assert.deepEqual(of("/v4/p-00000001/web/_slipway/ready"), "not_found");
});

test("on its own host name an app never answers where authorities look for proofs", () => {
  const home = { projectId: "p-00000001", appName: "web" };
  const of = (url: string) => {
    const target = readTarget(originForm(url), home);
    return target instanceof Fault ? target.message : target.path;
  };
  const refused = /^Paths below \/\.well-known\/acme-challenge on an app's own host name/;
  for (const path of ["/x", "/x?async=true", "//x", "/"])
    assert.match(of(`/.well-known/acme-challenge${path}`), refused);
  assert.match(of("http://a.example//.well-known/acme-challenge/x"), refused);
  assert.equal(of("/.well-known/security.txt"), "/.well-known/security.txt");
  assert.equal(of("/a/.well-known/acme-challenge/x"), "/a/.well-known/acme-challenge/x");
});
