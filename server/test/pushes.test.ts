// Automatic deployment from outside: a real push to a real git server, whose hook calls the
// platform, until the new code answers; and every push that is not deployed, with its reason.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { drawTests } from "./support/drawn-cases.ts";
import { deploy } from "./support/examples.ts";
import { pipVersion } from "./support/give-pip.ts";
import type { Json } from "./support/management-api.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { giteaPush } from "./support/push-payloads.ts";
import {
  answering,
  answersWith,
  openPushedApp,
  openPushFixture,
  signed,
  verdict,
  type PushedApp,
} from "./support/pushed-app.ts";
import { until } from "./support/until.ts";

const test = drawTests({ what: "kinds of pushes", count: 4, max: 2 });

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
  assert.equal(
    (await platform.api("POST", `${app.path}/git-deliveries/${last.id}/replay`)).status,
    409,
  );
  const unknown = await fetch(app.hook.url.replace(/.{4}$/, "XXXX"), { method: "POST", body });
  assert.equal(unknown.status, 404);
}

async function knowsRepeatedDelivery({ app }: Step): Promise<void> {
  const [sent] = await app.sent();
  const before = await app.deliveries();
  const again = await fetch(app.hook.url, {
    method: "POST",
    body: sent?.body ?? "",
    headers: sent?.headers ?? {},
  });
  assert.equal(again.status, 200);
  assert.equal(((await again.json()) as Json).id, sent?.answer.id);
  assert.equal((await app.deliveries()).length, before.length);
  // Under another id it is a new delivery, of a commit that is known.
  const headers = signed(sent?.body ?? "", app.hook.secret);
  await fetch(app.hook.url, { method: "POST", body: sent?.body ?? "", headers });
  assert.match(
    (await verdict(app)).reason,
    /is still the newest commit of main and was handled before$/,
  );
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
  assert.equal(
    (await verdict(app)).reason,
    `the message of ${commit.slice(0, 7)} contains [skip deploy]`,
  );
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
  assert.ok(
    older === undefined || ["cancelled", "success"].includes(older.status),
    JSON.stringify(older),
  );
  assert.equal(await app.answers(), "v4");
}

async function supersedesRunningBuild({ platform, app, push }: Step): Promise<void> {
  const { clone } = app;
  const slow = {
    "slipway.toml": `[cerebrium.deployment]\npython_version = "${pipVersion}"\nshell_commands = ["sleep 60"]\n`,
  };
  await clone.commit({ ...slow, "main.py": answering("slow") });
  await push("main");
  const { buildId } = await verdict(app);
  const build = async (): Promise<Json> =>
    (await platform.api("GET", `${app.path}/builds/${buildId}`)).body;
  await until("the build runs", async () => (await build()).status === "building", {
    deadlineMs: 30_000,
  });
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
  assert.equal(
    (await platform.api("POST", `${app.path}/git-deliveries/${randomUUID()}/replay`)).status,
    404,
  );
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
  assert.doesNotMatch(
    platform.output(),
    new RegExp(rotated.secret.slice(6, 30).replaceAll("+", "\\+")),
  );
}

async function staysRolledBack({ platform, app, push }: Step): Promise<void> {
  const before = await app.answers();
  await app.clone.commit({ "main.py": answering("v7") });
  await push("main");
  await answersWith(app, "v7");
  const rolledBack = await platform.api("POST", `${app.path}/rollback`);
  assert.equal(rolledBack.status, 200, JSON.stringify(rolledBack.body));
  await answersWith(app, before as string);
  await app.clone.commit({ "main.py": answering("v8") });
  await push("main");
  assert.match(
    (await verdict(app)).reason,
    /^paused: The app was rolled back from v\d+ to v\d+\.$/,
  );
  assert.equal((await platform.api("POST", `${app.path}/resume-deploys`)).status, 200);
  const [paused] = await app.deliveries();
  assert.equal(
    (await platform.api("POST", `${app.path}/git-deliveries/${paused?.id}/replay`)).status,
    201,
  );
  await answersWith(app, "v8");
}

async function waitsForStart({ platform, app, push }: Step): Promise<void> {
  assert.equal((await platform.api("POST", `${app.path}/stop`)).status, 200);
  await app.clone.commit({ "main.py": answering("older") });
  await push("main");
  const newest = await app.clone.commit({ "main.py": answering("v9") });
  await push("main");
  await until("both wait", async () => {
    for (const one of (await app.deliveries()).slice(0, 2))
      assert.deepEqual(
        [one.verdict, one.reason],
        ["waiting", "the app is stopped; this waits for its start"],
      );
    return true;
  });
  assert.equal((await platform.api("POST", `${app.path}/start`)).status, 200);
  await answersWith(app, "v9");
  const [last, older] = await app.deliveries();
  assert.deepEqual([last?.verdict, last?.commit], ["built", newest]);
  assert.equal(older?.reason, `${newest.slice(0, 7)} is newer`);
}

async function obeysAutoDeploy({ platform, app, push }: Step): Promise<void> {
  const before = await app.answers();
  const builds = async (): Promise<number> =>
    (await platform.api("GET", `${app.path}/builds`)).body.length;
  const count = await builds();
  const set = async (gitAutoDeploy: boolean): Promise<void> =>
    assert.equal((await platform.api("PATCH", app.path, { gitAutoDeploy })).status, 200);
  await set(false);
  await app.clone.commit({ "main.py": answering("not automatically") });
  await push("main");
  const { verdict: judged, reason } = await verdict(app);
  assert.deepEqual([judged, reason], ["ignored", "gitAutoDeploy is false"]);
  assert.deepEqual([await builds(), await app.answers()], [count, before]);
  await set(true);
  await app.clone.commit({ "main.py": answering("automatically") });
  await push("main");
  await answersWith(app, "automatically");
  assert.equal(await builds(), count + 1);
}

const steps: Readonly<Record<string, (step: Step) => Promise<void>>> = {
  "the new code answers, and the delivery names its build": deploysPush,
  "a wrong signature is refused with 401 and listed, and nobody can replay it":
    refusesWrongSignature,
  "the same delivery twice is one delivery": knowsRepeatedDelivery,
  "other branches, tags and deleted branches are not deployed": ignoresOtherRefs,
  "[skip deploy] in the message is honoured": honoursSkipMark,
  "with gitAutoDeploy false nothing is built, and with true again the next push is":
    obeysAutoDeploy,
  "of two pushes at once the newer one is deployed": deploysNewerOfTwo,
  "a build that runs is superseded by a newer push": supersedesRunningBuild,
  "a rewritten history is deployed": deploysRewrittenHistory,
  "a replayed delivery is judged and built again": replaysDelivery,
  "a rollback holds against pushes until somebody resumes them": staysRolledBack,
  "pushes of a stopped app wait for its start, and the newest is deployed": waitsForStart,
  "a new secret ends the old one, and the address stays": rotatesSecret,
};

test("a push is deployed, and one that is not to be deployed says why", async (t) => {
  const fixture = await openPushFixture(t);
  const app = await openPushedApp(t, fixture);
  const push: Step["push"] = (...args) => app.clone.git("push", "--quiet", "origin", ...args);
  for (const [name, step] of Object.entries(steps))
    await t.test(name, () => step({ ...fixture, app, push }));
});

test("only pushes that touch the app's folder are deployed, and the host learns what became of them", async (t) => {
  const fixture = await openPushFixture(t);
  const { platform, server, statuses } = fixture;
  const { projectId } = platform.bootstrap;
  const credential = { kind: "token", secret: "t0k" };
  const set = await platform.api(
    "PUT",
    `/v2/projects/${projectId}/git-credentials/${server.host}`,
    credential,
  );
  assert.equal(set.status, 200);
  const app = await openPushedApp(t, fixture, {
    repo: "chat",
    gitBranch: "release",
    gitPath: "apps/chat",
  });
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

  const told = (commit: string): Json[] =>
    statuses.filter(({ path }) => path.endsWith(commit)).map(({ body }) => body);
  await until(
    "the host knows of the success",
    () => told(newest).some(({ state }) => state === "success"),
    {
      deadlineMs: 60_000,
    },
  );
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
  await until(
    "the host knows of the failure",
    () => told(broken).some(({ state }) => state === "failure"),
    {
      deadlineMs: 60_000,
    },
  );
  const { buildId } = await verdict(app);
  const { reason } = (await platform.api("GET", `${app.path}/builds/${buildId}`)).body;
  const failure = told(broken).find(({ state }) => state === "failure") ?? {};
  assert.equal(failure["description"], String(reason).split("\n")[0]?.slice(0, 140));
  assert.match(
    failure["target_url"] as string,
    new RegExp(`/dashboard/projects/.*/builds/${buildId}$`),
  );
  assert.equal(await app.answers(), "v2");

  // The repository is gone: the push says so, and the app goes on.
  const body = JSON.stringify(
    giteaPush({
      repository: "acme/chat",
      ref: "refs/heads/release",
      modified: ["apps/chat/main.py"],
    }),
  );
  const send = async (): Promise<Json> => {
    await fetch(app.hook.url, { method: "POST", body, headers: signed(body, app.hook.secret) });
    return await verdict(app);
  };
  await server.git("acme", "chat", ["update-ref", "-d", "refs/heads/release"]);
  const branchGone = await send();
  assert.deepEqual(
    [branchGone.verdict, branchGone.reason],
    ["failed", "acme/chat has no branch release"],
  );
  await server.git("acme", "chat", ["config", "core.repositoryformatversion", "99"]);
  const gone = await send();
  assert.equal(gone.verdict, "failed");
  assert.match(gone.reason, /acme\/chat/);
  assert.equal(await app.answers(), "v2");
});

test("without a hook the branch is polled, and a push while the platform is away is not missed", async (t) => {
  const { platform, server } = await openPushFixture(t, { SLIPWAY_GIT_POLL_SECONDS: "1" });
  await server.createRepo(
    "acme",
    "polled",
    { "main.py": answering("v1"), "docs/a.md": "" },
    "trunk",
  );
  const { appId, status, log } = await deploy(platform, { name: "polled", gitRepo: "acme/polled" });
  assert.equal(status, "success", log);
  const other = await deploy(platform, {
    name: "other",
    gitRepo: "acme/polled",
    gitPath: "docs",
    gitAutoDeploy: false,
  });
  assert.equal(other.status, "build_failure");
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`;
  const deliveries = async (): Promise<readonly Json[]> =>
    (await platform.api("GET", `${path}/git-deliveries`)).body.items;
  const answers = async (expected: string): Promise<void> => {
    const isAnswered = async (): Promise<boolean> => {
      const answer = await platform.call("polled", "run", {});
      return ((await answer.json()) as { result?: unknown }).result === expected;
    };
    await until(`it answers ${expected}`, isAnswered, { deadlineMs: 60_000 });
  };

  const commit = await server.push("acme", "polled", { "main.py": answering("v2") }, "trunk");
  await answers("v2");
  const [found] = await deliveries();
  assert.deepEqual(
    [found?.host, found?.event, found?.commit, found?.ref],
    [null, "poll", commit, "refs/heads/trunk"],
  );

  await platform.end("SIGKILL");
  await server.push("acme", "polled", { "main.py": answering("v3") }, "trunk");
  await platform.restart();
  await answers("v3");
  assert.equal((await deliveries()).length, 2);

  // Also where a hook has worked, whose host sends nothing again.
  const { url, secret } = (await platform.api("POST", `${path}/git-hook`)).body;
  const headers = { ...signed("{}", secret), "x-gitea-event": "ping" };
  assert.equal((await fetch(url, { method: "POST", body: "{}", headers })).status, 200);
  assert.equal((await deliveries())[0]?.reason, "the event ping is not a push");
  await platform.end("SIGKILL");
  await server.push("acme", "polled", { "main.py": answering("v4") }, "trunk");
  await platform.restart();
  await answers("v4");
});

test("apps of a repository that is gone are told once, and go on", async (t) => {
  const { platform, server } = await openPushFixture(t, { SLIPWAY_GIT_POLL_SECONDS: "1" });
  await server.createRepo("acme", "gone", { "main.py": answering("v1") });
  const { appId } = await deploy(platform, { name: "gone", gitRepo: "acme/gone" });
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/git-deliveries`;
  await server.git("acme", "gone", ["config", "core.repositoryformatversion", "99"]);
  const failed = async (): Promise<Json[]> => (await platform.api("GET", path)).body.items;
  await until("the app is told", async () => (await failed()).length > 0, { deadlineMs: 60_000 });
  const asked = server.requests.length;
  await until("it is asked again", () => server.requests.length > asked, { deadlineMs: 60_000 });
  const [only, ...others] = await failed();
  assert.deepEqual([only?.verdict, others], ["failed", []]);
  assert.match(only?.reason, /acme\/gone/);
  assert.equal((await platform.call("gone", "run", {})).status, 200);
});
