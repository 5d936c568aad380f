// The address of a remote that is sent to the platform: never with a user or a password.
import assert from "node:assert/strict";
import { test } from "node:test";
import { repositoryOf } from "./git-remote.ts";

test("a remote's address is kept without its user and password, and a path is none", () => {
  const cases: readonly [string, string | null][] = [
    ["https://github.com/acme/app.git", "https://github.com/acme/app.git"],
    ["https://me:hush@gitlab.com/group/sub/app", "https://gitlab.com/group/sub/app"],
    ["https://hush@github.com/acme/app", "https://github.com/acme/app"],
    ["http://127.0.0.1:7080/acme/app.git", "http://127.0.0.1:7080/acme/app.git"],
    ["git@github.com:acme/app.git", "git@github.com:acme/app.git"],
    ["me@git.example.org:acme/app", "git@git.example.org:acme/app"],
    ["ssh://git@git.example.org:2222/acme/app.git", "https://git.example.org/acme/app.git"],
    ["/srv/git/app.git", null],
    ["../app", null],
    ["file:///srv/app.git", null],
  ];
  for (const [remote, address] of cases) assert.equal(repositoryOf(remote), address, remote);
});
