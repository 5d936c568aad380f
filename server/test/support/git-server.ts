// A git host on loopback: the real `git http-backend` behind node:http, with repositories made from
// plain objects. Tests can make it require a token, redirect, or answer slowly.
import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { type FixedAddress, listenAt } from "./fixed-address.ts";
import { makeFolder, removeFolder } from "./folder.ts";

/**
 * Path → content. `{ link }` makes a symbolic link, `null` removes the file, a path ending in `.sh`
 * is executable.
 */
export type RepositoryFiles = Readonly<
  Record<string, string | Buffer | { readonly link: string } | null>
>;

export type GitServer = {
  /** For SLIPWAY_GIT_URL. */
  readonly urlTemplate: string;
  /** Address and port. */
  readonly host: string;
  /** Makes a repository with one commit on `branch` (default `main`) and returns the commit. */
  createRepo(owner: string, repo: string, files: RepositoryFiles, branch?: string): Promise<string>;
  /** Commits changes on top of a branch (created if it does not exist) and returns the commit. */
  push(owner: string, repo: string, files: RepositoryFiles, branch?: string): Promise<string>;
  /**
   * Lets clients push, and runs the shell script after each push, with a line `old new ref` for
   * each moved ref.
   */
  acceptPushes(owner: string, repo: string, afterPush: string): Promise<void>;
  /**
   * Runs git in the repository's bare folder and returns its output, for cases that `push` cannot
   * create.
   */
  git(
    owner: string,
    repo: string,
    args: readonly string[],
    input?: string | Buffer,
  ): Promise<string>;
  /** Paths and Authorization headers of all requests so far. */
  readonly requests: readonly {
    readonly path: string;
    readonly authorization: string | undefined;
  }[];
};

export type GitServerOptions = {
  /** Default: any free port of 127.0.0.1. */
  readonly at?: FixedAddress;
  /** The path that its repositories are below, such as `/cgi-bin/git`; default: none. */
  readonly below?: string;
  /** `user:token` that every request must send by basic authentication. */
  readonly credentials?: string;
  /** Answers the request and returns true, or returns false for the normal answer. */
  readonly intercept?: (request: IncomingMessage, response: ServerResponse) => boolean;
};

const run = promisify(execFile);
const identity = {
  GIT_AUTHOR_NAME: "Test",
  GIT_AUTHOR_EMAIL: "test@example.com",
  GIT_COMMITTER_NAME: "Test",
  GIT_COMMITTER_EMAIL: "test@example.com",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  LC_ALL: "C",
};

/** Starts the host; it and its repositories are removed after the test. */
export async function startGitServer(
  t: TestContext,
  options: GitServerOptions = {},
): Promise<GitServer> {
  const server = await openGitServer(options);
  t.after(() => server.close());
  return server;
}

/** Starts the host; `close` stops it and removes its repositories. */
export async function openGitServer(
  options: GitServerOptions = {},
): Promise<GitServer & { close(): Promise<void> }> {
  const root = makeFolder("git");
  const { below = "" } = options;
  const requests: { path: string; authorization: string | undefined }[] = [];
  const server = createServer((request, response) => {
    requests.push({ path: request.url ?? "", authorization: request.headers.authorization });
    if (options.intercept?.(request, response) === true) return;
    if (!isAuthorized(request, options.credentials)) {
      response
        .writeHead(401, { "www-authenticate": 'Basic realm="git"' })
        .end("authentication required\n");
      return;
    }
    answer({ root, below }, request, response);
  });
  const at = await listenAt(server, options.at);
  const host = `${at.host}:${at.port}`;
  const folderOf = (owner: string, repo: string): string => join(root, owner, `${repo}.git`);
  const push: GitServer["push"] = (owner, repo, files, branch = "main") =>
    commit(folderOf(owner, repo), files, branch);
  return {
    urlTemplate: `http://${host}${below}/{owner}/{repo}.git`,
    host,
    requests,
    push,
    async createRepo(owner, repo, files, branch = "main") {
      await mkdir(folderOf(owner, repo), { recursive: true });
      await git(
        ["init", "--quiet", "--bare", `--initial-branch=${branch}`, "."],
        folderOf(owner, repo),
      );
      return await push(owner, repo, files, branch);
    },
    async acceptPushes(owner, repo, afterPush) {
      const hook = join(folderOf(owner, repo), "hooks/post-receive");
      await mkdir(dirname(hook), { recursive: true });
      await writeFile(hook, `#!/bin/sh\n${afterPush}\n`, { mode: 0o755 });
      await git(["config", "http.receivepack", "true"], folderOf(owner, repo));
    },
    git: (owner, repo, args, input) => git(args, folderOf(owner, repo), input),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      removeFolder(root);
    },
  };
}

/** Commits through a temporary work tree. */
async function commit(bareDir: string, files: RepositoryFiles, branch: string): Promise<string> {
  const workTree = makeFolder("git-work");
  try {
    const inTree = (...args: string[]): Promise<string> =>
      git(["--git-dir", bareDir, "--work-tree", workTree, ...args], workTree);
    const parent = await inTree("rev-parse", "--verify", "--quiet", `refs/heads/${branch}`).catch(
      () => "",
    );
    if (parent === "") await inTree("read-tree", "--empty");
    else await inTree("read-tree", "--reset", "-u", parent);
    for (const [path, content] of Object.entries(files)) await write(join(workTree, path), content);
    await inTree("add", "--all", "--force", ".");
    const tree = await inTree("write-tree");
    const parents = parent === "" ? [] : ["-p", parent];
    const made = await inTree("commit-tree", tree, ...parents, "-m", "A change");
    await inTree("update-ref", `refs/heads/${branch}`, made);
    return made;
  } finally {
    removeFolder(workTree);
  }
}

async function write(path: string, content: RepositoryFiles[string]): Promise<void> {
  if (content === null || content === undefined) return rm(path, { recursive: true, force: true });
  await mkdir(dirname(path), { recursive: true });
  if (typeof content === "object" && "link" in content) return symlink(content.link, path);
  await writeFile(path, content);
  if (path.endsWith(".sh")) await chmod(path, 0o755);
}

async function git(args: readonly string[], cwd: string, input?: string | Buffer): Promise<string> {
  const running = run("git", args as string[], {
    cwd,
    env: { ...process.env, ...identity },
    maxBuffer: 50_000_000,
  });
  if (input !== undefined) running.child.stdin?.end(input);
  return (await running).stdout.trim();
}

function isAuthorized(request: IncomingMessage, credentials: string | undefined): boolean {
  if (credentials === undefined) return true;
  return request.headers.authorization === `Basic ${Buffer.from(credentials).toString("base64")}`;
}

/** Passes one request to `git http-backend` by CGI. */
function answer(
  { root, below }: { readonly root: string; readonly below: string },
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const url = new URL(request.url ?? "/", "http://git.invalid");
  if (!url.pathname.startsWith(`${below}/`)) return void response.writeHead(404).end("not found\n");
  const backend = spawn("git", ["http-backend"], {
    env: {
      ...process.env,
      ...identity,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: decodeURIComponent(url.pathname.slice(below.length)),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method ?? "GET",
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  request.pipe(backend.stdin);
  backend.stdin.on("error", () => undefined);
  response.on("close", () => backend.kill());
  let head: Buffer | null = Buffer.alloc(0);
  backend.stdout.on("data", (chunk: Buffer) => {
    if (head === null) return void response.write(chunk);
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return;
    const headers = new Map(
      head
        .subarray(0, end)
        .toString("latin1")
        .split("\r\n")
        .map((line) => splitHeader(line)),
    );
    const status = Number(headers.get("status")?.slice(0, 3) ?? "200");
    headers.delete("status");
    response.writeHead(status, Object.fromEntries(headers));
    response.write(head.subarray(end + 4));
    head = null;
  });
  backend.on("close", () => response.end());
}

function splitHeader(line: string): [string, string] {
  const colon = line.indexOf(":");
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}
