// Whatever is given as a repository, nothing reaches an address but names, and nothing is fetched from hosts that are not allowed.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readRepository, repositoryPath, type GitHosts } from "./repository.ts";

const hosts: GitHosts = {
  defaultUrl: "https://github.com/{owner}/{repo}.git",
  otherUrls: ["https://gitlab.com/{owner}/{repo}.git", "ssh://git@git.example.com:2222/{owner}/{repo}.git"],
};

const reasonOf = (given: string, allowed = hosts): string => {
  const read = readRepository(given, allowed);
  return read.ok ? `passed as ${read.value.canonical}` : read.reason;
};

test("every usual form of a repository comes out in one form, which reads as itself", () => {
  const forms: Readonly<Record<string, readonly string[]>> = {
    "acme/app": [
      ...["acme/app", "acme/app.git", "acme/app/", "acme/app.git/", "https://github.com/acme/app"],
      ...["https://github.com/acme/app.git", "https://GitHub.com/acme/app/", "http://github.com/acme/app"],
      ...["git@github.com:acme/app.git", "git@github.com:acme/app", "ssh://git@github.com/acme/app.git"],
      "ssh://github.com/acme/app",
    ],
    "https://gitlab.com/a/b/c/d": [
      "https://gitlab.com/a/b/c/d",
      "git@gitlab.com:a/b/c/d.git",
      "ssh://git@gitlab.com/a/b/c/d/",
    ],
    "https://git.example.com:2222/Acme/my.app": ["ssh://git@git.example.com:2222/Acme/my.app.git"],
  };
  for (const [canonical, given] of Object.entries(forms)) {
    for (const one of [...given, canonical]) assert.equal(reasonOf(one), `passed as ${canonical}`, one);
    assert.equal(repositoryPath(canonical), canonical.replace(/^https:\/\/[^/]*\//, ""));
  }
});

test("repositories below groups are understood where a host has groups, and pages of repositories are refused elsewhere", () => {
  const own: GitHosts = { ...hosts, defaultUrl: "https://gitlab.example.com/{owner}/{repo}.git" };
  for (const given of [
    "group/sub/repo",
    "https://gitlab.example.com/group/sub/repo",
    "git@gitlab.example.com:group/sub/repo.git",
  ])
    assert.equal(reasonOf(given, own), "passed as group/sub/repo");
  for (const given of ["group/sub/repo", "https://github.com/acme/app/tree/main", "https://github.com/acme/app/issues"])
    assert.match(reasonOf(given), /must have the form owner\/repo/, given);
});

test("other hosts, ports, look-alikes and addresses of the platform's own network are refused with what is allowed", () => {
  for (const given of [
    ...["https://evil.example/a/b", "https://github.com.evil.example/a/b", "https://github.com./a/b"],
    ...["https://github.com:443/a/b", "https://github.com:22/a/b", "ssh://git@github.com:2222/a/b"],
    ...[
      "https://127.0.0.1/a/b",
      "http://localhost:7070/a/b",
      "https://[::1]/a/b",
      "http://169.254.169.254/latest/meta-data",
    ],
    ...["https://2130706433/a/b", "https://0x7f.1/a/b", "git@10.0.0.1:a/b", "https://gıthub.com/a/b"],
    ...[
      "https://xn--gthub-n4a.com/a/b",
      "https://ｇithub.com/a/b",
      "https://github。com/a/b",
      "https:///a/b",
      "git@:a/b",
    ],
    ...["https://github.com%2f/a/b", "https://github.com\\evil.example/a/b", "https://{owner}/a/b"],
  ]) {
    assert.match(
      reasonOf(given),
      /must be on github\.com or gitlab\.com or git\.example\.com:2222 here \(SLIPWAY_GIT_HOSTS\)\.$/,
      given,
    );
  }
  const folder = { defaultUrl: "file:///srv/git/{owner}/{repo}.git", otherUrls: [] };
  for (const given of ["https:///a/b", "https://srv/a/b", "git@:a/b"]) {
    assert.match(reasonOf(given, folder), /must have the form owner\/repo here/, given);
  }
});

test("credentials in an address are refused and never repeated", () => {
  for (const given of [
    ...["https://user:hunter2@github.com/a/b", "https://hunter2@github.com/a/b", "http://git:hunter2@github.com/a/b"],
    ...[
      "ssh://hunter2@github.com/a/b",
      "ssh://git:hunter2@github.com/a/b",
      "hunter2@github.com:a/b",
      "https://hunter2@github.com",
    ],
    ...[
      "https://github.com@hunter2/a/b",
      "https://a:b@hunter2@github.com/a/b",
      "hunter2@x/y",
      "https://@github.com/a/b",
    ],
  ]) {
    assert.match(reasonOf(given), /contains a user name or a password/, given);
    assert.doesNotMatch(reasonOf(given), /hunter2/, given);
  }
});

test("names that mean something to git, a shell, a file system or a URL are refused", () => {
  for (const given of [
    ...["", "/", "owner", "owner/", "/repo", "-o/repo", "owner/--upload-pack=touch", "../x", "x/..", "x/.git", "a//b"],
    ...[
      "owner/repo?x=1",
      "owner/repo#frag",
      "owner/re po",
      "owner/repo\n",
      "owner\0/repo",
      "ext::sh -c touch/x",
      "a/./b",
    ],
    ...["owner/$(touch x)", "owner/`id`", "owner/%2e%2e", "{owner}/{repo}", "ö/ä", `a/${"b".repeat(200)}`, "a/b/../c"],
    ...[
      "file:///etc/passwd",
      "file://github.com/a/b",
      "ftp://github.com/a/b",
      "javascript:a/b",
      "git://github.com/a/b",
    ],
    ...[
      "https://github.com/a",
      "https://github.com/",
      "https://github.com/a/b/-/tree/main",
      "https://github.com/a/b?x",
    ],
    ...["https://github.com/a/%2e%2e/b", "https://github.com/-a/b", "https://github.com/a\\b/c", "git@github.com:-a/b"],
    ...["git@github.com:/a/b", "--upload-pack=x/y", `${"a/".repeat(20)}b`, "https://github.com/a/b\r\nHost: x"],
  ]) {
    assert.match(reasonOf(given), /^gitRepo is .*but must have the form owner\/repo/s, given);
  }
});

test("whatever passes leaves protocol, host and the ends of the operator's address as they are", () => {
  const characters = fc.constantFrom(...Array.from("abAB01._-/%?#@:\\ $\n{}"));
  const beginnings = fc.constantFrom(
    "",
    "https://github.com/",
    "https://gitlab.com/",
    "git@gitlab.com:",
    "ssh://git@",
    "https://",
  );
  fc.assert(
    fc.property(beginnings, fc.oneof(fc.string({ unit: characters, maxLength: 30 }), fc.string()), (begin, end) => {
      const read = readRepository(begin + end, hosts);
      if (!read.ok) return;
      const { template, owner, repo, canonical } = read.value;
      assert.ok([hosts.defaultUrl, ...hosts.otherUrls].includes(template));
      assert.match(`${owner}/${repo}`, /^[A-Za-z0-9_][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)+$/);
      assert.ok(!`${owner}/${repo}`.split("/").some((part) => part.includes("..") || part.startsWith("-")));
      assert.equal(reasonOf(canonical), `passed as ${canonical}`);
    }),
    { numRuns: 2000 },
  );
});
