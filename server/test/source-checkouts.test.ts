// What git has fetched for an app is kept for its next build: with the real git and a real git
// server.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { GitSource } from "#deploy/sources/git.ts";
import { cpuSecondsFor, Git } from "#deploy/sources/git-command.ts";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, newBuildId, newProjectId, type AppId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer, type GitServer } from "./support/git-server.ts";

type Fetch = (
  checkoutOf: AppId | null,
  from?: { repo?: string; commit?: string },
) => ReturnType<GitSource["fetch"]>;

function open(
  sourcesDir: string,
  server: GitServer,
): { readonly source: GitSource; readonly fetch: Fetch } {
  const source = new GitSource({
    git: new Git({
      toolEnvironment: { PATH: process.env["PATH"] ?? "" },
      cpuSecondsMax: cpuSecondsFor(50_000_000),
    }),
    hosts: { defaultUrl: server.urlTemplate, otherUrls: [] },
    timeoutMs: 30_000,
    bytesMax: 50_000_000,
    sourcesDir,
    findCredential: () => Promise.resolve(null),
    guard: new OutwardGuard({ allow: [] }),
    clock: systemClock,
    log: silentLog,
  });
  const fetch: Fetch = (
    checkoutOf,
    { repo = "app", commit = null }: { repo?: string; commit?: string | null } = {},
  ) =>
    source.fetch({
      projectId: newProjectId(),
      buildId: newBuildId(),
      commit,
      fetchesOf: () => ({ gitSubmodules: false, gitLfs: false }),
      isBranchGiven: true,
      checkoutOf,
      settings: { gitRepo: `acme/${repo}`, gitBranch: "main", gitPath: "" },
      log: () => undefined,
      signal: new AbortController().signal,
    });
  return { source, fetch };
}

test("a fetch goes on from the app's last checkout, and leaves no keys and nothing of apps that are gone", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "one", "old.py": "old", "same.py": "same" });
  const sourcesDir = temporaryFolder(t, "source");
  const { source, fetch } = open(sourcesDir, server);
  const checkoutOf = appIdOf(newProjectId(), "shop");
  const first = await fetch(checkoutOf);
  const kept = join(sourcesDir, "checkouts", checkoutOf);
  const has = (commit: string): boolean =>
    spawnSync("git", ["--git-dir", kept, "cat-file", "-e", commit]).status === 0;
  assert.ok(has(first.commit));
  for (const name of ["ssh-key", "global.config", "config", "index"])
    assert.equal(existsSync(join(kept, name)), false, name);
  await server.push("acme", "app", {
    "old.py": null,
    "main.py": "two",
    "new.py": "new",
    "same.py": "same",
  });
  const second = await fetch(checkoutOf);
  assert.notEqual(second.commit, first.commit);
  assert.deepEqual(await readdir(second.appDir), ["main.py", "new.py", "same.py"]);
  assert.equal(await readFile(join(second.appDir, "main.py"), "utf8"), "two");
  assert.ok(has(first.commit) && has(second.commit), "it went on from there");
  await fetch(null);
  await source.collect(
    () => Promise.resolve([]),
    () => Promise.resolve([checkoutOf]),
  );
  assert.ok(has(second.commit), "a clean one leaves it alone");
  await source.collect(
    () => Promise.resolve([]),
    () => Promise.resolve([]),
  );
  assert.equal(existsSync(kept), false);
});

test("a commit of the repository that an app had before is not taken for one of its new repository", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "one" });
  await server.createRepo("acme", "other", { "main.py": "other" });
  const { fetch } = open(temporaryFolder(t, "source"), server);
  const app = appIdOf(newProjectId(), "shop");
  const { commit } = await fetch(app);
  assert.equal((await fetch(app, { commit })).commit, commit);
  await assert.rejects(fetch(app, { repo: "other", commit }));
});
