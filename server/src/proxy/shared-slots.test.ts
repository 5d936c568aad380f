// The choice of a replica while several releases take calls.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { Seeded } from "#test/support/seeded.ts";
import type { ReplicaPool } from "./replica-pool.ts";
import { ReleaseTally } from "./release-tally.ts";
import { ReplicaSlot } from "./replica-slot.ts";
import { dividedBetween, findShared } from "./shared-slots.ts";

function slot(release: string, name: string, concurrency = 1000): ReplicaSlot {
  const appId = "p-00000001-app" as AppId;
  const releaseId = release as ReleaseId;
  const replicaId = name as ReplicaId;
  const replica = { replicaId, appId, releaseId, address: { host: "x", port: 1 }, concurrency };
  return new ReplicaSlot({
    replica,
    pool: {} as ReplicaPool,
    tally: new ReleaseTally(),
    onAgain: () => undefined,
  });
}

const share = (release: string, weight: number) => ({ releaseId: release as ReleaseId, weight });

test("calls are drawn by share, and go in turn to the replicas of a release", () => {
  const open = [slot("old", "a"), slot("old", "b"), slot("new", "c")];
  const groups = dividedBetween([share("old", 0.8), share("new", 0.2)], open);
  assert.ok(groups !== null);
  const random = new Seeded(7).next;
  const counts = new Map<string, number>();
  for (let call = 0; call < 10_000; call++) {
    const { replicaId } =
      findShared(groups, "round-robin", random)?.replica ?? assert.fail("nobody takes the call");
    counts.set(replicaId, (counts.get(replicaId) ?? 0) + 1);
  }
  const drawn = counts.get("c") ?? 0;
  // Six standard deviations of 10,000 draws at 20 %.
  assert.ok(Math.abs(drawn - 2000) < 240, `${drawn}`);
  assert.ok(Math.abs((counts.get("a") ?? 0) - (counts.get("b") ?? 0)) <= 1);
});

test("a call takes any replica with room before it waits", () => {
  const old = slot("old", "a", 1);
  const next = slot("new", "b", 1);
  const groups = dividedBetween([share("old", 0.8), share("new", 0.2)], [old, next]);
  assert.ok(groups !== null);
  old.running = 1;
  assert.equal(
    findShared(groups, "first-available", () => 0),
    next,
  );
  next.running = 1;
  assert.equal(
    findShared(groups, "first-available", () => 0),
    undefined,
  );
});

test("where only one release has replicas there is nothing to divide", () => {
  assert.equal(dividedBetween([share("old", 0.8), share("new", 0.2)], [slot("old", "a")]), null);
});

test("calls and failures of a release are counted, those of clients that left are not", () => {
  const tally = new ReleaseTally();
  tally.count("answered", 200, 100);
  tally.count("answered", 404, 100);
  tally.count("answered", 500, 100);
  tally.count("cut", 200, 900);
  tally.count("refused", 502, 1100);
  tally.count("client_gone", null, 2100);
  const { calls, failures, failedSeconds } = tally;
  assert.deepEqual({ calls, failures, failedSeconds }, { calls: 5, failures: 3, failedSeconds: 2 });
});
