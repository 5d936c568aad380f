// Metering on a real database: what replicas and builds cost follows from their rows alone, to the micro-unit, wherever time
// was cut, in whatever order it became known, and whenever metering was broken off.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { sql } from "kysely";
import { costOfMonth, costsOfApps } from "#billing/usage-store.ts";
import { plainMicrosPerSecond, usageStage } from "./usage-stage.ts";

const noon = Date.UTC(2026, 0, 10, 12);
const minute = 60_000;
const hour = 3_600_000;

/** Of a plain replica, rounded once. */
const plain = (ms: number): bigint => BigInt(Math.round((ms / 1000) * plainMicrosPerSecond));

describe("a replica", () => {
  test("costs from the start of its process to its end, to the micro-unit, however often it was metered", async (t) => {
    const stage = await usageStage(t);
    const projectId = await stage.addProject();
    const place = await stage.addApp(projectId);
    const replicaId = await stage.addReplica(projectId, place, noon + 123);
    const meter = stage.meter();
    for (let at = noon + 1_000; at < noon + 3 * hour; at += 7 * minute + 17) {
      stage.clock.atMs = at;
      await stage.seen(replicaId, at);
      await meter.turn();
    }
    const stopMs = noon + 3 * hour + 4_567;
    await stage.stop(replicaId, stopMs);
    await meter.turn();
    await meter.turn();
    const expected = plain(stopMs - noon - 123);
    const sums = await stage.sums(projectId);
    const { slices, days, stretches, posted, receivable } = sums;
    assert.deepEqual(
      { slices, days, stretches, posted, receivable },
      Object.fromEntries(Object.keys({ slices, days, stretches, posted, receivable }).map((name) => [name, expected])),
    );
    assert.equal(await costOfMonth(stage.db, { projectId, month: "2026-01" }), expected);
    assert.equal(await costOfMonth(stage.db, { projectId, month: "2026-02" }), 0n);
    assert.equal(await costOfMonth(stage.db, { projectId, appId: place.appId, month: "2026-01" }), expected);
    assert.deepEqual(await costsOfApps(stage.db, { projectId, month: "2026-01" }), new Map([[place.appId, expected]]));
    const row = await stage.db.selectFrom("replicas").select(["is_metered", "metered_until"]).executeTakeFirstOrThrow();
    assert.deepEqual([row.is_metered, row.metered_until?.getTime()], [true, stopMs]);
    const { rows } = await sql<{ count: string }>`select count(*) from usage_slices`.execute(stage.db);
    assert.equal(Number(rows[0]?.count), 4, "one slice an hour");
  });
});
