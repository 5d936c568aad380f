// Whatever is given as a branch or folder, nothing that git or the file system gives a meaning to
// passes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import fc from "fast-check";
import { checkBranch, checkFolder, isCommit, sourceUrl } from "./git-url.ts";

test("hostile branches are refused", () => {
  const given = [
    "",
    "-b",
    "--upload-pack=x",
    "a..b",
    "a b",
    "a~1",
    "a^",
    "a:b",
    "a?b",
    "a*",
    "a[b",
    "a\\b",
    "/a",
    "a/",
    "a//b",
    ".a",
    "a/.b",
    "a.lock",
    "a.lock/b",
    "a.",
    "@",
    "a@{1}",
    "a\nb",
    "a\0b",
    "\ud800",
    "x".repeat(300),
  ];
  for (const branch of given) assert.equal(checkBranch(branch).ok, false, branch);
});

test("every branch that passes is one that git itself takes", () => {
  const characters = fc.constantFrom(...Array.from("ab/.-@{~:lock #öµ"));
  fc.assert(
    fc.property(fc.string({ unit: characters, minLength: 1, maxLength: 8 }), (given) => {
      if (!checkBranch(given).ok) return;
      assert.ok(!given.startsWith("-"));
      execFileSync("git", ["check-ref-format", `refs/heads/${given}`]);
    }),
    { numRuns: 60 },
  );
  for (const usual of ["main", "release/1.x", "feature/a-b_c", "users/ö"])
    assert.ok(checkBranch(usual).ok, usual);
});

test("folders stay inside the repository and come out in one form", () => {
  const forms: [string, string][] = [
    ["", ""],
    [".", ""],
    ["./", ""],
    ["a", "a"],
    ["./a//b/", "a/b"],
    ["a b/ö", "a b/ö"],
    ["...", "..."],
  ];
  for (const [given, expected] of forms)
    assert.deepEqual(checkFolder(given), { ok: true, value: expected });
  for (const given of [
    "/etc",
    "..",
    "a/../b",
    "a/..",
    "a\0",
    "a\nb",
    "a\\b",
    ".git",
    "a/.GIT/x",
    "\udc00",
    "x".repeat(2000),
  ]) {
    assert.equal(checkFolder(given).ok, false, given);
  }
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...Array.from("ab./\\")), maxLength: 12 }),
      (given) => {
        const checked = checkFolder(given);
        if (!checked.ok) return;
        assert.ok(!checked.value.split("/").includes(".."));
        assert.ok(
          !checked.value.startsWith("/") &&
            !checked.value.endsWith("/") &&
            !checked.value.includes("//"),
        );
      },
    ),
  );
});

test("a commit is a full id and nothing else", () => {
  assert.ok(isCommit("a".repeat(40)) && isCommit("0".repeat(64)));
  for (const given of [
    "",
    "HEAD",
    "a".repeat(39),
    "A".repeat(40),
    `-${"a".repeat(39)}`,
    `${"a".repeat(40)}\n`,
  ])
    assert.ok(!isCommit(given), given);
});

test("the address tells protocol, host and folder: credentials are found by the host with its port", () => {
  const app = { owner: "acme", repo: "app" };
  assert.deepEqual(sourceUrl("http://127.0.0.1:8080/cgi-bin/git/{owner}/{repo}", app), {
    url: "http://127.0.0.1:8080/cgi-bin/git/acme/app",
    path: "acme/app",
    protocol: "http",
    host: "127.0.0.1:8080",
    below: "/cgi-bin/git",
  });
  assert.deepEqual(sourceUrl("ssh://git@Git.Example.com/{owner}/{repo}.git", app), {
    url: "ssh://git@Git.Example.com/acme/app.git",
    path: "acme/app",
    protocol: "ssh",
    host: "git.example.com",
    below: "",
  });
  assert.deepEqual(sourceUrl("file:///srv/git/{owner}/{repo}.git", app), {
    url: "file:///srv/git/acme/app.git",
    path: "acme/app",
    protocol: "file",
    host: "",
    below: "/srv/git",
  });
});
