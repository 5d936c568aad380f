// Which redirects of apps are put below the path of the app, and how.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { locationOfApp } from "./location.ts";

const root = "/v4/p-0123abcd/web";

function linesOf({
  host = "s.example:7070",
  proto = "http",
  forwardedHost = "s.example:7070",
} = {}): string {
  const forwarded = `X-Forwarded-Proto: ${proto}\r\nX-Forwarded-Host: ${forwardedHost}\r\nX-Forwarded-Prefix: ${root}\r\n`;
  return `host: ${host}\r\nAccept: */*\r\nX-Forwarded-For: 10.0.0.1\r\n${forwarded}`;
}

test("a path from the root of an app is put below the app's path", () => {
  const of = (location: string): string => locationOfApp(location, linesOf());
  assert.equal(of("/health/"), `${root}/health/`);
  assert.equal(of("/"), `${root}/`);
  assert.equal(of("/?next=/a#b"), `${root}/?next=/a#b`);
  assert.equal(of("http://s.example:7070/health/"), `http://s.example:7070${root}/health/`);
  assert.equal(of("HTTP://S.Example:7070?a=1"), `HTTP://s.example:7070${root}/?a=1`);
  assert.equal(of("//s.example:7070/a"), `//s.example:7070${root}/a`);
});

test("a path that already has the app's path, or that of another app, stays as it is", () => {
  for (const location of [
    root,
    `${root}/`,
    `${root}/a`,
    `${root}?a=1`,
    "/v4/p-0123abcd/other/run",
    "/v4/dev-p-0123abcd/x",
  ]) {
    assert.equal(locationOfApp(location, linesOf()), location);
    const whole = `http://s.example:7070${location}`;
    assert.equal(locationOfApp(whole, linesOf()), whole);
  }
  assert.equal(
    locationOfApp(`${root}site/a`, linesOf()),
    `${root}site/a`,
    "the name of another app",
  );
  assert.equal(
    locationOfApp("/v4/models", linesOf()),
    `${root}/v4/models`,
    "a path of the app's own",
  );
});

test("relative paths and other hosts stay as they are", () => {
  const kept = [
    "health/",
    "?a=1",
    "#b",
    "",
    "https://other.example/health/",
    "//other.example/",
    "mailto:a@b.example",
  ];
  for (const location of [...kept, "http://s.example/health/", "http://u@s.example:7070/"]) {
    assert.equal(locationOfApp(location, linesOf()), location);
  }
});

test("a redirect names the address that the client used, not the one between a proxy and the platform", () => {
  const lines = linesOf({ host: "127.0.0.1:7070", forwardedHost: "apps.example", proto: "https" });
  assert.equal(locationOfApp("http://127.0.0.1:7070/a", lines), `https://apps.example${root}/a`);
  assert.equal(locationOfApp("http://apps.example/a", lines), `https://apps.example${root}/a`);
});

test("a client without a host name is redirected to a path", () => {
  const lines = `Host: app\r\nX-Forwarded-For: ::1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Prefix: ${root}\r\n`;
  assert.equal(locationOfApp("http://app/a", lines), `${root}/a`);
});

test("the own redirects of requests that were stored without the app's path stay as they are", () => {
  assert.equal(locationOfApp("/a", "Host: s.example\r\n"), "/a");
});

test("a Host full of blanks does not hold up other calls", () => {
  // Over a minute, if each blank costs as much as there are blanks.
  const lines = linesOf({ host: `a${" ".repeat(500_000)}b` });
  const find = (): string => locationOfApp("http://other.example/", lines);
  assert.equal(runInNewContext("find()", { find }, { timeout: 30_000 }), "http://other.example/");
});
