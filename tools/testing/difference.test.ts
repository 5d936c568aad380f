// What git says that differs: in a clone, on a branch, without a main branch, and without git.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import { readDifference } from "./difference.ts";

function git(folder: string, ...parameters: readonly string[]): void {
  const identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
  execFileSync("git", [...identity, ...parameters], { cwd: folder, stdio: "ignore" });
}

function commit(folder: string, name: string): void {
  writeFileSync(join(folder, name), name);
  git(folder, "add", "--all");
  git(folder, "commit", "--message", name);
}

/** A repository with two commits, and a clone of it. */
function repositories(t: TestContext): { readonly origin: string; readonly clone: string } {
  const folder = temporaryFolder(t, "difference");
  const origin = join(folder, "origin");
  const clone = join(folder, "clone");
  mkdirSync(origin);
  git(origin, "init", "--initial-branch=main");
  commit(origin, "first");
  commit(origin, "second");
  git(folder, "clone", origin, clone);
  return { origin, clone };
}

test("in a fresh clone nothing differs, and the commits are counted", (t) => {
  const { clone } = repositories(t);
  assert.deepEqual(readDifference(clone), { base: "origin/HEAD", changed: [], turn: 2 });
});

test("a branch differs by its commits, and by what is not committed, from where it left the main branch", (t) => {
  const { origin, clone } = repositories(t);
  git(clone, "switch", "--create", "work");
  commit(clone, "third file");
  rmSync(join(clone, "first"));
  writeFileSync(join(clone, "new"), "");
  commit(origin, "of others");
  git(clone, "fetch");
  assert.deepEqual(readDifference(clone).changed, ["first", "new", "third file"]);
});

test("without a branch of origin it is the local main branch, and without that nothing is compared", (t) => {
  const { clone } = repositories(t);
  git(clone, "switch", "--create", "work");
  commit(clone, "third");
  git(clone, "remote", "remove", "origin");
  assert.deepEqual(readDifference(clone), { base: "main", changed: ["third"], turn: 3 });
  git(clone, "branch", "--delete", "--force", "main");
  assert.deepEqual(readDifference(clone), { base: null, changed: [], turn: 3 });
});

test("on a local main branch it is the last commit that differs", (t) => {
  const { origin } = repositories(t);
  assert.deepEqual(readDifference(origin), { base: "HEAD~1", changed: ["second"], turn: 2 });
});

test("a clone of one commit of one branch has nothing to compare with, unless a revision is named", (t) => {
  const { origin, clone } = repositories(t);
  git(origin, "switch", "--create", "work");
  commit(origin, "third");
  const shallow = join(clone, "shallow");
  git(clone, "clone", "--depth=1", "--single-branch", "--branch=work", `file://${origin}`, shallow);
  // The head of origin is a branch that was not fetched, or the one that was.
  assert.deepEqual(readDifference(shallow).changed, []);
  assert.equal(readDifference(shallow).turn, 1);
  assert.deepEqual(readDifference(origin, "HEAD~1"), {
    base: "HEAD~1",
    changed: ["third"],
    turn: 3,
  });
  assert.throws(() => readDifference(origin, "nowhere"), /SLIPWAY_TEST_BASE is "nowhere"/);
});

test("a folder without a repository has nothing to compare with", (t) => {
  const folder = temporaryFolder(t, "no-repository");
  assert.deepEqual(readDifference(folder), { base: null, changed: [], turn: 0 });
});
