// The address of a remote that is sent to the platform: never with a user or a password.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

test("no program that the folder's git configuration names is run", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const git = (...words: string[]) =>
    execFileSync("git", ["-C", folder, ...words], { stdio: "pipe" });
  const program = join(folder, "program");
  git("init", "--quiet");
  git("config", "remote.origin.url", "https://github.com/acme/app");
  writeFileSync(join(folder, "main.py"), "");
  git("add", "main.py");
  git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "first");
  writeFileSync(join(folder, ".gitattributes"), "*.py filter=a.b\n*.txt filter=c\n");
  writeFileSync(join(folder, "main.py"), "1\n");
  writeFileSync(join(folder, "other.txt"), "1\n");
  git("add", "-N", "other.txt");
  writeFileSync(program, `#!/bin/sh\ntouch ${join(folder, "was-run")}\ncat\n`, { mode: 0o755 });
  mkdirSync(join(folder, "hooks"));
  copyFileSync(program, join(folder, "hooks", "post-index-change"));
  for (const name of ["core.fsmonitor", "filter.a.b.clean", "filter.c.process"])
    git("config", name, program);
  git("config", "filter.c.required", "true");
  git("config", "core.hooksPath", join(folder, "hooks"));
  const { gitRepo, warnings } = gitRefOf(folder);
  assert.equal(gitRepo, "https://github.com/acme/app");
  assert.deepEqual(warnings, [
    "There are changes that are not committed; the platform builds what was pushed.",
  ]);
  assert.equal(existsSync(join(folder, "was-run")), false);
});
