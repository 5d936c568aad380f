// The command line's `deploy` against a real platform: from a folder to an app that answers, what
// is said when it fails, and what Ctrl-C ends.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { commandsAt, type RunningCommand } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const toml = '[cerebrium.deployment]\nname = "hello"\n\n[cerebrium.scaling]\ncooldown = 600\n';
const mainPy = 'def run(name: str = "world"):\n    return {"greeting": f"Hello, {name}!"}\n';

type Files = Readonly<Record<string, string>>;

function appFolder(t: TestContext, files: Files): string {
  const folder = temporaryFolder(t, "app");
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

function slipway(
  t: TestContext,
  platform: PlatformProcess,
  words: readonly string[],
): RunningCommand {
  const { baseUrl, serviceAccountToken, projectId } = platform.bootstrap;
  const env = {
    SLIPWAY_URL: baseUrl,
    SLIPWAY_TOKEN: serviceAccountToken,
    SLIPWAY_PROJECT: projectId,
  };
  return commandsAt(t, { env })(words);
}

test("a folder becomes an app that answers as the command says, and a failure has its reason and its code", async (t) => {
  const platform = await startPlatformOnTestServer(t);
  const folder = appFolder(t, {
    "main.py": mainPy,
    "slipway.toml": toml,
    ".gitignore": "junk\n",
    junk: "x",
  });
  const first = await slipway(t, platform, ["deploy", folder]).ended;
  assert.equal(first.code, 0, first.stderr);
  assert.match(
    first.stderr,
    /^Deploying hello: 2 files, [\d.]+ kB\.\nLeft out by .*: junk\.\nUploaded /,
  );
  assert.match(first.stderr, /^release +App started successfully!/m);
  const [, url = ""] = /^hello is live after [\d.]+ s: (http:\S+)$/m.exec(first.stdout) ?? [];
  assert.match(first.stdout, /Call it: +slipway call hello\/run name=world$/m);
  const [, curl = ""] = /With curl: +(curl .*)$/m.exec(first.stdout) ?? [];
  assert.equal(
    curl,
    `curl -w '\\n' -H "Authorization: Bearer $SLIPWAY_TOKEN" -H 'Content-Type: application/json' -d '{"name":"world"}' ${url}/run`,
  );
  const token = platform.bootstrap.serviceAccountToken;
  const shell = spawn("bash", ["-c", `${curl} -s`], {
    env: { PATH: process.env["PATH"], SLIPWAY_TOKEN: token },
  });
  const answer = (await once(shell.stdout, "data")).join("");
  assert.match(answer, /"result":\{"greeting":"Hello, world!"\}/);

  writeFileSync(join(folder, "main.py"), "raise ValueError('broken at start')\n");
  const failed = await slipway(t, platform, ["deploy", folder, "--json"]).ended;
  assert.equal(failed.code, 1);
  assert.equal(JSON.parse(failed.stdout).status, "init_failure");
  assert.match(
    failed.stderr,
    /^release +Error: .*broken at start.* build it again \(slipway deploy, or for an app of a repository slipway builds start\)\.\n[^]*^hello was not deployed \(init_failure\)\.$/m,
  );
  assert.match(
    failed.stderr,
    /the app did not start; its output is above\. Run it here with slipway dev/,
  );
  assert.match(failed.stderr, /^hello keeps serving its previous release\.$/m);
  assert.equal((await platform.call("hello", "run", {})).status, 200, "what ran before still does");
  assert.deepEqual(
    readdirSync(tmpdir()).filter((name) => name.startsWith("slipway-deploy-")),
    [],
  );
});

test("a rollback says what takes calls until its release does, and ends when it takes them all", async (t) => {
  const platform = await startPlatformOnTestServer(t);
  const held = "/persistent-storage/held";
  // The first release becomes ready once the file is gone, which the second one makes and removes.
  const mainOf = (version: string): string => `import os, time
while "${version}" == "one" and os.path.exists("${held}"):
    time.sleep(0.02)

def run():
    return "${version}"

def hold():
    open("${held}", "w").close()

def let_go():
    os.remove("${held}")
`;
  const folder = appFolder(t, { "main.py": mainOf("one"), "slipway.toml": toml });
  assert.equal((await slipway(t, platform, ["deploy", folder]).ended).code, 0);
  writeFileSync(join(folder, "main.py"), mainOf("two"));
  assert.equal((await slipway(t, platform, ["deploy", folder]).ended).code, 0);
  assert.equal((await platform.call("hello", "hold", {})).status, 200);

  const late = await slipway(t, platform, ["rollback", "hello", "--timeout", "1s"]).ended;
  assert.equal(late.code, 1);
  assert.match(late.stderr, /not changed in time/);
  const { body } = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/apps/hello/releases`,
  );
  const shares = body.items.map((one: Record<string, unknown>) => [
    one["number"],
    one["trafficPercent"],
    one["currentPercent"],
  ]);
  assert.deepEqual(shares, [
    [2, 0, 100],
    [1, 100, 0],
  ]);
  const unwaited = await slipway(t, platform, ["rollback", "hello", "2", "--no-wait"]).ended;
  assert.equal(unwaited.stderr, "Release v2 of hello is live again and takes all calls.\n");

  const result = async (): Promise<unknown> =>
    ((await (await platform.call("hello", "run", {})).json()) as { result: unknown }).result;
  const going = slipway(t, platform, ["rollback", "hello", "1"]);
  const said = "v2 still takes calls, until replicas of v1 are ready. ";
  await until("it says what takes the calls", () => going.stderr().startsWith(said));
  assert.equal(await result(), "two");
  assert.equal((await platform.call("hello", "let_go", {})).status, 200);
  const { code, stderr } = await going.ended;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /\nRelease v1 of hello is live again and takes all calls\.\n$/);
  assert.equal(await result(), "one");
});

test("Ctrl-C leaves the build and says how to follow it; a repository is deployed with --git, files instead with --yes", async (t) => {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": mainPy, "slipway.toml": toml });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const slow = "import time\ntime.sleep(600)\n\ndef run():\n    pass\n";
  const folder = appFolder(t, { "main.py": slow, "slipway.toml": toml.replace("hello", "slow") });
  const deploying = slipway(t, platform, ["deploy", folder]);
  await until("the app starts", () => /^start /m.test(deploying.stderr()), { deadlineMs: 60_000 });
  deploying.interrupt();
  const { code, stderr } = await deploying.ended;
  assert.equal(code, 130);
  const [, app = "", build = ""] =
    /To cancel it: +slipway builds cancel (\S+) (\S+)$/m.exec(stderr) ?? [];
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${app}/builds/${build}`;
  assert.equal((await platform.api("GET", path)).body.status, "initializing");
  assert.equal((await platform.api("DELETE", path)).status, 200);

  const clone = temporaryFolder(t, "clone");
  const url = git.urlTemplate.replace("{owner}", "acme").replace("{repo}", "app");
  assert.deepEqual(await once(spawn("git", ["clone", "-q", url, clone]), "close"), [0, null]);
  for (const from of ["create", "build"]) {
    const built = await slipway(t, platform, ["deploy", clone, "--git"]).ended;
    assert.equal(built.code, 0, `${from}: ${built.stderr}`);
    assert.match(
      built.stderr,
      /^Deploying hello from http:\/\/127\.0\.0\.1:\d+\/acme\/app(\.git)?, branch \w+ …/,
    );
  }
  const refused = await slipway(t, platform, ["deploy", clone]).ended;
  assert.equal(refused.code, 2);
  assert.match(
    refused.stderr,
    /^hello is deployed from the repository acme\/app\. .*slipway deploy --git\n/,
  );
  const uploaded = await slipway(t, platform, ["deploy", clone, "--yes"]).ended;
  assert.equal(uploaded.code, 0, uploaded.stderr);
  const back = await slipway(t, platform, ["deploy", clone, "--git"]).ended;
  assert.equal(back.code, 0, back.stderr);
  const { body } = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/apps/hello`,
  );
  assert.equal(body.gitRepo, "acme/app");
});

test("a folder that cannot be deployed is refused before anything is sent, with what to do", async (t) => {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_UPLOAD_SIZE_MB: "1" });
  const refusals: readonly [Files, number, RegExp][] = [
    [{ "main.py": mainPy }, 2, /has no slipway\.toml\. Make one: slipway init\. Or name the app/],
    [{ "slipway.toml": toml }, 2, /has no main\.py among the files to deploy.*\n.*slipway init/],
    [{ "slipway.toml": toml.replace("hello", "A") }, 2, /has no main\.py/],
    [{ "main.py": mainPy, "slipway.toml": toml.replace("hello", "A") }, 2, /^name is "A", but/m],
    [
      { "main.py": mainPy, "slipway.toml": `${toml}[cerebrium.hardware]\ncpu = 0` },
      2,
      /^hardware\.cpu in slipway\.toml is 0,/m,
    ],
  ];
  for (const [files, code, message] of refusals) {
    const ended = await slipway(t, platform, ["deploy", appFolder(t, files)]).ended;
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, message);
  }
  const noise = Array.from({ length: 2_000_000 }, () =>
    String.fromCharCode(33 + Math.random() * 90),
  ).join("");
  const large = appFolder(t, { "main.py": mainPy, "slipway.toml": toml, "weights.txt": noise });
  const ended = await slipway(t, platform, ["deploy", large]).ended;
  assert.equal(ended.code, 1);
  assert.match(
    ended.stderr,
    /The upload is larger than 1(\.0)? MB .*\nThe largest files: weights\.txt \(2\.0 MB\)/,
  );
  const builds = await platform.api(
    "GET",
    `/v2/projects/${platform.bootstrap.projectId}/apps/hello/builds`,
  );
  assert.equal((builds.body as { status: string }[])[0]?.status, "cancelled");
});
