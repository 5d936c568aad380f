// The address of a remote that is sent to the platform: never with a user or a password.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gitRefOf, repositoryOf } from "./git-remote.ts";

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

test("a program that the folder's git configuration names as its watcher is not run", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const git = (...words: string[]) => execFileSync("git", ["-C", folder, ...words]);
  git("init", "--quiet");
  git("config", "remote.origin.url", "https://github.com/acme/app");
  writeFileSync(join(folder, "watcher"), "#!/bin/sh\ntouch was-run\n", { mode: 0o755 });
  git("config", "core.fsmonitor", join(folder, "watcher"));
  assert.equal(gitRefOf(folder).gitRepo, "https://github.com/acme/app");
  assert.equal(existsSync(join(folder, "was-run")), false);
});
