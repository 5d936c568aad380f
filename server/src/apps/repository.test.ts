// Whatever is given as a repository, nothing reaches an address but names, and nothing is fetched
// from hosts that are not allowed.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { readRepository, repositoryPath, type GitHosts } from "./repository.ts";

const hosts: GitHosts = {
  defaultUrl: "https://github.com/{owner}/{repo}.git",
  otherUrls: [
    "https://gitlab.com/{owner}/{repo}.git",
    "ssh://git@git.example.com:2222/{owner}/{repo}.git",
  ],
};

const reasonOf = (given: string, allowed = hosts): string => {
  const read = readRepository(given, allowed);
  return read.ok ? `passed as ${read.value.canonical}` : read.reason;
};

test("every usual form of a repository comes out in one form, which reads as itself", () => {
  const forms: Readonly<Record<string, readonly string[]>> = {
    "acme/app": [
      "acme/app",
      "acme/app.git",
      "acme/app/",
      "acme/app.git/",
      "https://github.com/acme/app",
      "https://github.com/acme/app.git",
      "https://GitHub.com/acme/app/",
      "http://github.com/acme/app",
      "git@github.com:acme/app.git",
      "git@github.com:acme/app",
      "ssh://git@github.com/acme/app.git",
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
    for (const one of [...given, canonical])
      assert.equal(reasonOf(one), `passed as ${canonical}`, one);
    assert.equal(repositoryPath(canonical, hosts), canonical.replace(/^https:\/\/[^/]*\//, ""));
  }
});

/**
 * What a person may paste, on hosts of each form; the repository is always `acme/shop`, or with
 * groups `acme/team/shop`.
 */
const forms = {
  names: ["acme/shop", "acme/shop.git", "acme/shop/"],
  web: [
    "http://HOST/BELOW/acme/shop",
    "https://HOST/BELOW/acme/shop.git",
    "https://HOST/BELOW/acme/shop/",
  ],
  ssh: [
    "git@NAME:BELOW/acme/shop.git",
    "ssh://git@NAME/BELOW/acme/shop.git",
    "ssh://NAME/BELOW/acme/shop",
  ],
  // With the port of the ssh server, and as hosts below a path have it: without that path.
  port: ["ssh://git@NAME:2222/acme/shop.git", "ssh://git@NAME:2222/BELOW/acme/shop"],
  short: ["git@NAME:acme/shop.git", "git@NAME:acme/shop", "ssh://git@NAME/acme/shop.git"],
} as const;
const groups = (given: string): string => given.replace("acme/", "acme/team/");

test("every form of an address is understood with every form of the operator's address of the host", () => {
  const templates = [
    "https://git.corp.example/{owner}/{repo}.git",
    "https://git.corp.example/{owner}/{repo}",
    "https://git.corp.example:8443/{owner}/{repo}.git",
    "http://git.corp.example:3000/gitea/{owner}/{repo}.git",
    "https://git.corp.example/gitlab/{owner}/{repo}.git",
    "https://git.corp.example/tools/~git/{owner}/{repo}.git",
    "https://git.corp.example/scm/{owner}/_git/{repo}",
    "ssh://git@git.corp.example/{owner}/{repo}.git",
    "ssh://git@git.corp.example:2222/srv/git/{owner}/{repo}.git",
  ];
  for (const template of templates) {
    const [, host = "", path = ""] = /^\w+:\/\/(?:git@)?([^/]*)(.*)\{owner\}/.exec(template) ?? [];
    const below = path.replaceAll(/^\/|\/$/g, "");
    const filled = (form: string): string =>
      form
        .replace("HOST", host)
        .replace("NAME", "git.corp.example")
        .replace("BELOW/", below === "" ? "" : `${below}/`);
    const given = [...forms.web, ...forms.ssh, ...forms.port, ...forms.short].map((form) =>
      filled(form),
    );
    const withMiddle = template.includes("_git") ? [`https://${host}/scm/acme/_git/shop`] : [];
    for (const isDefault of [true, false]) {
      const allowed = isDefault
        ? { defaultUrl: template, otherUrls: [] }
        : { ...hosts, otherUrls: [template] };
      const start = isDefault ? "" : `https://${host}/${below === "" ? "" : `${below}/`}`;
      for (const one of [...given, ...withMiddle, ...(isDefault ? forms.names : [])]) {
        assert.equal(
          reasonOf(one, allowed),
          `passed as ${start}acme/shop`,
          `${one} at ${template}`,
        );
        const deep = groups(one);
        assert.equal(
          reasonOf(deep, allowed),
          `passed as ${start}acme/team/shop`,
          `${deep} at ${template}`,
        );
      }
      for (const canonical of [`${start}acme/shop`, `${start}acme/team/shop`]) {
        assert.equal(
          reasonOf(canonical, allowed),
          `passed as ${canonical}`,
          `${canonical} at ${template}`,
        );
        assert.equal(repositoryPath(canonical, allowed), canonical.slice(start.length));
      }
    }
  }
});

test("of several addresses of one host the one counts whose path an address has", () => {
  const two: GitHosts = {
    defaultUrl: "https://tools.example/{owner}/{repo}.git",
    otherUrls: [
      "https://tools.example/gitea/{owner}/{repo}.git",
      "https://tools.example/gitlab/{owner}/{repo}.git",
    ],
  };
  const templateOf = (given: string): string => {
    const read = readRepository(given, two);
    return read.ok ? read.value.template : read.reason;
  };
  assert.equal(templateOf("https://tools.example/gitlab/acme/shop"), two.otherUrls[1]);
  assert.equal(templateOf("https://tools.example/gitea/acme/shop.git"), two.otherUrls[0]);
  assert.equal(templateOf("https://tools.example/acme/shop"), two.defaultUrl);
  assert.equal(
    reasonOf("https://tools.example/gitea/acme/shop", two),
    "passed as https://tools.example/gitea/acme/shop",
  );
});

test("repositories below groups are understood where a host has groups, and pages of repositories are refused elsewhere", () => {
  const own: GitHosts = { ...hosts, defaultUrl: "https://gitlab.example.com/{owner}/{repo}.git" };
  for (const given of [
    "group/sub/repo",
    "https://gitlab.example.com/group/sub/repo",
    "git@gitlab.example.com:group/sub/repo.git",
  ])
    assert.equal(reasonOf(given, own), "passed as group/sub/repo");
  for (const given of [
    "group/sub/repo",
    "https://github.com/acme/app/tree/main",
    "https://github.com/acme/app/issues",
  ])
    assert.match(reasonOf(given), /must have the form owner\/repo/, given);
});

test("other hosts, ports, look-alikes and addresses of the platform's own network are refused with what is allowed", () => {
  for (const given of [
    "https://evil.example/a/b",
    "https://github.com.evil.example/a/b",
    "https://github.com./a/b",
    "https://github.com:443/a/b",
    "https://github.com:22/a/b",
    "https://gitlab.com:8443/a/b",
    "https://127.0.0.1/a/b",
    "http://localhost:7070/a/b",
    "https://[::1]/a/b",
    "http://169.254.169.254/latest/meta-data",
    "https://2130706433/a/b",
    "https://0x7f.1/a/b",
    "git@10.0.0.1:a/b",
    "https://gıthub.com/a/b",
    "https://xn--gthub-n4a.com/a/b",
    "https://ｇithub.com/a/b",
    "https://github。com/a/b",
    "https:///a/b",
    "git@:a/b",
    "https://github.com%2f/a/b",
    "https://github.com\\evil.example/a/b",
    "https://{owner}/a/b",
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
    "https://user:hunter2@github.com/a/b",
    "https://hunter2@github.com/a/b",
    "http://git:hunter2@github.com/a/b",
    "ssh://hunter2@github.com/a/b",
    "ssh://git:hunter2@github.com/a/b",
    "hunter2@github.com:a/b",
    "https://hunter2@github.com",
    "https://github.com@hunter2/a/b",
    "https://a:b@hunter2@github.com/a/b",
    "hunter2@x/y",
    "https://@github.com/a/b",
  ]) {
    assert.match(reasonOf(given), /contains a user name or a password/, given);
    assert.doesNotMatch(reasonOf(given), /hunter2/, given);
  }
});

test("names that mean something to git, a shell, a file system or a URL are refused", () => {
  for (const given of [
    "",
    "/",
    "owner",
    "owner/",
    "/repo",
    "-o/repo",
    "owner/--upload-pack=touch",
    "../x",
    "x/..",
    "x/.git",
    "a//b",
    "owner/repo?x=1",
    "owner/repo#frag",
    "owner/re po",
    "owner/repo\n",
    "owner\0/repo",
    "ext::sh -c touch/x",
    "a/./b",
    "owner/$(touch x)",
    "owner/`id`",
    "owner/%2e%2e",
    "{owner}/{repo}",
    "ö/ä",
    `a/${"b".repeat(200)}`,
    "a/b/../c",
    "file:///etc/passwd",
    "file://github.com/a/b",
    "ftp://github.com/a/b",
    "javascript:a/b",
    "git://github.com/a/b",
    "https://github.com/a",
    "https://github.com/",
    "https://github.com/a/b/-/tree/main",
    "https://github.com/a/b?x",
    "https://github.com/a/%2e%2e/b",
    "https://github.com/-a/b",
    "https://github.com/a\\b/c",
    "git@github.com:-a/b",
    "git@github.com:/a/b",
    "--upload-pack=x/y",
    `${"a/".repeat(20)}b`,
    "https://github.com/a/b\r\nHost: x",
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
    fc.property(
      beginnings,
      fc.oneof(fc.string({ unit: characters, maxLength: 30 }), fc.string()),
      (begin, end) => {
        const read = readRepository(begin + end, hosts);
        if (!read.ok) return;
        const { template, owner, repo, canonical } = read.value;
        assert.ok([hosts.defaultUrl, ...hosts.otherUrls].includes(template));
        assert.match(
          `${owner}/${repo}`,
          /^[A-Za-z0-9_][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)+$/,
        );
        assert.ok(
          !`${owner}/${repo}`
            .split("/")
            .some((part) => part.includes("..") || part.startsWith("-")),
        );
        assert.equal(reasonOf(canonical), `passed as ${canonical}`);
      },
    ),
    { numRuns: 2000 },
  );
});
