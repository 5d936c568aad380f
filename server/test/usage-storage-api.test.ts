// Storage over the wire: what it costs has its own sums and its own line, and belongs to no app.
import assert from "node:assert/strict";
import { test } from "node:test";
import { appCost, projectCost, statement, usageAnswer } from "@slipway/contract/usage-routes.ts";
import { startManagementApi, type ApiAnswer } from "./support/management-api.ts";
import { plainMicrosPerSecond, SetClock, UsageStage } from "./usage-stage.ts";

const noon = Date.UTC(2026, 10, 20, 12);
const hour = 3_600_000;

test("storage has its own sums in cost and usage, and its own line in statements, and is of no app", async (t) => {
  const clock = new SetClock(noon);
  const api = await startManagementApi(t, { clock });
  const usage = new UsageStage(api.db, clock);
  const get = (path: string): Promise<ApiAnswer> =>
    api.call("GET", `/v2/projects/${api.projectId}${path}`);
  const ran = Math.round(3_600 * plainMicrosPerSecond);
  const place = await usage.addApp(api.projectId, "one");
  await usage.stop(await usage.addReplica(api.projectId, place, noon - hour), noon);
  // 1,000 GB more than are free, for an hour of a month of 720.
  await usage.hold(api.projectId, 1_100_000, noon - hour);
  await usage.hold(api.projectId, 0, noon);
  await usage.meter().turn();
  const micros = Math.round((1_000 * 50_000) / 720);
  const { summary } = projectCost.parse((await get("/cost")).body);
  assert.deepEqual(
    [
      summary.storage_cost_micros,
      summary.run_cost_micros,
      summary.combined_cost_before_discounts_micros,
    ],
    [micros, ran, micros + ran],
  );
  assert.deepEqual(
    [summary.total_storage_gb_seconds, summary.total_memory_gb_seconds],
    [1_100 * 3_600, 2 * 3_600],
  );
  const ofApp = appCost.parse((await get("/apps/one/cost")).body).summary;
  assert.deepEqual([ofApp.storage_cost_micros, ofApp.total_storage_gb_seconds], [0, 0]);
  for (const [grouping, keys] of [
    ["app", ["", place.appId]],
    ["compute", ["CPU", "storage"]],
  ] as const) {
    const { items, total } = usageAnswer.parse((await get(`/usage?group_by=${grouping}`)).body);
    assert.deepEqual(
      items.map((item) => (grouping === "app" ? item.app_id : item.compute)),
      keys,
    );
    const stored = items.find((item) => item.app_id === "" || item.compute === "storage");
    assert.deepEqual([stored?.cost_micros, stored?.storage_gb_seconds], [micros, 1_100 * 3_600]);
    assert.deepEqual(
      [stored?.replica_seconds, stored?.memory_gb_seconds, stored?.build_seconds],
      [0, 0, 0],
    );
    assert.equal(total.cost_micros, micros + ran);
  }
  const path = "/billing/statements/2026-11";
  const { lines } = statement.parse((await get(path)).body);
  const line = lines.find(({ kind }) => kind === "storage");
  assert.deepEqual(
    [line?.app_id, line?.cost_micros, line?.storage_gb_seconds, line?.memory_gb_seconds],
    ["", micros, 1_100 * 3_600, 0],
  );
  const csv = String((await get(`${path}?format=csv`)).body);
  assert.match(
    csv,
    /\r\n2026-11,usage,,storage,storage,,,3600,0,0,0,0,3960000,,,,0\.069444,USD\r\n/,
  );
  assert.match(
    String((await get(`${path}?format=html`)).body),
    /<td>persistent storage<\/td><td>storage<\/td>/,
  );
});
