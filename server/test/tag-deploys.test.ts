// Deploying a tag and a short commit through the platform: what the command line deploys, and that
// no push moves it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const answering = (text: string): string => `def run():\n    return "${text}"\n`;

test("a tag and a commit are deployed by --ref, and pushes to branches do not move them", async (t) => {
  const git = await startGitServer(t);
  const first = await git.createRepo("acme", "app", { "main.py": answering("first") });
  await git.git("acme", "app", ["tag", "--annotate", "--message", "One", "v1", first]);
  const second = await git.push("acme", "app", { "main.py": answering("second") });
  const settings = { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_GIT_POLL_SECONDS: "1" };
  const platform = await startPlatformOnTestServer(t, settings);
  const clone = temporaryFolder(t, "clone");
  const url = git.urlTemplate.replace("{owner}", "acme").replace("{repo}", "app");
  assert.deepEqual(await once(spawn("git", ["clone", "-q", url, clone]), "close"), [0, null]);
  const { baseUrl, serviceAccountToken, projectId } = platform.bootstrap;
  const env = {
    SLIPWAY_URL: baseUrl,
    SLIPWAY_TOKEN: serviceAccountToken,
    SLIPWAY_PROJECT: projectId,
  };
  const deploy = (...words: readonly string[]) =>
    commandsAt(t, { env })(["deploy", clone, "--name", "app", ...words]).ended;
  const path = `/v2/projects/${projectId}/apps/app`;
  type Called = { readonly result?: unknown };
  const answer = async (): Promise<unknown> =>
    ((await (await platform.call("app", "run", {})).json()) as Called).result;

  const alone = await deploy("--ref", "v1");
  assert.deepEqual([alone.code, alone.stderr.trim()], [2, "--ref needs --git."]);
  const made = await deploy("--git", "--ref", "v1");
  assert.equal(made.code, 0, made.stderr);
  assert.match(made.stderr, /^Deploying app from .*, at v1 …/);
  assert.equal(await answer(), "first");
  const build = (await platform.api("GET", `${path}/builds`)).body[0];
  assert.deepEqual([build.commit, build.branch], [first, "v1"]);

  await git.push("acme", "app", { "main.py": answering("third") });
  const asked = git.requests.length;
  const isAskedAgain = (): boolean => git.requests.length > asked + 4;
  await until("the branches were looked at again", isAskedAgain, { deadlineMs: 60_000 });
  assert.equal((await platform.api("GET", `${path}/builds`)).body.length, 1);

  const moved = await deploy("--git", "--ref", second.slice(0, 7));
  assert.equal(moved.code, 0, moved.stderr);
  assert.equal(await answer(), "second");
  const { status, body } = await platform.api("POST", `${path}/builds`, {
    commit: first.slice(0, 8),
  });
  assert.equal(status, 201, JSON.stringify(body));
  const isFirst = async (): Promise<boolean> => (await answer()) === "first";
  await until("the commit of the build answers", isFirst, { deadlineMs: 60_000 });
  const again = (await platform.api("GET", `${path}/builds/${body.buildId}`)).body;
  assert.deepEqual([again.commit, again.status], [first, "success"]);
});
