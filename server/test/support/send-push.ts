// The program that a git server's post-receive hook runs in tests: it sends what Gitea would send,
// signed, to the address in the file that its argument names, and adds the answer to that file.
// Started by git, in the bare folder of the repository.
import { execFileSync } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { appendFileSync, readFileSync } from "node:fs";

type Target = { readonly url: string; readonly secret: string; readonly commitsMax?: number };

const file = process.argv[2] ?? "";
const [first = "{}"] = readFileSync(file, "utf8").split("\n");
const { url, secret, commitsMax = 5 } = JSON.parse(first) as Target;

function git(...args: string[]): string {
  return execFileSync("git", args, { encoding: "utf8" }).trim();
}

const isNone = (commit: string): boolean => /^0+$/.test(commit);

function commitOf(id: string): object {
  const [name = "", email = "", message = ""] = git(
    "log",
    "-1",
    "--format=%an%x00%ae%x00%B",
    id,
  ).split("\0");
  const files = git("show", "--format=", "--name-only", id)
    .split("\n")
    .filter((path) => path !== "");
  return {
    id,
    message,
    timestamp: new Date().toISOString(),
    author: { name, email },
    added: [],
    removed: [],
    modified: files,
  };
}

for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const [before = "", after = "", ref = ""] = line.split(" ");
  const range = isNone(before) ? after : `${before}..${after}`;
  const ids = isNone(after) ? [] : git("rev-list", range).split("\n").filter(Boolean);
  const commits = ids.slice(0, commitsMax).map(commitOf);
  const body = JSON.stringify({
    ref,
    before,
    after,
    commits,
    total_commits: ids.length,
    head_commit: commits[0] ?? null,
    // The bare folder is named for it.
    repository: {
      full_name: process
        .cwd()
        .split("/")
        .slice(-2)
        .join("/")
        .replace(/\.git$/, ""),
    },
  });
  const headers = {
    "content-type": "application/json",
    "x-gitea-event": "push",
    "x-gitea-delivery": randomUUID(),
    "x-gitea-signature": createHmac("sha256", secret).update(body).digest("hex"),
  };
  const response = await fetch(url, { method: "POST", headers, body });
  appendFileSync(
    file,
    `\n${JSON.stringify({ status: response.status, headers, body, answer: await response.json() })}`,
  );
}
