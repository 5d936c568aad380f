// The last stage of a build with the real scheduler and the real process driver: what starts takes
// traffic, what does not leaves its own words in the build log.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Routes } from "#apps/routes.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { ProcessDriver } from "#drivers/process/driver.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { noDemand } from "#scheduler/demand.ts";
import { ReplicaStore } from "#scheduler/replica-store.ts";
import { ReplicaView } from "#scheduler/replica-view.ts";
import { Scheduler } from "#scheduler/scheduler.ts";
import { Notifications } from "#store/notify.ts";
import { buildInState, createApp, requestBuild, startQueue } from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { addInstance } from "#test/support/instances.ts";
import { until } from "#test/support/until.ts";
import { everythingAllowed } from "#test/support/everything-allowed.ts";
import { widePlacement } from "#test/support/wide-placement.ts";
import { diskWatch } from "./support/disk-watch.ts";
import { noCgroups } from "./support/no-cgroups.ts";

const runtimeDir = join(import.meta.dirname, "../../runtimes/python");

/** Everything from the repository to the replica, but no proxy. */
async function open(t: TestContext) {
  const { db, url } = await testDatabase(t);
  const dataDir = temporaryFolder(t, "trial");
  const replicasDir = join(dataDir, "replicas");
  await mkdir(replicasDir);
  const server = await startGitServer(t);
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const routes = new Routes({ clock: systemClock, db, notifications, log: silentLog });
  await routes.start();
  t.after(() => routes.stop());
  const sandbox = await detectSandbox(replicasDir);
  const newDriver = (): ProcessDriver =>
    new ProcessDriver({
      installationId: "trials",
      dataDir,
      replicasDir,
      runtimeDir,
      sandbox,
      cgroups: noCgroups,
      disk: diskWatch(dataDir),
      clock: systemClock,
      log: silentLog,
      storageDir: join(dataDir, "storage"),
      placement: widePlacement(),
    });
  const driver = newDriver();
  const { installationId: instanceId, name } = driver;
  await addInstance(db, { instanceId, name });
  const rows = new ReplicaStore(db);
  const view = new ReplicaView();
  const scheduler = new Scheduler({
    instanceId,
    clock: systemClock,
    driver,
    pendingMs: 600_000,
    zygoteBytes: 0,
    rows,
    routes,
    view,
    log: silentLog,
    demand: { demandOf: () => noDemand },
    occupancy: { running: () => 0, retire: () => undefined },
    environmentOf: () => Promise.resolve({}),
    lines: { append: () => Promise.resolve(), assignLast: () => Promise.resolve() },
    allowance: everythingAllowed,
    exitMs: 30_000,
    endsFile: null,
  });
  await scheduler.start();
  const { stop } = await startQueue(t, {
    db,
    url,
    driver,
    sandbox,
    runtimeDir,
    folder: dataDir,
    trial: scheduler,
    urlTemplate: server.urlTemplate,
    refreshRoute: (appId) => routes.refresh(appId),
  });
  t.after(async () => {
    await stop();
    // It closes the driver and leaves replicas running; before, it would start others in their
    // place.
    await scheduler.stop();
    const last = newDriver();
    await last.open({ event: () => undefined, lines: () => Promise.resolve() });
    for (const { replicaId } of await last.list()) await last.stop(replicaId, { graceMs: 0 });
    await last.close();
  });
  return { db, server, routes };
}

test("an app that starts takes traffic: its route and its first replica are there once the build has succeeded", async (t) => {
  const { db, server, routes } = await open(t);
  await server.createRepo("acme", "app", {
    "main.py": "import helper\ndef run(): return helper.x\n",
    "helper.py": "x = 1\n",
  });
  const app = await createApp(db);
  const { row, log } = await buildInState(db, (await requestBuild(db, app)).buildId, ["success"]);
  assert.match(log.at(-2) ?? "", /^App initialized in \d/);
  assert.equal(log.at(-1), "App started successfully!");
  // Whoever calls before the table of routes has heard of it has it looked up; see
  // proxy-fresh-release.test.ts.
  await until("its route is there", () => routes.byAppId(app.appId)?.live?.buildId === row.id);
  // The scheduler writes the states of replicas behind what happens.
  const replica = await until("its replica is stored as ready", () =>
    db.selectFrom("replicas").select("build_id").where("state", "=", "ready").executeTakeFirst(),
  );
  assert.equal(replica.build_id, row.id);
});

test("an app whose import fails ends as init_failure with its traceback in the build log, and takes no traffic", async (t) => {
  const { db, server, routes } = await open(t);
  await server.createRepo("acme", "app", {
    "main.py": "import json\nraise RuntimeError('the weights are missing')\n",
  });
  const app = await createApp(db);
  const { row, log } = await buildInState(db, (await requestBuild(db, app)).buildId, [
    "init_failure",
  ]);
  const text = log.join("\n");
  assert.match(text, /Traceback[^]*line 2[^]*RuntimeError: the weights are missing/);
  assert.match(row.reason ?? "", /build it again \(POST …\/apps\/\{app\}\/builds\)\.$/);
  assert.deepEqual(log.slice(-2), [`Error: ${row.reason}`, "Error: App failed to start"]);
  assert.equal(routes.byAppId(app.appId)?.live, null);
});

test("an app that cannot start is told what to do: a missing package, a missing variable, no function, no such GPU", async (t) => {
  const { db, server } = await open(t);
  const cases: [string, string, RegExp][] = [
    [
      "package",
      "import yaml\ndef run(): return 1\n",
      /'yaml'\. Add .*: pyyaml = "latest" below \[cerebrium\.dependencies\.pip\]/,
    ],
    [
      "variable",
      "import os\nkey = os.environ['API_KEY']\ndef run(): return 1\n",
      /API_KEY .*, add it to the secrets/,
    ],
    [
      "function",
      "from json import loads\ndef _run(): return 1\n",
      /: main\.py has no public function, so .* define one there/,
    ],
  ];
  for (const [repo, code, advice] of cases) {
    await server.createRepo("acme", repo, { "main.py": code });
    const app = await createApp(db, { name: repo, request: { gitRepo: `acme/${repo}` } });
    const { row } = await buildInState(db, (await requestBuild(db, app)).buildId, ["init_failure"]);
    assert.match(row.reason ?? "", advice);
  }
  await server.createRepo("acme", "app", { "main.py": "def run(): return 1\n" });
  const app = await createApp(db, { name: "gpu", request: { compute: ["HOPPER_H100"] } });
  const { row } = await buildInState(db, (await requestBuild(db, app)).buildId, ["build_failure"]);
  assert.match(
    row.reason ?? "",
    /^The app requests compute HOPPER_H100, but this platform has only CPU\. Request /,
  );
});
