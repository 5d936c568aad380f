// Repositories of several git hosts: addresses as people paste them, stored in one form, fetched
// only from hosts that the operator has named.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { deploy } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startManagementApi, type ApiAnswer } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { commandsAt } from "./support/slipway-command.ts";

test("an address of the default host is stored as owner/repo, and the same one later changes nothing", async (t) => {
  const api = await startManagementApi(t);
  const create = (name: string, gitRepo: string): Promise<ApiAnswer> =>
    api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body: { name, gitRepo } });
  const repositoryOf = async (name: string): Promise<string> =>
    (await api.call("GET", `/v2/projects/${api.projectId}/apps/${name}`)).body.gitRepo;
  assert.equal((await create("pasted", "git@github.com:acme/shop.git")).status, 201);
  assert.equal(await repositoryOf("pasted"), "acme/shop");
  const app = `/v2/projects/${api.projectId}/apps/pasted`;
  const same = await api.call("PATCH", app, { body: { gitRepo: "https://github.com/acme/shop/" } });
  assert.deepEqual([same.status, same.body.change], [200, null], JSON.stringify(same.body));
  const other = await api.call("PATCH", app, {
    body: { gitRepo: "https://GitHub.com/acme/other.git" },
  });
  assert.deepEqual(
    [other.status, other.body.changed],
    [200, ["gitRepo"]],
    JSON.stringify(other.body),
  );
  assert.equal(await repositoryOf("pasted"), "acme/other");

  const foreign = await create("foreign", "https://git.internal/acme/shop");
  const why = 'gitRepo is on "git.internal", but must be on github.com here (SLIPWAY_GIT_HOSTS).';
  assert.deepEqual([foreign.status, foreign.body.message], [400, why]);
  assert.equal(
    (await api.call("PATCH", app, { body: { gitRepo: "http://127.0.0.1:7070/a/b" } })).status,
    400,
  );
  const secret = await create("secret", "https://me:hunter2@github.com/acme/shop");
  assert.equal(secret.status, 400);
  assert.match(secret.body.message, /set the credential of the host/);
  const audit = await api.db.selectFrom("audit_log").selectAll().execute();
  assert.doesNotMatch(JSON.stringify([audit, secret.body]), /hunter2/);
});

test("an app is deployed from a second host that the operator allows, and from no other", async (t) => {
  const first = await startGitServer(t);
  const second = await startGitServer(t);
  await first.createRepo("acme", "app", { "main.py": "def run():\n    return 'first'\n" });
  await second.createRepo("acme", "app", { "main.py": "def run():\n    return 'second'\n" });
  const settings = {
    SLIPWAY_GIT_URL: first.urlTemplate,
    SLIPWAY_GIT_HOSTS: `gitlab.com, ${second.urlTemplate}`,
  };
  const platform = await startPlatformOnTestServer(t, settings);
  const host = new URL(second.urlTemplate).host;
  const app = await deploy(platform, { name: "elsewhere", gitRepo: `http://${host}/acme/app.git` });
  assert.equal(app.status, "success", app.log);
  assert.match(app.log, new RegExp(`of https://${host}/acme/app`));
  const called = (await (await platform.call("elsewhere", "run", {})).json()) as { result: string };
  assert.equal(called.result, "second");
  const { projectId } = platform.bootstrap;
  const detail = await platform.api("GET", `/v2/projects/${projectId}/apps/${app.appId}`);
  assert.equal(detail.body.gitRepo, `https://${host}/acme/app`);
  const foreign = await platform.api("POST", `/v2/projects/${projectId}/apps/git`, {
    name: "foreign",
    gitRepo: `http://${platform.bootstrap.baseUrl.split("//")[1]}/acme/app`,
  });
  assert.equal(foreign.status, 400);
  assert.match(
    String(foreign.body.message),
    new RegExp(`must be on .*gitlab\\.com or ${host} here`),
  );
});

test("a git host below a path is deployed from by the repository's own address, also by the command line", async (t) => {
  const git = await startGitServer(t, { below: "/cgi-bin/git" });
  await git.createRepo("acme", "shop", { "main.py": "def run():\n    return 'below'\n" });
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const url = git.urlTemplate.replace("{owner}", "acme").replace("{repo}", "shop");
  const app = await deploy(platform, { name: "below", gitRepo: url });
  assert.equal(app.status, "success", app.log);
  assert.match(app.log, /of acme\/shop by/);
  const clone = temporaryFolder(t, "clone");
  assert.deepEqual(await once(spawn("git", ["clone", "-q", url, clone]), "close"), [0, null]);
  const { baseUrl, serviceAccountToken, projectId } = platform.bootstrap;
  const env = {
    SLIPWAY_URL: baseUrl,
    SLIPWAY_TOKEN: serviceAccountToken,
    SLIPWAY_PROJECT: projectId,
  };
  const built = await commandsAt(t, { env })(["deploy", clone, "--git", "--name", "below"]).ended;
  assert.equal(built.code, 0, built.stderr);
  assert.match(
    built.stderr,
    /^Deploying below from http:\/\/127\.0\.0\.1:\d+\/cgi-bin\/git\/acme\/shop\.git/,
  );
});
