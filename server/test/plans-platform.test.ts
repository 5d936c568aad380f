// The file of plans on a whole platform: what it says is kept from the first request on, and a file
// that cannot be used, or that lacks a plan which projects have, keeps the platform from starting.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { drawTests } from "./support/drawn-cases.ts";
import { gatedApp, startCallGate } from "./support/call-gate.ts";
import { deploy } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import "#test/support/leftovers.ts";

const test = drawTests({ what: "tests of plans on a whole platform", count: 2, max: 1 });

const plans = `default = "free"

[plans.free]
apps = 1
audit_retention_days = 7
log_retention_days = 2
monthly_credit_cents = 500

[plans.paid]
replicas = 10
`;

const create = (platform: PlatformProcess, name: string) =>
  platform.api("POST", `/v2/projects/${platform.bootstrap.projectId}/apps/git`, {
    name,
    gitRepo: "acme/none",
  });

test("plans are kept, and a file that does not fit keeps the platform from starting and says why", async (t) => {
  const file = join(temporaryFolder(t, "plans"), "plans.toml");
  await writeFile(file, plans);
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_PLANS_FILE: file });
  const { baseUrl, projectId, operatorToken } = platform.bootstrap;
  assert.equal((await create(platform, "first")).status, 201);
  const refused = await create(platform, "second");
  assert.equal(refused.status, 403);
  assert.match(
    refused.body.message,
    /^The plan "free" allows the project 1 app, and it already has that many: /,
  );
  const plan = await platform.api("GET", `/v2/projects/${projectId}/plan`);
  assert.deepEqual(
    [plan.body.plan, plan.body.used.apps, plan.body.log_retention_days],
    ["free", 1, 2],
  );
  const retention = async () =>
    (await platform.api("GET", `/v2/projects/${projectId}/audit-log`)).body.retentionDays;
  assert.equal(await retention(), 7);
  const applied = async () =>
    (await platform.api("GET", `/v2/projects/${projectId}/billing/coupons`)).body;
  await until(
    "the first project has its credit",
    async () => JSON.stringify(await applied()).includes("plan free"),
    {
      deadlineMs: 30_000,
    },
  );

  const given = await fetch(`${baseUrl}/v2/operator/projects/${projectId}`, {
    method: "PATCH",
    headers: { authorization: `Bearer ${operatorToken}`, "content-type": "application/json" },
    body: JSON.stringify({ plan: "paid" }),
  });
  assert.equal(given.status, 200, await given.text());
  await until("the retention is the platform's", async () => (await retention()) === 365);
  assert.equal((await create(platform, "second")).status, 201);
  await platform.end("SIGTERM");

  await writeFile(file, plans.replace("[plans.paid]\nreplicas = 10\n", ""));
  const lacking =
    /1 project has the plan "paid", which SLIPWAY_PLANS_FILE does not contain\. Put it back/;
  await assert.rejects(platform.restart(), lacking);
  await writeFile(file, plans.replace("replicas = 10", "replicas = true"));
  const wrong =
    /SLIPWAY_PLANS_FILE \(.*plans\.toml\) cannot be used: line 10: plans\.paid\.replicas is true, but must be a whole/;
  await assert.rejects(platform.restart(), wrong);
  await assert.rejects(
    platform.restart({ environment: { SLIPWAY_PLANS_FILE: `${file}.gone` } }),
    /SLIPWAY_PLANS_FILE \(.*\.gone\) cannot be used: there is no file /,
  );
  await writeFile(file, plans);
  await platform.restart();
  assert.equal((await platform.api("GET", `/v2/projects/${projectId}/plan`)).body.plan, "paid");
});

test("two apps of a project that may have one replica take turns on real replicas, and a busy one is waited for", async (t) => {
  const file = join(temporaryFolder(t, "plans"), "plans.toml");
  await writeFile(file, 'default = "one"\n[plans.one]\nreplicas = 1\n');
  const git = await startGitServer(t);
  const gate = await startCallGate(t);
  const toml = '[cerebrium.deployment]\npython_version = "3.11"\n';
  for (const name of ["first", "second"])
    await git.createRepo("acme", name, { "main.py": gatedApp, "slipway.toml": toml });
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_PLANS_FILE: file,
    SLIPWAY_GIT_URL: git.urlTemplate,
    ...gate.settings,
  });
  const apps: string[] = [];
  for (const name of ["first", "second"]) {
    const app = await deploy(platform, {
      name,
      gitRepo: `acme/${name}`,
      cooldownPeriodSeconds: 3600,
    });
    assert.equal(app.status, "success", app.log);
    apps.push(app.appId);
  }
  const ready = async (): Promise<number> => {
    const { body } = await platform.api("GET", `/v2/projects/${platform.bootstrap.projectId}/plan`);
    return body.used.replicas;
  };
  for (const name of ["first", "second", "first"]) {
    assert.equal((await platform.call(name, "run", {})).status, 200);
    await until("one replica is left", async () => (await ready()) === 1);
  }
  const busy = platform.call("first", "run", { gate: gate.urls });
  await until("the first is busy", () => gate.waiting() === 1);
  const waiting = platform.call("second", "run", {});
  const second = `/v2/projects/${platform.bootstrap.projectId}/apps/${apps[1]}`;
  const reason = await until(
    "the second waits",
    async () => (await platform.api("GET", second)).body.waitReason,
  );
  assert.match(
    String(reason),
    /^The plan "one" allows the project 1 replica, which is in use or about to end;/,
  );
  gate.open();
  assert.deepEqual([(await busy).status, (await waiting).status], [200, 200]);
});
