// Metrics as an operator's Prometheus reads them, from a real platform process: what is served, to
// whom, and that dashboard and guide name nothing else.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { emptyDatabase } from "./support/database.ts";
import { openDatabaseGate } from "./support/database-gate.ts";
import { deploy, serveExamples } from "./support/examples.ts";
import { freePorts } from "./support/free-ports.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { startPlatform } from "./support/platform-process.ts";
import { templateName } from "./support/test-server.ts";
import { until } from "./support/until.ts";

const projectDir = join(import.meta.dirname, "../..");
const token = "a-token-of-monitoring";

async function openPlatform(t: TestContext, settings: Record<string, string>) {
  const [port = ""] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  const start =
    settings["SLIPWAY_DATABASE_URL"] === undefined ? startPlatformOnTestServer : startPlatform;
  const platform = await start(t, { SLIPWAY_METRICS_ADDRESS: address, ...settings });
  const scrape = (init?: RequestInit): Promise<Response> =>
    fetch(`http://${address}/metrics`, init);
  return { platform, address, scrape };
}

/** The value of the line that begins so; null: there is none. */
function valueOf(text: string, series: string): number | null {
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? null : Number(line.slice(series.length + 1));
}

/** Names of all families that are served. */
function familiesOf(text: string): Set<string> {
  return new Set([...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name = ""]) => name));
}

/** Names of metrics in a text, without what Prometheus adds to those of histograms. */
function namesIn(text: string): string[] {
  const names = text.match(/\b(?:slipway|process|nodejs)_[a-z0-9_]+/g) ?? [];
  return [...new Set(names.map((name) => name.replace(/_(?:bucket|count|sum)$/, "")))];
}

test("what happened is counted, and dashboard and guide name only what is served", async (t) => {
  const gitUrl = await serveExamples(t);
  const receiver = createServer((_request, response) => response.end()).listen(0, "127.0.0.1");
  t.after(() => receiver.close());
  const { platform, scrape } = await openPlatform(t, {
    SLIPWAY_GIT_URL: gitUrl,
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_BACKUP_TO: "/nowhere/backups",
    SLIPWAY_BACKUP_PUBLIC_KEYS: "age1any",
  });
  const { appId, status, log } = await deploy(platform, {
    name: "hello",
    gitPath: "hello",
    minReplicaCount: 1,
  });
  assert.equal(status, "success", log);
  assert.equal((await platform.call("hello", "run", { name: "x" })).status, 200);
  assert.equal((await platform.call("nobody", "run", {})).status, 404);
  const { port } = receiver.address() as { port: number };
  const hook = encodeURIComponent(`http://127.0.0.1:${port}/`);
  assert.equal(
    (await platform.call("hello", `run?async=true&webhookEndpoint=${hook}`, { name: "x" })).status,
    202,
  );

  const app = `project="${platform.bootstrap.projectId}",app="${appId}"`;
  const expected: Readonly<Record<string, number>> = {
    slipway_ready: 1,
    slipway_driver_up: 1,
    slipway_backup_timestamp_seconds: 0,
    slipway_backup_failures_total: 1,
    'slipway_webhook_attempts_total{result="delivered"}': 1,
    [`slipway_calls_total{${app},status="2xx"}`]: 2,
    slipway_call_duration_seconds_count: 2,
    'slipway_call_duration_seconds_bucket{le="+Inf"}': 2,
    'slipway_calls_refused_total{code="not_found"}': 1,
    'slipway_builds_total{result="success"}': 1,
    slipway_build_duration_seconds_count: 1,
    slipway_builds_running: 0,
    'slipway_replicas{state="ready"}': 1,
    slipway_replica_starts_total: 1,
    slipway_cold_start_seconds_count: 1,
    slipway_runs_accepted_total: 1,
    'slipway_runs_ended_total{state="success"}': 1,
    slipway_call_records_left_out_total: 0,
    slipway_database_waiting: 0,
    'slipway_runs{state="pending"}': 0,
    slipway_builds_waiting: 0,
    slipway_webhook_deliveries_waiting: 0,
  };
  let text = "";
  // What waits in the database is asked for every 15 s only, so a first answer may be of before.
  await until("all of it is counted", async () => {
    const response = await scrape();
    assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
    text = await response.text();
    for (const [series, value] of Object.entries(expected))
      assert.equal(valueOf(text, series), value, series);
    return true;
  });
  for (const series of [
    "slipway_disk_free_bytes",
    'slipway_database_table_bytes{table="calls"}',
    "slipway_database_wait_seconds_count",
    "process_cpu_seconds_total",
  ]) {
    assert.ok((valueOf(text, series) ?? 0) > 0, series);
  }

  const served = familiesOf(text);
  const guide = await readFile(join(projectDir, "docs/guides/monitoring.md"), "utf8");
  const dashboard = await readFile(join(projectDir, "packaging/grafana/slipway.json"), "utf8");
  for (const [where, named] of Object.entries({
    guide: namesIn(guide),
    dashboard: namesIn(dashboard),
  })) {
    assert.ok(named.length > 10, where);
    for (const name of named) assert.ok(served.has(name), `${where}: ${name} is not served`);
  }
  for (const name of served) {
    if (name.startsWith("slipway_"))
      assert.ok(guide.includes(name), `the guide does not name ${name}`);
  }
});

test("with a token only who shows it may read, and nothing but metrics is there", async (t) => {
  const { platform, address, scrape } = await openPlatform(t, { SLIPWAY_METRICS_TOKEN: token });
  for (const given of [undefined, "Bearer ", `Bearer ${token}x`, `Basic ${token}`, token]) {
    const response = await scrape(given === undefined ? {} : { headers: { authorization: given } });
    assert.equal(response.status, 401, given);
    assert.equal(response.headers.get("www-authenticate"), "Bearer");
    assert.doesNotMatch(await response.text(), /slipway_ready/);
  }
  const headers = { authorization: `Bearer ${token}` };
  assert.match(await (await scrape({ headers })).text(), /^slipway_ready 1$/m);
  assert.equal((await scrape({ headers, method: "POST" })).status, 405);
  assert.equal((await fetch(`http://${address}/other`, { headers })).status, 404);
  assert.equal(
    (await fetch(`${platform.bootstrap.baseUrl}/metrics`, { headers })).status,
    404,
    "not on the main port",
  );
  assert.doesNotMatch(platform.output(), new RegExp(token));
});

test("while the database is away metrics say so, and what is read from it is absent", async (t) => {
  const gate = await openDatabaseGate(t, await emptyDatabase(t, { template: templateName }));
  const { scrape } = await openPlatform(t, { SLIPWAY_DATABASE_URL: gate.url });
  const text = async (): Promise<string> => await (await scrape()).text();
  assert.match(await text(), /^slipway_ready 1$/m);
  gate.shut();
  let away = "";
  await until("it is not ready", async () => valueOf((away = await text()), "slipway_ready") === 0);
  assert.ok((valueOf(away, 'slipway_database_errors_total{class="connection"}') ?? 0) > 0, away);
  await until(
    "what waits is not known",
    async () => valueOf(await text(), "slipway_builds_waiting") === null,
    {
      deadlineMs: 60_000,
    },
  );
  gate.open();
  await until("it is ready again", async () => valueOf(await text(), "slipway_ready") === 1, {
    deadlineMs: 60_000,
  });
});
