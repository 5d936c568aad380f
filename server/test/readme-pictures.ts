// Takes the pictures of the README: the apps of a project, and an app with an hour of calls. It is
// no test of its own: the command for pictures (tools/screenshots.ts) runs it.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { sql } from "kysely";
import { addUses } from "#scheduler/use-history-store.ts";
import { spend } from "./budgets-stage.ts";
import { addApp } from "./dashboard-app-stage.ts";
import { startProjectStage } from "./dashboard-project-stage.ts";
import type { Page } from "./support/browser.ts";
import { isWhole } from "./support/dashboard-stage.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { insertRollOut } from "./support/roll-out-rows.ts";
import type { RowsAddress } from "./support/run-rows.ts";
import { until } from "./support/until.ts";

const minuteMs = 60_000;
/**
 * For each app: about how many calls a minute it has, how long most of them take (a bucket of
 * durations), and what it costs.
 */
const apps = {
  transcribe: { calls: 90, bucket: 9, cents: 1_840 },
  embeddings: { calls: 310, bucket: 5, cents: 620 },
  chat: { calls: 45, bucket: 11, cents: 3_915 },
  thumbnails: { calls: 18, bucket: 7, cents: 84 },
} as const;

test("the pictures of the README", { skip: withoutBrowser }, async (t) => {
  const folder = process.env["SLIPWAY_README_PICTURES"];
  assert.ok(folder !== undefined, "SLIPWAY_README_PICTURES: the folder to write them into");
  const stage = await startProjectStage(t, { settings: { requestsPerMinute: 10_000 } });
  await stage.call("PATCH", "", { name: "shop" });
  const day = new Date().toISOString().slice(0, 10);
  for (const [index, [name, given]] of Object.entries(apps).entries()) {
    const place = await addApp(stage, name);
    await insertRollOut(place.db, place.appId);
    await sql`update builds set status = 'success', ended_at = now() where app_id = ${place.appId}`.execute(
      place.db,
    );
    await sql`delete from releases where app_id = ${place.appId} and number = 2`.execute(place.db);
    await addReplica(place);
    await addHour(place, { ...given, from: 9 * index });
    await spend(place.db, stage.api, { cents: given.cents, app: name, day });
  }
  const report = await addApp(stage, "nightly-report");
  const reason =
    "main.py cannot be imported: ModuleNotFoundError: No module named 'pandas'. Is it in requirements.txt?";
  await sql`
    update builds set status = 'build_failure', reason = ${reason}, ended_at = now() where app_id = ${report.appId}`.execute(
    report.db,
  );
  const page = await stage.open(stage.pages);
  await page.shows("nightly-report");
  const shown = "document.querySelectorAll('tbody svg').length";
  await until(
    "the calls of all apps are shown",
    async () => (await page.evaluate(shown)) >= Object.keys(apps).length,
  );
  await take(page, join(folder, "apps.webp"), 460);
  const dark = await stage.open(`${stage.pages}/apps/transcribe`, { isDark: true });
  await dark.shows("Cold starts");
  await take(dark, join(folder, "app.webp"), 1_130);
});

async function addReplica({ db, appId }: RowsAddress): Promise<void> {
  await sql`
    insert into replicas (id, project_id, app_id, release_id, build_id, driver, state, compute, compute_tier, gpu_count,
                          cpu_cores, memory_gb, provider, region, created_at, started_at, ready_at, restarts)
    select app_id || '-' || n, project_id, app_id, id, build_id, 'docker', 'ready', 'CPU', 'protected', 0, 2, 4, 'local', 'here',
           now() - n * interval '20 minutes', now() - n * interval '20 minutes', now() - n * interval '20 minutes', 0
      from releases cross join generate_series(1, 2) n
     where app_id = ${appId} and releases.number = 1`.execute(db);
}

/** An hour with two waves of calls, a few errors, and replicas that follow. */
async function addHour(
  { db, appId }: RowsAddress,
  {
    calls,
    bucket,
    from,
  }: { readonly calls: number; readonly bucket: number; readonly from: number },
): Promise<void> {
  for (let minute = 1; minute < 60; minute++) {
    const wave = 1 + 0.6 * Math.sin((minute + from) / 7) + 0.15 * Math.sin(minute * 2.3);
    const requests = Math.round(calls * wave);
    const slow = Math.round(requests * 0.04);
    const durations = Array.from({ length: 19 }, () => 0);
    durations[bucket] = requests - 5 * slow;
    durations[bucket + 1] = 4 * slow;
    durations[bucket + 2] = slow;
    const running = Math.max(1, Math.round(2 * wave));
    const sample = {
      appId,
      replicaId: "" as const,
      cores: 1.2 * wave,
      memoryBytes: 2e9 * (1 + wave / 10),
      gpu: null,
      requests,
      failures: minute % 13 === 0 ? Math.round(requests / 40) : 0,
      durations,
      running,
      ready: running,
    };
    await addUses(db, [sample], Date.now() - minute * minuteMs);
  }
}

/** Small enough to be part of the source. */
async function take(page: Page, file: string, height: number): Promise<void> {
  const metrics = { width: 1200, height, deviceScaleFactor: 1.5, mobile: false };
  await page.send("Emulation.setDeviceMetricsOverride", metrics);
  await isWhole(page);
  const { data } = await page.send("Page.captureScreenshot", { format: "webp", quality: 70 });
  await mkdir(join(file, ".."), { recursive: true });
  await writeFile(file, Buffer.from(data as string, "base64"));
}
