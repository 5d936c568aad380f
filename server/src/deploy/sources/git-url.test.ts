// Whatever is given as a repository, branch or folder, nothing that git or the file system gives a meaning to passes.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import fc from "fast-check";
import { checkBranch, checkFolder, isCommit, parseRepository, sourceUrl } from "./git-url.ts";

const template = "https://git.example.com/{owner}/{repo}.git";

const hostile = [
  "",
  "/",
  "owner",
  "owner/",
  "/repo",
  "a/b/c",
  "-o/repo",
  "owner/--upload-pack=touch",
  "../x",
  "x/..",
  "x/.git",
  "owner/repo?x=1",
  "owner/repo#frag",
  "user:pass@host/x",
  "owner/re po",
  "owner/repo\n",
  "owner\0/repo",
  "https://evil.example/x",
  "ext::sh -c touch/x",
  "owner/$(touch x)",
  "owner/`id`",
  "owner/%2e%2e",
  "{owner}/{repo}",
  "ö/ä",
  `a/${"b".repeat(200)}`,
];

test("hostile repository names are refused, each with what is allowed", () => {
  for (const given of hostile) {
    const parsed = parseRepository(given);
    assert.equal(parsed.ok, false, given);
    assert.match(parsed.ok ? "" : parsed.reason, /^gitRepo is ".*but must have the form owner\/repo/);
  }
});

test("usual repository names pass; .git at the end is taken off", () => {
  for (const given of ["acme/app", "A-1/my.app", "o/r_2", "acme/app.git", "1/2"]) {
    const parsed = parseRepository(given);
    assert.ok(parsed.ok, given);
    assert.equal(sourceUrl(template, parsed.value).url, `https://git.example.com/${given.replace(/\.git$/, "")}.git`);
  }
});

test("whatever passes as a repository leaves protocol, host and depth of the address as they are", () => {
  const characters = fc.constantFrom(...Array.from("abAB01._-/%?#@:\\ $\n{}"));
  fc.assert(
    fc.property(
      fc.oneof(fc.string({ unit: characters, maxLength: 20 }), fc.string(), fc.constantFrom(...hostile)),
      (given) => {
        const parsed = parseRepository(given);
        if (!parsed.ok) return;
        const made = new URL(sourceUrl(template, parsed.value).url);
        assert.equal(made.origin, "https://git.example.com");
        assert.equal(made.username + made.search + made.hash, "");
        assert.match(made.pathname, /^\/[A-Za-z0-9_][^/]*\/[A-Za-z0-9_][^/]*\.git$/);
        assert.equal(made.pathname, `/${parsed.value.owner}/${parsed.value.repo}.git`);
      },
    ),
  );
});

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
  for (const usual of ["main", "release/1.x", "feature/a-b_c", "users/ö"]) assert.ok(checkBranch(usual).ok, usual);
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
  for (const [given, expected] of forms) assert.deepEqual(checkFolder(given), { ok: true, value: expected });
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
    fc.property(fc.string({ unit: fc.constantFrom(...Array.from("ab./\\")), maxLength: 12 }), (given) => {
      const checked = checkFolder(given);
      if (!checked.ok) return;
      assert.ok(!checked.value.split("/").includes(".."));
      assert.ok(!checked.value.startsWith("/") && !checked.value.endsWith("/") && !checked.value.includes("//"));
    }),
  );
});

test("a commit is a full id and nothing else", () => {
  assert.ok(isCommit("a".repeat(40)) && isCommit("0".repeat(64)));
  for (const given of ["", "HEAD", "a".repeat(39), "A".repeat(40), `-${"a".repeat(39)}`, `${"a".repeat(40)}\n`])
    assert.ok(!isCommit(given), given);
});

test("the address tells protocol and host: credentials are found by the host with its port", () => {
  const app = { owner: "acme", repo: "app" };
  assert.deepEqual(sourceUrl("http://127.0.0.1:8080/{owner}/{repo}", app), {
    url: "http://127.0.0.1:8080/acme/app",
    protocol: "http",
    host: "127.0.0.1:8080",
  });
  assert.deepEqual(sourceUrl("ssh://git@Git.Example.com/{owner}/{repo}.git", app), {
    url: "ssh://git@Git.Example.com/acme/app.git",
    protocol: "ssh",
    host: "git.example.com",
  });
  assert.deepEqual(sourceUrl("file:///srv/git/{owner}/{repo}.git", app), {
    url: "file:///srv/git/acme/app.git",
    protocol: "file",
    host: "",
  });
});
