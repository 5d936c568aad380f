// The clock of a whole platform and its database steps by an hour, 400 days and minus two hours,
// and back, while replicas, an async run, a retry of a webhook, a session and a budget are there.
// Nothing is lost, posted, ended or deleted by that, and each step is reported. The last step
// happens while the platform is away.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Client } from "pg";
import { drawCases } from "#test/support/drawn-cases.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { movedClock, noMovedClock, type MovedClock } from "#test/support/moved-clock.ts";
import { startPlatform, type PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";
import { startReceiver, type WebhookReceiver } from "#test/support/webhook-receiver.ts";

const app = `import asyncio

async def run(seconds):
    await asyncio.sleep(seconds)
    return {"slept": seconds}
`;

const hour = 3600;
const allSteps = [
  { name: "an hour ahead", seconds: hour, heldMs: 3_000 },
  { name: "400 days ahead", seconds: 400 * 24 * hour, heldMs: 6_000 },
  { name: "two hours back", seconds: -2 * hour, heldMs: 3_000 },
];
const steps = drawCases(allSteps, { what: "steps of the clock", max: 1 });
/** What is written at a moment is not far from it. */
const nearMs = 10_000;
const waitMs = 60_000;

/** Times of what happened, which must lie within the test: table, column. */
const moments = [
  ["app_logs", "at"],
  ["audit_log", "at"],
  ["builds", "created_at"],
  ["builds", "ended_at"],
  ["replicas", "started_at"],
  ["replicas", "seen_at"],
  ["replicas", "metered_until"],
  ["run_keys", "created_at"],
  ["runs", "accepted_at"],
  ["runs", "started_at"],
  ["runs", "ended_at"],
  ["webhook_attempts", "started_at"],
  ["webhook_deliveries", "created_at"],
  ["webhook_deliveries", "ended_at"],
  ["usage_slices", "begins_at"],
] as const;

type Fixture = {
  readonly platform: PlatformProcess;
  readonly receiver: WebhookReceiver;
  readonly clock: MovedClock;
  readonly database: Client;
  readonly session: { readonly refreshToken: string };
  readonly budget: string;
};

async function fixture(t: TestContext): Promise<Fixture> {
  const clock = await movedClock(t);
  const git = await startGitServer(t);
  await git.createRepo("acme", "work", { "main.py": app });
  const tries = new Map<string, number>();
  const receiver = await startReceiver(t, ({ headers }) => {
    const id = String(headers["webhook-id"]);
    tries.set(id, (tries.get(id) ?? 0) + 1);
    return tries.get(id) === 1 ? 503 : 200;
  });
  const platform = await startPlatform(t, {
    ...clock.environment,
    SLIPWAY_DATABASE_URL: clock.databaseUrl,
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_METERING_SECONDS: "1",
  });
  const database = new Client({ connectionString: clock.databaseUrl });
  database.on("error", () => undefined);
  await database.connect();
  t.after(() => database.end());
  const scaling = {
    minReplicaCount: 1,
    maxReplicaCount: 1,
    replicaConcurrency: 8,
    cooldownPeriodSeconds: 600,
  };
  const made = await deploy(platform, {
    name: "work",
    gitRepo: "acme/work",
    pythonVersion: "3.11",
    ...scaling,
  });
  assert.equal(made.status, "success", made.log);
  const budget = `/v2/projects/${platform.bootstrap.projectId}/apps/${made.appId}/budget`;
  const set = await platform.api("PUT", budget, { amount_cents: 100, stop: true });
  assert.equal(set.status, 200, JSON.stringify(set.body));
  const session = await signIn(platform);
  return { platform, receiver, clock, database, session, budget };
}

async function signIn(platform: PlatformProcess): Promise<{ refreshToken: string }> {
  const { baseUrl, ownerEmail, ownerPassword } = platform.bootstrap;
  const answer = await post(`${baseUrl}/v2/auth/sign-in`, {
    email: ownerEmail,
    password: ownerPassword,
  });
  return { refreshToken: String(answer["refreshToken"]) };
}

async function post(url: string, body: unknown): Promise<Record<string, unknown>> {
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(url, init);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text) as Record<string, unknown>;
}

/** One number of the database's rows. */
async function count({ database }: Fixture, statement: string): Promise<number> {
  const { rows } = await database.query<{ n: string }>(statement);
  return Number(rows[0]?.n);
}

async function survives(
  stage: Fixture,
  { seconds, heldMs }: (typeof steps)[number],
): Promise<void> {
  const { platform, receiver, clock, session } = stage;
  const { baseUrl } = platform.bootstrap;
  const hook = `async=true&webhookEndpoint=${encodeURIComponent(receiver.url)}`;
  const key = `at-${seconds}`;
  const begin = async (): Promise<string> => {
    const headers = { "idempotency-key": key };
    const answer = await platform.call("work", `run?${hook}`, { seconds: 8 }, { headers });
    assert.equal(answer.status, 202);
    return ((await answer.json()) as { run_id: string }).run_id;
  };
  const retried = (await (await platform.call("work", `run?${hook}`, { seconds: 0 })).json()) as {
    run_id: string;
  };
  const attempts = (runId: string, n: number): Promise<unknown> => {
    const sql = `select count(*) n from webhook_attempts join webhook_deliveries d on d.id = delivery_id where run_id = '${runId}'`;
    return until(`${n} attempts`, async () => (await count(stage, sql)) >= n, {
      deadlineMs: waitMs,
    });
  };
  await attempts(retried.run_id, 1);
  const running = await begin();
  const isRunning = `select count(*) n from runs where id = '${running}' and state = 'running'`;
  await until("the run runs", async () => (await count(stage, isRunning)) === 1, {
    deadlineMs: waitMs,
  });

  clock.move(seconds);
  const within = (await (await platform.call("work", `run?${hook}`, { seconds: 0 })).json()) as {
    run_id: string;
  };
  assert.equal((await platform.call("work", "run", { seconds: 0 })).status, 200);
  assert.equal(await begin(), running, "an idempotency key is good for a day");
  assert.equal((await platform.api("GET", stage.budget)).status, 200);
  const heldUntilMs = performance.now() + heldMs;
  await until("the clock was wrong for long enough", () => performance.now() >= heldUntilMs, {
    deadlineMs: waitMs,
  });
  clock.move(0);

  for (const runId of [running, within.run_id, retried.run_id]) {
    const isEnded = `select count(*) n from runs where id = '${runId}' and ended_at is not null`;
    await until("the run has ended", async () => (await count(stage, isEnded)) === 1, {
      deadlineMs: waitMs,
    });
    const good = `select count(*) n from runs where id = '${runId}' and state = 'success' and attempt = 1`;
    assert.equal(await count(stage, good), 1, "the run ended once, by itself");
    await attempts(runId, 2);
    const delivered = `select count(*) n from webhook_deliveries where run_id = '${runId}' and state = 'delivered'`;
    await until("it is delivered", async () => (await count(stage, delivered)) === 1, {
      deadlineMs: waitMs,
    });
  }
  await post(`${baseUrl}/v2/auth/token`, { refresh_token: session.refreshToken });
}

/**
 * Nothing that was noted lies outside of the test, and what replicas cost is no more than the time
 * that it took.
 */
async function isTrue(
  stage: Fixture,
  began: { readonly wallMs: number; readonly monotonicMs: number },
): Promise<void> {
  for (const [table, column] of moments) {
    const from = new Date(began.wallMs - nearMs).toISOString();
    const to = new Date(Date.now() + nearMs).toISOString();
    const outside = `select count(*) n from ${table} where ${column} < '${from}' or ${column} > '${to}'`;
    assert.equal(await count(stage, outside), 0, `${table}.${column} holds times that were not`);
  }
  const ranMs = performance.now() - began.monotonicMs;
  const counted = await count(
    stage,
    "select coalesce(sum(ms), 0) n from usage_slices where kind = 'run'",
  );
  const alive = await count(
    stage,
    "select extract(epoch from max(seen_at) - min(started_at)) * 1000 n from replicas where stopped_at is null",
  );
  const replicas = await count(stage, "select count(*) n from replicas");
  assert.ok(
    counted <= ranMs * replicas,
    `${counted} ms of ${replicas} replicas were counted in ${ranMs} ms`,
  );
  assert.ok(counted >= alive - 2 * nearMs, `only ${counted} ms of ${alive} ms were counted`);
}

test(
  "steps of the clock lose, post and delete nothing",
  { skip: noMovedClock, timeout: 600_000 },
  async (t) => {
    const began = { wallMs: Date.now(), monotonicMs: performance.now() };
    const stage = await fixture(t);
    const { platform, clock } = stage;
    const kept =
      "select (select count(*) from app_logs) + (select count(*) from audit_log) + (select count(*) from runs) n";
    for (const step of steps) {
      await t.test(step.name, async () => {
        const before = await count(stage, kept);
        await survives(stage, step);
        assert.ok((await count(stage, kept)) >= before, "nothing was deleted");
        await isTrue(stage, began);
      });
    }
    await t.test("an hour ahead while the platform is away", async () => {
      await platform.end("SIGKILL");
      clock.move(hour);
      await platform.restart();
      const sighted = await count(stage, "select extract(epoch from max(seen_at)) n from replicas");
      const isSeen = `select count(*) n from replicas where extract(epoch from seen_at) > ${sighted}`;
      await until("the replica is seen again", async () => (await count(stage, isSeen)) > 0, {
        deadlineMs: waitMs,
      });
      const isCounted =
        "select count(*) n from replicas where stopped_at is null and metered_until >= seen_at";
      await until("it is counted", async () => (await count(stage, isCounted)) > 0, {
        deadlineMs: waitMs,
      });
      const counted = await count(stage, "select sum(ms) n from usage_slices where kind = 'run'");
      const replicas = await count(stage, "select count(*) n from replicas");
      assert.ok(
        counted <= (performance.now() - began.monotonicMs) * replicas,
        `${counted} ms were counted`,
      );
    });
    const { body } = await platform.api("GET", stage.budget);
    assert.equal(body.stopped_at, null, "no budget stops anything");
    const isInterrupted = "select count(*) n from runs where state <> 'success'";
    assert.equal(await count(stage, isInterrupted), 0);
    const said = platform.output();
    assert.equal(
      said.match(/machine's clock has jumped/g)?.length,
      steps.length,
      "each step is reported once",
    );
    assert.equal(said.match(/machine's clock agrees/g)?.length, steps.length, "and its end");
  },
);
