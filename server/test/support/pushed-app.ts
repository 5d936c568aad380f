// An app whose repository on a real git server tells the platform of each push, as a git host does.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { deploy } from "./examples.ts";
import { temporaryFolder } from "./folder.ts";
import { cloneOf, type GitPusher } from "./git-pusher.ts";
import { startGitServer, type GitServer } from "./git-server.ts";
import type { Json } from "./management-api.ts";
import { startPlatformOnTestServer } from "./platform-on-test-server.ts";
import type { PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";

const sender = join(import.meta.dirname, "send-push.ts");

type PushStatus = {
  readonly path: string;
  readonly token: string | undefined;
  readonly body: Json;
};
export type PushFixture = {
  readonly platform: PlatformProcess;
  readonly server: GitServer;
  /** Statuses of commits that the host was told. */
  readonly statuses: readonly PushStatus[];
};

/**
 * The platform, a git host with a stand-in for its API, and no polling unless `settings` say so.
 */
export async function openPushFixture(
  t: TestContext,
  settings: Record<string, string> = {},
): Promise<PushFixture> {
  const statuses: PushStatus[] = [];
  const intercept = (request: IncomingMessage, response: ServerResponse): boolean => {
    if (request.url?.startsWith("/api/v1/") !== true) return false;
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Json;
      statuses.push({ path: request.url ?? "", token: request.headers.authorization, body });
      // The first answer is a failure of the host, which is tried again.
      response.writeHead(statuses.length === 1 ? 503 : 201).end("{}");
    });
    return true;
  };
  const server = await startGitServer(t, { intercept });
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_GIT_POLL_SECONDS: "0",
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    ...settings,
  });
  return { platform, server, statuses };
}

/** The code of an app whose `run` answers this. */
export function answering(answer: string | number): string {
  return `def run():\n    return ${JSON.stringify(answer)}\n`;
}

/** An app, a clone of its repository, and the hook between them. */
export type PushedApp = {
  readonly appId: string;
  readonly path: string;
  readonly clone: GitPusher;
  readonly hook: { readonly url: string; readonly secret: string };
  /** What the git server's hook sent, and the answers. */
  readonly sent: () => Promise<
    readonly { status: number; body: string; headers: Record<string, string>; answer: Json }[]
  >;
  readonly deliveries: () => Promise<readonly Json[]>;
  readonly answers: () => Promise<unknown>;
};

/** An app whose repository tells the platform of each push. */
export async function openPushedApp(
  t: TestContext,
  { platform, server }: PushFixture,
  { repo = "app", ...fields }: { repo?: string; gitBranch?: string; gitPath?: string } = {},
): Promise<PushedApp> {
  const file = join(fields.gitPath ?? "", "main.py");
  await server.createRepo(
    "acme",
    repo,
    { [file]: answering("v1"), "README.md": "" },
    fields.gitBranch,
  );
  const { appId, status, log } = await deploy(platform, {
    name: repo,
    gitRepo: `acme/${repo}`,
    ...fields,
  });
  assert.equal(status, "success", log);
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  const made = await platform.api("POST", `${path}/git-hook`);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const hook = made.body as { url: string; secret: string };
  const target = await reportPushes(t, { server, repo, hook });
  const clone = await cloneOf(t, server, "acme", repo);
  return {
    appId,
    path,
    clone,
    hook,
    sent: async () =>
      (await readFile(target, "utf8"))
        .split("\n")
        .slice(1)
        .map((line) => JSON.parse(line)),
    deliveries: async () => (await platform.api("GET", `${path}/git-deliveries`)).body.items,
    answers: async () =>
      ((await (await platform.call(repo, "run", {})).json()) as { result?: unknown }).result,
  };
}

/**
 * Lets the repository be pushed to and tell the hook's address of each push; returns the file that
 * says what was sent.
 */
export async function reportPushes(
  t: TestContext,
  given: { readonly server: GitServer; readonly repo: string; readonly hook: PushedApp["hook"] },
): Promise<string> {
  const target = join(temporaryFolder(t, "hook"), "target");
  await writeFile(target, JSON.stringify(given.hook));
  await given.server.acceptPushes(
    "acme",
    given.repo,
    `exec "${process.execPath}" "${sender}" "${target}"`,
  );
  return target;
}

/** Waits until the newest delivery has a verdict. */
export async function verdict(app: PushedApp): Promise<Json> {
  let last: Json = null;
  const isDecided = async (): Promise<boolean> => {
    [last] = await app.deliveries();
    return last !== undefined && last.verdict !== "waiting";
  };
  await until("the push has its verdict", isDecided, { deadlineMs: 30_000 });
  return last;
}

/** Waits until the app answers so. */
export async function answersWith(app: PushedApp, expected: string): Promise<void> {
  await until(`the app answers ${expected}`, async () => (await app.answers()) === expected, {
    deadlineMs: 60_000,
  });
}

/** The headers of a push of Gitea. */
export function signed(
  body: string,
  secret: string,
  delivery: string = randomUUID(),
): Record<string, string> {
  return {
    "content-type": "application/json",
    "x-gitea-event": "push",
    "x-gitea-delivery": delivery,
    "x-gitea-signature": createHmac("sha256", secret).update(body).digest("hex"),
  };
}
