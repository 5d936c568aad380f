// Rows are written in order and in the end, whatever the database does meanwhile.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReplicaId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import type { NewReplicaRow, ReplicaRows } from "./replica-rows.ts";
import { RowWriter } from "./row-writer.ts";

const replicaId = "example-1" as ReplicaId;
const order = { kind: "wanted", reason: "It is not needed." } as const;
const draining = { kind: "draining", at: 1, order, graceEndsAt: 2 } as const;
const stopped = { kind: "stopped", at: 2, reason: "done", exitCode: 0 } as const;

/** A database that is there or away as the test says. */
function writer() {
  const clock = new VirtualClock();
  const written: string[] = [];
  const state = { isAway: false };
  const write = (what: string): Promise<void> => {
    if (state.isAway) return Promise.reject(new Error("no connection"));
    written.push(what);
    return Promise.resolve();
  };
  const rows: Pick<ReplicaRows, "insert" | "change"> = {
    insert: () => write("insert"),
    change: (_, change) => write(change.kind),
  };
  return { clock, written, state, writer: new RowWriter({ rows, clock, log: silentLog }) };
}

const row = { replicaId } as NewReplicaRow;

test("changes follow the insert and each other, also when asked for at once", async () => {
  const { written, writer: rows } = writer();
  const inserted = rows.insert(row);
  await Promise.all([inserted, rows.change(replicaId, draining), rows.change(replicaId, stopped)]);
  assert.deepEqual(written, ["insert", "draining", "stopped"]);
  assert.equal(rows.waiting, 0);
});

test("an end that cannot be written now is written when the database is back", async () => {
  const { clock, written, state, writer: rows } = writer();
  state.isAway = true;
  const all = Promise.all([rows.change(replicaId, draining), rows.change(replicaId, stopped)]);
  await clock.advance(600_000);
  assert.equal(rows.waiting, 1);
  state.isAway = false;
  await clock.advance(16_000);
  await all;
  assert.deepEqual(written, ["draining", "stopped"]);
});

test("an insert is not repeated, its failure is the caller's", async () => {
  const { state, written, writer: rows } = writer();
  state.isAway = true;
  await assert.rejects(rows.insert(row), /no connection/);
  state.isAway = false;
  await rows.change(replicaId, stopped);
  assert.deepEqual(written, ["stopped"]);
});

test("stopping waits for a while and then gives up", async () => {
  const { clock, state, writer: rows } = writer();
  state.isAway = true;
  const change = rows.change(replicaId, stopped);
  const stopping = rows.stop(5000);
  await clock.advance(5000);
  await Promise.all([stopping, change]);
  assert.equal(rows.waiting, 0);
});
