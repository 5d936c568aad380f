// A clone of a repository on the tests' git server, as a developer has one: commits, and real
// pushes over HTTP.
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "./folder.ts";
import type { GitServer } from "./git-server.ts";

const run = promisify(execFile);
const identity = {
  GIT_AUTHOR_NAME: "Ada Example",
  GIT_AUTHOR_EMAIL: "ada@example.com",
  GIT_COMMITTER_NAME: "Ada Example",
  GIT_COMMITTER_EMAIL: "ada@example.com",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
};

export type GitPusher = {
  /** Runs git in the clone and returns its output. */
  git(...args: string[]): Promise<string>;
  /** Writes the files (null: removes one) and commits them; returns the commit. */
  commit(files: Readonly<Record<string, string | null>>, message?: string): Promise<string>;
};

/** Clones `owner/repo`; the clone is removed after the test. */
export async function cloneOf(
  t: TestContext,
  server: GitServer,
  owner: string,
  repo: string,
): Promise<GitPusher> {
  const folder = temporaryFolder(t, "clone");
  const url = server.urlTemplate.replace("{owner}", owner).replace("{repo}", repo);
  const git = async (...args: string[]): Promise<string> =>
    (await run("git", args, { cwd: folder, env: { ...process.env, ...identity } })).stdout.trim();
  await git("clone", "--quiet", url, ".");
  return {
    git,
    async commit(files, message = "A change") {
      for (const [path, content] of Object.entries(files)) {
        const full = join(folder, path);
        await mkdir(dirname(full), { recursive: true });
        await (content === null ? rm(full) : writeFile(full, content));
      }
      await git("add", "--all");
      await git("commit", "--quiet", "--allow-empty", "-m", message);
      return await git("rev-parse", "HEAD");
    },
  };
}
