// Automatic deployment from outside: a real push to a real git server, whose hook calls the platform, until the new code
// answers; and every push that is not deployed, with its reason.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { cloneOf, type GitPusher } from "./support/git-pusher.ts";
import { startGitServer, type GitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { giteaPush } from "./support/push-payloads.ts";
import { until } from "./support/until.ts";

const sender = join(import.meta.dirname, "support/send-push.ts");

type Status = { readonly path: string; readonly token: string | undefined; readonly body: Json };
type Fixture = {
  readonly platform: PlatformProcess;
  readonly server: GitServer;
  /** Statuses of commits that the host was told. */
  readonly statuses: readonly Status[];
};

/** The platform, a git host with a stand-in for its API, and no polling unless `settings` say so. */
async function open(t: TestContext, settings: Record<string, string> = {}): Promise<Fixture> {
  const statuses: Status[] = [];
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

function answering(answer: string | number): string {
  return `def run():\n    return ${JSON.stringify(answer)}\n`;
}

type PushedApp = {
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
async function openApp(
  t: TestContext,
  { platform, server }: Fixture,
  { repo = "app", ...fields }: { repo?: string; gitBranch?: string; gitPath?: string } = {},
): Promise<PushedApp> {
  const file = join(fields.gitPath ?? "", "main.py");
  await server.createRepo("acme", repo, { [file]: answering("v1"), "README.md": "" }, fields.gitBranch);
  const { appId, status, log } = await deploy(platform, { name: repo, gitRepo: `acme/${repo}`, ...fields });
  assert.equal(status, "success", log);
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  const made = await platform.api("POST", `${path}/git-hook`);
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const hook = made.body as { url: string; secret: string };
  const target = join(temporaryFolder(t, "hook"), "target");
  await writeFile(target, JSON.stringify(hook));
  await server.acceptPushes("acme", repo, `exec "${process.execPath}" "${sender}" "${target}"`);
  const clone = await cloneOf(t, server, "acme", repo);
  return {
    ...{ appId, path, clone, hook },
    sent: async () =>
      (await readFile(target, "utf8"))
        .split("\n")
        .slice(1)
        .map((line) => JSON.parse(line)),
    deliveries: async () => (await platform.api("GET", `${path}/git-deliveries`)).body.items,
    answers: async () => ((await (await platform.call(repo, "run", {})).json()) as { result?: unknown }).result,
  };
}

/** Waits until the newest delivery has a verdict. */
async function verdict(app: PushedApp): Promise<Json> {
  let last: Json = null;
  const isDecided = async (): Promise<boolean> => {
    [last] = await app.deliveries();
    return last !== undefined && last.verdict !== "waiting";
  };
  await until("the push has its verdict", isDecided, { deadlineMs: 30_000 });
  return last;
}

async function answersWith(app: PushedApp, expected: string): Promise<void> {
  await until(`the app answers ${expected}`, async () => (await app.answers()) === expected, { deadlineMs: 60_000 });
}

function signed(body: string, secret: string, delivery: string = randomUUID()): Record<string, string> {
  return {
    "content-type": "application/json",
    "x-gitea-event": "push",
    "x-gitea-delivery": delivery,
    "x-gitea-signature": createHmac("sha256", secret).update(body).digest("hex"),
  };
}

type Step = {
  readonly platform: PlatformProcess;
  readonly app: PushedApp;
  readonly push: (...args: string[]) => Promise<string>;
};

async function deploysPush({ platform, app, push }: Step): Promise<void> {
  const { clone } = app;
  const commit = await clone.commit({ "main.py": answering("v2") }, "Answer v2");
  await push("main");
  await answersWith(app, "v2");
  const last = await verdict(app);
  assert.deepEqual(
    [last.verdict, last.commit, last.commitMessage, last.host, last.ref],
    ["built", commit, "Answer v2", "gitea", "refs/heads/main"],
  );
  assert.equal(last.commitAuthor, "Ada Example <ada@example.com>");
  const build = (await platform.api("GET", `${app.path}/builds/${last.buildId}`)).body;
  assert.deepEqual([build.cause, build.commit, build.branch], ["push", commit, "main"]);
  const [sent] = await app.sent();
  assert.equal(sent?.status, 200);
  assert.equal(sent?.answer.id, last.id);
}

async function refusesWrongSignature({ platform, app }: Step): Promise<void> {
  const body = JSON.stringify(giteaPush());
  const bad = await fetch(app.hook.url, { method: "POST", body, headers: signed(body, "wrong") });
  assert.equal(bad.status, 401);
  const last = await verdict(app);
  assert.equal(last.verdict, "refused");
  assert.match(last.reason, /^the signature is missing, or was not made with the secret/);
  assert.equal((await platform.api("POST", `${app.path}/git-deliveries/${last.id}/replay`)).status, 409);
  const unknown = await fetch(app.hook.url.replace(/.{4}$/, "XXXX"), { method: "POST", body });
  assert.equal(unknown.status, 404);
}

async function knowsRepeatedDelivery({ app }: Step): Promise<void> {
  const [sent] = await app.sent();
  const before = await app.deliveries();
  const again = await fetch(app.hook.url, { method: "POST", body: sent?.body ?? "", headers: sent?.headers ?? {} });
  assert.equal(again.status, 200);
  assert.equal(((await again.json()) as Json).id, sent?.answer.id);
  assert.equal((await app.deliveries()).length, before.length);
  // Under another id it is a new delivery, of a commit that is known.
  const headers = signed(sent?.body ?? "", app.hook.secret);
  await fetch(app.hook.url, { method: "POST", body: sent?.body ?? "", headers });
  assert.match((await verdict(app)).reason, /is still the newest commit of main, and nothing new$/);
}

async function ignoresOtherRefs({ app, push }: Step): Promise<void> {
  const { clone } = app;
  await clone.git("branch", "other");
  await push("other");
  assert.deepEqual(
    [(await verdict(app)).verdict, (await verdict(app)).reason],
    ["ignored", "branch other is not main"],
  );
  await clone.git("tag", "v1");
  await push("v1");
  assert.equal((await verdict(app)).reason, "tag v1 is not a branch");
  await push("--delete", "other");
  assert.equal((await verdict(app)).reason, "branch other is not main");
}

async function honoursSkipMark({ app, push }: Step): Promise<void> {
  const { clone } = app;
  const commit = await clone.commit({ "README.md": "1" }, "Say more [skip deploy]");
  await push("main");
  assert.equal((await verdict(app)).reason, `the message of ${commit.slice(0, 7)} says [skip deploy]`);
}

async function deploysNewerOfTwo({ platform, app, push }: Step): Promise<void> {
  const { clone } = app;
  await clone.commit({ "main.py": answering("v3") });
  await push("main");
  const newest = await clone.commit({ "main.py": answering("v4") });
  await push("main");
  await answersWith(app, "v4");
  const [last, first] = await app.deliveries();
  assert.equal(last?.commit, newest);
  const builds = (await platform.api("GET", `${app.path}/builds`)).body as Json[];
  assert.equal(builds[0]?.commit, newest);
  assert.equal(builds[0]?.status, "success");
  // The older one gave way before it had a build, or its build was ended, or it was quick enough.
  const older = builds.find((one) => one.commit === first?.commit);
  assert.ok(older === undefined || ["cancelled", "success"].includes(older.status), JSON.stringify(older));
  assert.equal(await app.answers(), "v4");
}

async function supersedesRunningBuild({ platform, app, push }: Step): Promise<void> {
  const { clone } = app;
  const slow = { "slipway.toml": '[cerebrium.deployment]\nshell_commands = ["sleep 60"]\n' };
  await clone.commit({ ...slow, "main.py": answering("slow") });
  await push("main");
  const { buildId } = await verdict(app);
  const build = async (): Promise<Json> => (await platform.api("GET", `${app.path}/builds/${buildId}`)).body;
  await until("the build runs", async () => (await build()).status === "building", { deadlineMs: 30_000 });
  await clone.commit({ "slipway.toml": null, "main.py": answering("v5") });
  await push("main");
  await answersWith(app, "v5");
  assert.equal((await build()).status, "cancelled");
  assert.match((await build()).reason, /newer commit took its place/);
}

async function deploysRewrittenHistory({ app, push }: Step): Promise<void> {
  const { clone } = app;
  await clone.git("reset", "--quiet", "--hard", "HEAD~2");
  const commit = await clone.commit({ "main.py": answering("v6") });
  await push("--force", "main");
  await answersWith(app, "v6");
  assert.equal((await verdict(app)).commit, commit);
}

async function replaysDelivery({ platform, app }: Step): Promise<void> {
  const list = await app.deliveries();
  const built = list.find((one) => one.verdict === "built");
  const replayed = await platform.api("POST", `${app.path}/git-deliveries/${built?.id}/replay`);
  assert.equal(replayed.status, 201, JSON.stringify(replayed.body));
  assert.equal(replayed.body.replayOf, built?.id);
  const last = await verdict(app);
  assert.deepEqual([last.id, last.verdict], [replayed.body.id, "built"]);
  const tag = list.find((one) => one.ref === "refs/tags/v1");
  await platform.api("POST", `${app.path}/git-deliveries/${tag?.id}/replay`);
  assert.equal((await verdict(app)).reason, "tag v1 is not a branch");
  assert.equal((await platform.api("POST", `${app.path}/git-deliveries/${randomUUID()}/replay`)).status, 404);
}

async function rotatesSecret({ platform, app }: Step): Promise<void> {
  const shown = await platform.api("GET", `${app.path}/git-hook`);
  assert.equal(shown.body.url, app.hook.url);
  assert.equal("secret" in shown.body, false);
  const rotated = (await platform.api("POST", `${app.path}/git-hook`)).body;
  assert.equal(rotated.url, app.hook.url);
  const body = JSON.stringify(giteaPush({ ref: "refs/tags/v9" }));
  const send = async (secret: string): Promise<number> =>
    (await fetch(app.hook.url, { method: "POST", body, headers: signed(body, secret) })).status;
  assert.deepEqual([await send(app.hook.secret), await send(rotated.secret)], [401, 200]);
  assert.doesNotMatch(platform.output(), new RegExp(rotated.secret.slice(6, 30).replaceAll("+", "\\+")));
}

const steps: Readonly<Record<string, (step: Step) => Promise<void>>> = {
  "the new code answers, and the delivery names its build": deploysPush,
  "a wrong signature is refused with 401 and listed, and nobody can replay it": refusesWrongSignature,
  "the same delivery twice is one delivery": knowsRepeatedDelivery,
  "other branches, tags and deleted branches are not deployed": ignoresOtherRefs,
  "[skip deploy] in the message is honoured": honoursSkipMark,
  "of two pushes at once the newer one is deployed": deploysNewerOfTwo,
  "a build that runs is superseded by a newer push": supersedesRunningBuild,
  "a rewritten history is deployed": deploysRewrittenHistory,
  "a replayed delivery is judged and built again": replaysDelivery,
  "a new secret ends the old one, and the address stays": rotatesSecret,
};

test("a push is deployed, and one that is not to be deployed says why", async (t) => {
  const fixture = await open(t);
  const app = await openApp(t, fixture);
  const push: Step["push"] = (...args) => app.clone.git("push", "--quiet", "origin", ...args);
  for (const [name, step] of Object.entries(steps)) await t.test(name, () => step({ ...fixture, app, push }));
});

test("only pushes that touch the app's folder are deployed, and the host learns what became of them", async (t) => {
  const fixture = await open(t);
  const { platform, server, statuses } = fixture;
  const { projectId } = platform.bootstrap;
  const credential = { kind: "token", secret: "t0k" };
  const set = await platform.api("PUT", `/v2/projects/${projectId}/git-credentials/${server.host}`, credential);
  assert.equal(set.status, 200);
  const app = await openApp(t, fixture, { repo: "chat", gitBranch: "release", gitPath: "apps/chat" });
  const { clone } = app;

  await clone.commit({ "docs/a.md": "1", "apps/chatty/main.py": "" });
  await clone.git("push", "--quiet");
  assert.equal((await verdict(app)).reason, "nothing below apps/chat changed");

  // The host lists five commits; the change is in an older one.
  const touched = await clone.commit({ "apps/chat/main.py": answering("v2") });
  for (let number = 0; number < 6; number++) await clone.commit({ "docs/a.md": `more ${number}` });
  const newest = await clone.git("rev-parse", "HEAD");
  assert.notEqual(touched, newest);
  await clone.git("push", "--quiet");
  await answersWith(app, "v2");
  assert.equal((await verdict(app)).commit, newest);

  const told = (commit: string): Json[] => statuses.filter(({ path }) => path.endsWith(commit)).map(({ body }) => body);
  await until("the host knows of the success", () => told(newest).some(({ state }) => state === "success"), {
    deadlineMs: 60_000,
  });
  const [first] = statuses;
  assert.equal(first?.path, `/api/v1/repos/acme/chat/statuses/${newest}`);
  assert.equal(first?.token, "token t0k");
  const states = told(newest).map(({ state }) => state);
  assert.ok(new Set(states).size <= 2 && states.at(-1) === "success", states.join());
  const success = told(newest).at(-1) ?? {};
  assert.equal(success["target_url"], `${platform.bootstrap.apiUrl}/v4/${projectId}/chat`);
  assert.equal(success["context"], `slipway/${projectId}-chat`);

  const broken = await clone.commit({ "apps/chat/main.py": "def run(:\n" });
  await clone.git("push", "--quiet");
  await until("the host knows of the failure", () => told(broken).some(({ state }) => state === "failure"), {
    deadlineMs: 60_000,
  });
  const { buildId } = await verdict(app);
  const { reason } = (await platform.api("GET", `${app.path}/builds/${buildId}`)).body;
  const failure = told(broken).find(({ state }) => state === "failure") ?? {};
  assert.equal(failure["description"], String(reason).split("\n")[0]?.slice(0, 140));
  assert.match(failure["target_url"] as string, new RegExp(`/dashboard/projects/.*/builds/${buildId}$`));
  assert.equal(await app.answers(), "v2");

  // The repository is gone: the push says so, and the app goes on.
  const body = JSON.stringify(giteaPush({ ref: "refs/heads/release", modified: ["apps/chat/main.py"] }));
  await server.git("acme", "chat", ["config", "--unset", "core.bare"]);
  await server.git("acme", "chat", ["update-ref", "-d", "refs/heads/release"]);
  await fetch(app.hook.url, { method: "POST", body, headers: signed(body, app.hook.secret) });
  const gone = await verdict(app);
  assert.equal(gone.verdict, "failed", JSON.stringify(gone));
  assert.equal(gone.reason, "acme/chat has no branch release");
  assert.equal(await app.answers(), "v2");
});
