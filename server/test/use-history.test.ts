// The history of what apps use: measured by the minute, told as charts, bounded for an app with
// many replicas, gone when it is old.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { resourceMetrics } from "@slipway/contract/metrics-routes.ts";
import type { ReplicaUsage } from "#drivers/driver.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import { Histogram } from "#lib/histogram.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog } from "#lib/log.ts";
import { daysAgo, removeOld } from "#lib/retention.ts";
import { UseHistory, type CountedCalls, type UseHistoryParts } from "#scheduler/use-history.ts";
import { UsageSampler } from "#scheduler/usage-sampler.ts";
import { useRemovalSteps } from "#scheduler/use-history-store.ts";
import { insertReleases } from "./support/release-rows.ts";
import { serveExamples, deploy } from "./support/examples.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { movableClock } from "./support/movable-clock.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

type Shown = {
  readonly timestamps: string[];
  readonly series: { name: string; data: (string | null)[] }[];
};
type Charts = Record<keyof typeof resourceMetrics.shape, Shown>;

const minuteMs = 60_000;

async function createApp(api: ApiUnderTest, name: string): Promise<AppId> {
  const body = { name, gitRepo: "acme/shop" };
  return (await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body })).body.appId;
}

async function chartsOf(api: ApiUnderTest, appId: string, query = ""): Promise<Charts> {
  const answer = await api.call(
    "GET",
    `/v2/projects/${api.projectId}/apps/${appId}/resource-metrics?${query}`,
  );
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return resourceMetrics.parse(answer.body);
}

/** The points of a series that were measured. */
function pointsOf({ timestamps, series }: Shown, name: string): [string | undefined, string][] {
  const data = series.find((one) => one.name === name)?.data ?? [];
  assert.ok(data.length === 0 || data.length === timestamps.length);
  return data.flatMap((point, index) =>
    point === null ? [] : [[timestamps[index], point] as [string, string]],
  );
}

/** The counters of an app, after calls that took so long; `failedTotal` of them failed. */
function counted(
  appId: AppId,
  receivedTotal: number,
  took: readonly number[] = [],
  failedTotal = 0,
): CountedCalls {
  const durations = new Histogram();
  for (const ms of took) durations.add(ms);
  return { appId, receivedTotal, failedTotal, durations };
}

/** An API whose clock stands at the start of an hour, and a history over what the test says. */
async function startStage(t: Parameters<typeof startManagementApi>[0]) {
  const clock = movableClock();
  clock.moveMs = 3_600_000 - (clock.now() % 3_600_000) + 5_000;
  const api = await startManagementApi(t, { clock });
  const state = {
    replicas: [] as {
      replicaId: ReplicaId;
      appId: AppId;
      state: "ready" | "starting";
      beganAtMs: number;
    }[],
    usage: new Map<ReplicaId, ReplicaUsage>(),
    calls: [] as CountedCalls[],
  };
  const parts: UseHistoryParts = {
    db: api.db,
    clock,
    log: silentLog,
    lifecycle: new Lifecycle({ log: silentLog, clock }),
    replicas: () => state.replicas,
    calls: () => state.calls,
    sampler: new UsageSampler({
      driver: { usage: () => Promise.resolve(new Map(state.usage)) },
      clock,
    }),
  };
  return { api, clock, state, parts, history: new UseHistory(parts) };
}

test("charts tell cores, memory, GPUs, replicas and calls by the minute, and of one replica alone", async (t) => {
  const { api, clock, state, history, parts } = await startStage(t);
  const appId = await createApp(api, "busy");
  const other = await createApp(api, "idle");
  const hour = new Date(clock.now() - (clock.now() % minuteMs)).toISOString();
  const one = "r-one" as ReplicaId;
  const two = "r-two" as ReplicaId;
  const beganAtMs = clock.monotonicMs() - 10_000;
  state.replicas = [
    { replicaId: one, appId, state: "ready", beganAtMs },
    { replicaId: two, appId, state: "starting", beganAtMs: beganAtMs + 1 },
  ];
  state.calls = [counted(appId, 7, [3, 3, 3, 400, 2_000_000], 2), counted(other, 0)];
  state.usage.set(one, {
    cpuSeconds: 20,
    memoryBytes: 1000,
    gpu: { utilization: 0.5, memoryBytes: 5 },
  });
  await history.measure();
  clock.moveMs += minuteMs;
  state.usage.set(one, {
    cpuSeconds: 50,
    memoryBytes: 3000,
    gpu: { utilization: 1, memoryBytes: 5 },
  });
  state.calls = [counted(appId, 9, [3, 3, 3, 3, 3, 400, 2_000_000], 2)];
  await history.measure();

  const charts = await chartsOf(api, appId, `start=${hour}`);
  const second = new Date(Date.parse(hour) + minuteMs).toISOString();
  assert.equal(charts.cpu.timestamps[0], hour);
  const [[, first] = [], [, next] = []] = pointsOf(charts.cpu, one);
  assert.ok(Math.abs(Number(first) - 2) < 0.1, `since its start: ${first}`);
  assert.ok(Math.abs(Number(next) - 0.5) < 0.05, `since the first measurement: ${next}`);
  assert.deepEqual(pointsOf(charts.memory, one), [
    [hour, "1000"],
    [second, "3000"],
  ]);
  assert.deepEqual(pointsOf(charts.gpu, one), [
    [hour, "50"],
    [second, "100"],
  ]);
  assert.deepEqual(pointsOf(charts.containers, "running"), [
    [hour, "2"],
    [second, "2"],
  ]);
  assert.deepEqual(pointsOf(charts.containers, "ready"), [
    [hour, "1"],
    [second, "1"],
  ]);
  assert.deepEqual(pointsOf(charts.requests, "requests"), [
    [hour, "7"],
    [second, "2"],
  ]);
  assert.deepEqual(pointsOf(charts.failures, "failures"), [
    [hour, "2"],
    [second, "0"],
  ]);
  // Within the range of 2.5 to 5 ms, and 250 to 500; what takes longer than the last range has an
  // end is its beginning.
  assert.deepEqual(
    pointsOf(charts.latency, "p50"),
    [
      [hour, String(2.5 + (2.5 * 2.5) / 3)],
      [second, "3.75"],
    ].map(([at, ms]) => [at, String(Number(Number(ms).toFixed(2)))]),
  );
  assert.deepEqual(pointsOf(charts.latency, "p99")[0], [hour, "900000"]);
  assert.deepEqual((await chartsOf(api, appId, `start=${hour}&containerId=r-two`)).cpu.series, []);
  assert.deepEqual(
    (await chartsOf(api, other, `start=${hour}`)).requests.series[0]?.data.filter(Boolean),
    [],
  );

  await goesOnInAnotherProcess({ api, clock, state, parts }, appId, hour);
});

/**
 * Continues in another process, whose counters begin at zero, within the same quarter of an hour.
 */
async function goesOnInAnotherProcess(
  { api, clock, state, parts }: Omit<Awaited<ReturnType<typeof startStage>>, "history">,
  appId: AppId,
  hour: string,
): Promise<void> {
  clock.moveMs += minuteMs;
  state.calls = [counted(appId, 3, [3, 400], 1)];
  await new UseHistory(parts).measure();
  clock.moveMs += 25 * 60 * minuteMs;
  const day = await chartsOf(api, appId, `start=${hour}&resolution=high`);
  assert.deepEqual(
    pointsOf(day.requests, "requests"),
    [[hour, "12"]],
    "a quarter of an hour is one point",
  );
  assert.deepEqual(pointsOf(day.failures, "failures"), [[hour, "3"]]);
  assert.deepEqual(
    pointsOf(day.latency, "p50"),
    [[hour, "4.38"]],
    "of six short calls and three long ones",
  );
  assert.equal(pointsOf(day.memory, "r-one")[0]?.[1], String(Math.round((1000 + 3000 + 3000) / 3)));
}

test("an app with very many replicas has as many rows as one with twenty, and the rest is told together", async (t) => {
  const { api, clock, state, history } = await startStage(t);
  const appId = await createApp(api, "wide");
  state.replicas = Array.from({ length: 300 }, (_, index) => ({
    appId,
    replicaId: `r-${index}` as ReplicaId,
    state: "ready" as const,
    beganAtMs: clock.monotonicMs() - 1000 + index,
  }));
  for (const { replicaId } of state.replicas)
    state.usage.set(replicaId, { cpuSeconds: 0, memoryBytes: 10 });
  await history.measure();
  const { count } = await api.db
    .selectFrom("app_uses")
    .select(({ fn }) => fn.countAll<string>().as("count"))
    .executeTakeFirstOrThrow();
  assert.equal(Number(count), 2 * 21);
  const { memory, containers } = await chartsOf(api, appId);
  assert.deepEqual(
    memory.series.map(({ name }) => name).toSorted(),
    [...Array.from({ length: 20 }, (_, index) => `r-${index}`), "others"].toSorted(),
  );
  assert.equal(pointsOf(memory, "others")[0]?.[1], "2800");
  assert.equal(pointsOf(containers, "running")[0]?.[1], "300");
});

test("rows of minutes go after a day, the others after a month, and nothing is told of earlier times", async (t) => {
  const { api, clock, state, history, parts } = await startStage(t);
  const appId = await createApp(api, "old");
  state.calls = [counted(appId, 1)];
  await history.measure();
  const remove = () =>
    removeOld(
      useRemovalSteps(api.db, (days) => daysAgo(parts.clock, days)),
      new AbortController().signal,
    );
  const stepsLeft = async () =>
    (
      await api.db.selectFrom("app_uses").select("step_seconds").orderBy("step_seconds").execute()
    ).map((row) => row.step_seconds);
  await remove();
  assert.deepEqual(await stepsLeft(), [60, 900]);
  clock.moveMs += 26 * 60 * minuteMs;
  await remove();
  assert.deepEqual(await stepsLeft(), [900]);
  clock.moveMs += 30 * 24 * 60 * minuteMs;
  await remove();
  assert.deepEqual(await stepsLeft(), []);
  const year = await chartsOf(api, appId, "start=2020-01-01T00:00:00Z&resolution=high");
  assert.ok(
    year.cpu.timestamps.length > 1000 && year.cpu.timestamps.length <= 1502,
    String(year.cpu.timestamps.length),
  );
  assert.deepEqual(
    (await chartsOf(api, appId, "start=2020-01-02T00:00:00Z&end=2020-01-03T00:00:00Z")).cpu
      .timestamps,
    [],
  );
});

test("charts tell in which step replicas started, but not those that tried a release", async (t) => {
  const { api, clock } = await startStage(t);
  const appId = await createApp(api, "starting");
  await insertReleases(api.db, appId);
  const at = new Date(clock.now() - 5 * minuteMs);
  await sql`
    insert into replicas (id, project_id, app_id, release_id, build_id, driver, state, compute, compute_tier, gpu_count,
                          cpu_cores, memory_gb, created_at, is_trial)
    select 'r-' || n, project_id, app_id, id, build_id, 'process', 'ready', 'CPU', 'protected', 0, 1, 1, ${at}, n > 2
      from releases cross join generate_series(1, 3) n
     where app_id = ${appId} and releases.number = 2`.execute(api.db);
  const { starts } = await chartsOf(api, appId);
  const minute = new Date(at.getTime() - (at.getTime() % minuteMs)).toISOString();
  assert.deepEqual(pointsOf(starts, "starts"), [[minute, "2"]]);
});

test("parameters that fit nothing are refused by name", async (t) => {
  const api = await startManagementApi(t);
  const appId = await createApp(api, "app");
  for (const query of [
    "start=yesterday",
    "end=2026-02-30T00:00:00Z",
    "resolution=low",
    "containerId=a%20b",
    "step=5",
  ]) {
    const answer = await api.call(
      "GET",
      `/v2/projects/${api.projectId}/apps/${appId}/resource-metrics?${query}`,
    );
    assert.equal(answer.status, 400, query);
    assert.match(answer.body.message, new RegExp(query.split("=")[0] ?? ""), query);
  }
});

test("a platform that starts again goes on with the history, of replicas that ran meanwhile", async (t) => {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  const app = await deploy(platform, { name: "hello", gitPath: "hello", minReplicaCount: 1 });
  assert.equal(app.status, "success", app.log);
  await platform.end("SIGTERM");
  await platform.restart();
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${app.appId}/resource-metrics`;
  const charts = await until("its memory is told", async (): Promise<Charts | null> => {
    const { body } = await platform.api("GET", path);
    return (body as Charts).memory.series.length > 0 ? (body as Charts) : null;
  });
  const [memory] = charts.memory.series;
  assert.ok(Number(memory?.data.findLast((point) => point !== null)) > 1e6, JSON.stringify(memory));
});
