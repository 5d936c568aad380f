// `slipway link` and `slipway open` against a real management API.
import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { startManagementApi } from "./support/management-api.ts";
import { insertReleases } from "./support/release-rows.ts";
import { commandsAt } from "./support/slipway-command.ts";

test("commands on an app mean that of the folder where none is named, but those that end or change it", async (t) => {
  const api = await startManagementApi(t);
  const cwd = temporaryFolder(t, "app");
  const slipway = commandsAt(t, {
    cwd,
    env: { SLIPWAY_URL: api.baseUrl, SLIPWAY_TOKEN: api.token },
  });
  const nameless = await slipway(["logs"]).ended;
  assert.equal(nameless.code, 2);
  assert.match(
    nameless.stderr,
    /^app is missing: .* This folder neither is linked nor has a slipway\.toml with a name/,
  );
  writeFileSync(join(cwd, "main.py"), "def run():\n    pass\n");
  writeFileSync(join(cwd, "slipway.toml"), '[cerebrium.deployment]\nname = "bound"\n');
  assert.equal((await slipway(["deploy", "--detach"]).ended).code, 0);
  for (const words of [
    ["logs"],
    ["runs", "list"],
    ["runs"],
    ["releases"],
    ["builds"],
    ["builds", "show"],
    ["apps", "show"],
  ])
    assert.equal((await slipway(words).ended).code, 0, words.join(" "));
  const run = "0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c";
  assert.match(
    (await slipway(["runs", "show", run]).ended).stderr,
    new RegExp(`no run ${run}.*runs list bound`),
  );
  assert.match(
    (await slipway(["logs", "bount"]).ended).stderr,
    /^The project has no app "bount"\. Did you mean bound/,
  );
  for (const words of [
    ["apps", "stop"],
    ["apps", "delete", "--yes"],
    ["runs", "purge", "--yes"],
  ])
    assert.match(
      (await slipway(words).ended).stderr,
      /^app is missing: name or id of the app\./,
      words.join(" "),
    );
  assert.equal((await slipway(["apps", "set", "cpu=1"]).ended).code, 2);
});

test("a linked folder deploys to its app and opens its page, until the link is removed", async (t) => {
  const api = await startManagementApi(t);
  const cwd = temporaryFolder(t, "app");
  writeFileSync(join(cwd, "main.py"), "def run():\n    pass\n");
  const slipway = commandsAt(t, {
    cwd,
    env: { SLIPWAY_URL: api.baseUrl, SLIPWAY_TOKEN: api.token },
  });
  const unnamed = await slipway(["link"]).ended;
  assert.equal(unnamed.code, 2);
  assert.match(unnamed.stderr, /^Name the app: slipway link <app>/);
  const linked = await slipway(["link", "bound"]).ended;
  assert.equal(
    linked.stderr,
    `Linked to bound in the project ${api.projectId}, which slipway deploy will make.\n`,
  );
  assert.equal(readFileSync(join(cwd, ".slipway/.gitignore"), "utf8"), "*\n");
  const deployed = await slipway(["deploy", "--detach", "--json"]).ended;
  assert.equal(deployed.code, 0, deployed.stderr);
  assert.equal(JSON.parse(deployed.stdout).app, "bound");
  const page = `${api.baseUrl}/dashboard/projects/${api.projectId}`;
  assert.equal((await slipway(["open"]).ended).stdout, `${page}/apps/${api.projectId}-bound\n`);
  assert.equal(
    (await slipway(["open", `${api.projectId}-bound`]).ended).stdout,
    `${page}/apps/${api.projectId}-bound\n`,
  );
  const absent = await slipway(["open", "bount"]).ended;
  assert.deepEqual([absent.code, absent.stdout], [4, ""], absent.stderr);
  const asJson = await slipway(["open", "--json"]).ended;
  assert.deepEqual(JSON.parse(asJson.stdout), { url: `${page}/apps/${api.projectId}-bound` });
  const again = await slipway(["link", "bound"]).ended;
  assert.equal(again.stderr, `Linked to bound in the project ${api.projectId}.\n`);
  const removed = await slipway(["link", "--remove", "--json"]).ended;
  assert.equal(removed.stderr, "This folder is no longer linked to bound.\n");
  assert.deepEqual(JSON.parse(removed.stdout), { link: null });
  assert.ok(!existsSync(join(cwd, ".slipway/link.json")));
  writeFileSync(
    join(cwd, ".slipway/link.json"),
    JSON.stringify({ project: "p-00000001", app: "a\x1b[2Jb" }),
  );
  const foreign = await slipway(["link", "--remove"]).ended;
  assert.equal(
    foreign.stderr,
    "This folder is no longer linked to a[2Jb.\n",
    "of a folder that somebody else has packed",
  );
  assert.equal((await slipway(["open"]).ended).stdout, `${page}\n`);
});

test("what a folder that somebody else has packed names is one word in a command to copy", async (t) => {
  const api = await startManagementApi(t);
  const cwd = temporaryFolder(t, "app");
  const slipway = commandsAt(t, {
    cwd,
    env: { SLIPWAY_URL: api.baseUrl, SLIPWAY_TOKEN: api.token },
  });
  assert.equal((await slipway(["link", "bound"]).ended).code, 0);
  const app = "bound; touch was-run";
  writeFileSync(join(cwd, ".slipway/link.json"), JSON.stringify({ project: "p-00000001", app }));
  const { stderr } = await slipway(["runs", "show", "0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"]).ended;
  assert.ok(stderr.endsWith(` slipway runs list '${app}'\n`), stderr);
});

test("an app or a project that would lead to another place of the platform is refused, whoever wrote the file", async (t) => {
  const api = await startManagementApi(t);
  const cwd = temporaryFolder(t, "app");
  const slipway = commandsAt(t, {
    cwd,
    env: { SLIPWAY_URL: api.baseUrl, SLIPWAY_TOKEN: api.token },
  });
  assert.equal((await slipway(["link", "bound"]).ended).code, 0);
  for (const text of ["..", ".", "", "../secrets", "a\\b"]) {
    for (const field of ["app", "project"]) {
      const link = { project: api.projectId, app: "bound", [field]: text };
      writeFileSync(join(cwd, ".slipway/link.json"), JSON.stringify(link));
      const { code, stdout, stderr } = await slipway(["logs"]).ended;
      assert.deepEqual([code, stdout], [1, ""], stderr);
      assert.match(
        stderr,
        new RegExp(
          `^${field} in \\S+link\\.json is ".*", which is no name or id: .* slipway link <app>`,
        ),
      );
    }
  }
  rmSync(join(cwd, ".slipway"), { recursive: true });
  const { code, stderr } = await slipway(["link", ".."]).ended;
  assert.equal(code, 2);
  assert.match(stderr, /^app is "\.\.", which is no name or id/);
  assert.ok(!existsSync(join(cwd, ".slipway/link.json")));
});

test("a number alone is a release of the folder's app, and the answer names the app", async (t) => {
  const api = await startManagementApi(t);
  const cwd = temporaryFolder(t, "app");
  const slipway = commandsAt(t, {
    cwd,
    env: { SLIPWAY_URL: api.baseUrl, SLIPWAY_TOKEN: api.token },
  });
  const body = { name: "bound", gitRepo: "acme/examples" };
  const made = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  await insertReleases(api.db, made.body.appId);
  await slipway(["link", "bound"]).ended;
  const { code, stderr } = await slipway(["rollback", "1"]).ended;
  assert.equal(code, 0, stderr);
  assert.match(stderr, /^Release v1 of bound is live again\./);
  assert.match(
    (await slipway(["rollback", "9"]).ended).stderr,
    /no release v9\. To list them: slipway releases list bound/,
  );
});
