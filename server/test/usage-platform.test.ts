// Usage on a whole platform: an app is built, started, called and left alone until it stops; what
// the API says that it cost is what the rows of its replicas and its build say, to the micro-unit.
// And a kill right behind each step of metering, while replicas run on, loses and doubles nothing.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { appCost, projectCost, usageAnswer } from "@slipway/contract/usage-routes.ts";
import { meterSteps } from "#billing/usage/meter-step.ts";
import { Meter } from "#billing/usage/meter.ts";
import { builtInPrices, rateAt } from "#billing/usage/prices.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Db } from "#store/database.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { testDatabase } from "#test/support/database.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import "#test/support/leftovers.ts";
import { startPlatform, type PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";
import { assertReplicasExact, assertSums, type AttosOf } from "./usage-exact.ts";
import { SetClock, UsageStage } from "./usage-stage.ts";

const crashing = join(import.meta.dirname, "support/crashing-platform.ts");

/** Takes a second to start, which is usage, as its code runs. */
const app = `import time

time.sleep(1)

def run(number):
    return {"number": number}
`;

/** A command makes an environment of the app's own, which takes time that is billed. */
const toml = `[cerebrium.deployment]
name = "app"
shell_commands = ["sleep 0.3"]
`;

const attosOf: AttosOf = (resources, fromMs, toMs) =>
  BigInt(toMs - fromMs) * rateAt(builtInPrices, resources, 0);

type Fixture = {
  readonly platform: PlatformProcess;
  readonly db: Db;
  readonly projectId: ProjectId;
  readonly appId: string;
};

async function fixture(t: TestContext, settings: Record<string, unknown>): Promise<Fixture> {
  const { db, url } = await testDatabase(t);
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": app });
  const platform = await startPlatform(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_DATABASE_URL: url.reveal(),
    SLIPWAY_METERING_SECONDS: "1",
  });
  const wish = {
    name: "app",
    gitRepo: "acme/app",
    pythonVersion: "3.11",
    config_toml: toml,
    cpu: 1.5,
    memory: 3,
  };
  const { appId, status, log } = await deploy(platform, { ...wish, ...settings });
  assert.equal(status, "success", log);
  return { platform, db, projectId: platform.bootstrap.projectId as ProjectId, appId };
}

const money = async ({ platform, projectId }: Fixture, path: string): Promise<unknown> => {
  const { status, body } = await platform.api("GET", `/v2/projects/${projectId}${path}`);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
};

/** Reads the cost of the build's environment from its row. */
async function buildMicros(db: Db): Promise<bigint> {
  const row = await db
    .selectFrom("builds")
    .select(["environment_started_at as from", "environment_ended_at as to"])
    .executeTakeFirstOrThrow();
  const ms = (row.to?.getTime() ?? 0) - (row.from?.getTime() ?? 0);
  assert.ok(ms >= 300, `the environment took ${ms} ms`);
  // 1.5 × 6.55 + 3 × 2.22 micro-units per second.
  return BigInt(Math.round((ms / 1000) * 16.485));
}

test("an app that was deployed, called and stopped costs what its rows say, to the micro-unit", async (t) => {
  const stage = await fixture(t, { minReplicaCount: 0, cooldownPeriodSeconds: 1 });
  const { platform, db, projectId, appId } = stage;
  for (let number = 0; number < 3; number++) {
    const response = await platform.call("app", "run", { number });
    assert.equal(response.status, 200, await response.text());
  }
  const isCounted = async (): Promise<boolean> => {
    const { rows } = await sql<{ left: number }>`
      select ((select count(*) from replicas where not is_metered) + (select count(*) from builds where not is_metered))::int as left`.execute(
      db,
    );
    return rows[0]?.left === 0;
  };
  await until("everything has stopped and is counted", isCounted, { deadlineMs: 60_000 });

  const replicas = await db.selectFrom("replicas").selectAll().execute();
  for (const row of replicas) {
    const initMs = (row.ready_at?.getTime() ?? 0) - (row.started_at?.getTime() ?? 0);
    assert.ok(
      initMs >= 1_000,
      `the start of the app's own code is usage: ${initMs} ms before it was ready`,
    );
  }
  const runMicros = await assertReplicasExact(db, attosOf);
  const built = await buildMicros(db);
  const { summary } = projectCost.parse(await money(stage, "/cost"));
  assert.equal(summary.run_cost_micros, Number(runMicros));
  assert.equal(summary.build_cost_micros, Number(built));
  assert.equal(summary.combined_cost_before_discounts_micros, Number(runMicros + built));
  assert.equal(summary.total_build_count, 1);
  const ms = replicas.reduce(
    (sum, row) => sum + (row.stopped_at?.getTime() ?? 0) - (row.started_at?.getTime() ?? 0),
    0,
  );
  assert.equal(summary.total_replica_seconds, ms / 1000);
  assert.equal(summary.total_cpu_core_seconds, Math.round(ms * 1.5) / 1000);
  assert.deepEqual(
    appCost.parse(await money(stage, `/apps/${appId}/cost`)).summary
      .combined_cost_before_discounts_micros,
    Number(runMicros + built),
  );
  const usage = usageAnswer.parse(await money(stage, "/usage?group_by=compute"));
  assert.deepEqual(
    usage.items.map(({ compute, cost_micros }) => [compute, cost_micros]),
    [["CPU", Number(runMicros + built)]],
  );
  const inLedger = async (): Promise<boolean> =>
    (await new UsageStage(db, new SetClock(0)).sums(projectId)).posted === runMicros + built;
  await until("it stands in the ledger", inLedger, { deadlineMs: 30_000 });
  await assertSums(new UsageStage(db, new SetClock(0)), projectId, runMicros + built);
});

/** Ends all processes of the data folder's replicas by force. */
function killReplicas({ platform }: Fixture): void {
  const folders = ["replicas", "sandbox"].map((name) => join(platform.dataDir, name));
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const told =
        readFileSync(`/proc/${name}/environ`, "utf8") +
        readFileSync(`/proc/${name}/cmdline`, "utf8");
      if (folders.some((folder) => told.includes(folder))) process.kill(Number(name), "SIGKILL");
    } catch {
      // It is gone, or not ours.
    }
  }
}

/**
 * The platform and its replicas end in one moment; nothing that comes after it is usage of these.
 */
async function loseMachine(stage: Fixture): Promise<void> {
  const { platform, db } = stage;
  const alive = await db
    .selectFrom("replicas")
    .select("id")
    .where("stopped_at", "is", null)
    .execute();
  await platform.end("SIGKILL");
  killReplicas(stage);
  const lostMs = Date.now();
  await until("some time has passed", () => Date.now() > lostMs + 2_000);
  await platform.restart();
  const ids = alive.map(({ id }) => id);
  const read = () =>
    db
      .selectFrom("replicas")
      .select(["id", "seen_at", "stopped_at"])
      .where("id", "in", ids)
      .execute();
  await until(
    "the lost replicas have ended",
    async () => (await read()).every((row) => row.stopped_at !== null),
    {
      deadlineMs: 30_000,
    },
  );
  for (const { id, stopped_at: at } of await read())
    assert.ok(at !== null && at.getTime() <= lostMs, `${id} cannot have run longer`);
}

test("a kill of the platform behind any step of metering loses and doubles nothing", async (t) => {
  const stage = await fixture(t, {
    minReplicaCount: 2,
    maxReplicaCount: 3,
    cooldownPeriodSeconds: 1,
  });
  const { platform, db, projectId } = stage;
  const usage = new UsageStage(db, new SetClock(Date.now()));
  await usage.apply(projectId, {
    coupon_type: "percentage",
    percentage_rate: 33.33333,
    frequency: "forever",
  });
  for (const step of drawCases(meterSteps, { what: "steps of metering", max: 1 })) {
    await platform.end("SIGKILL");
    // Something is always to be posted.
    await sql`update billing_accounts set posting_due_at = clock_timestamp()`.execute(db);
    const environment = { CRASH_AFTER: step, CRASH_COUNT: "1", CRASH_WHEN: "" };
    await platform.restart({ entry: crashing, environment }).catch(() => undefined);
    await platform.ended();
  }
  await platform.restart();
  await until(
    "the replicas are taken over",
    async () =>
      (await platform.api("GET", `/v2/projects/${projectId}/apps/${stage.appId}/containers`)).body
        .length >= 2,
    { deadlineMs: 30_000 },
  );
  await loseMachine(stage);
  await platform.end("SIGTERM");

  const fixed = {
    db,
    clock: systemClock,
    log: silentLog,
    prices: builtInPrices,
    intervalMs: 1_000,
    onPosted: () => undefined,
    onStep: () => undefined,
  };
  const last = new Meter({ ...fixed, postingDelayMs: 0 });
  await last.turn();
  await sql`update billing_accounts set posting_due_at = clock_timestamp()`.execute(db);
  await last.turn();
  const total = (await assertReplicasExact(db, attosOf)) + (await buildMicros(db));
  await assertSums(usage, projectId, total);
  const { drawn } = await usage.sums(projectId);
  assert.ok(drawn > 0n, "the coupon has taken off something");
  t.diagnostic(`${total} micro-units, of which the coupon took off ${drawn}`);
});
