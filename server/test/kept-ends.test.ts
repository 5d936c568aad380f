// The file that keeps what replicas tell while no platform runs.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { appendFileSync, existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { ReplicaEvent, ReplicaLine } from "#drivers/driver.ts";
import { keepingSink, deliverKept } from "#drivers/kept-ends.ts";
import { systemClock as clock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { temporaryFolder } from "#test/support/folder.ts";

const replicaId = "app-0123456789" as ReplicaId;

function lineOf(text: string): ReplicaLine {
  return { replicaId, at: 1, stream: "stdout", runId: null, text };
}

const exit: ReplicaEvent = {
  kind: "exited",
  replicaId,
  at: 2,
  exitCode: 0,
  signal: null,
  reason: "It ended.",
};

test("what was told comes back as it was, whatever characters an app prints", async (t) => {
  const file = join(temporaryFolder(t), "ended-replicas");
  const lines = [
    "one",
    "a\u20285\u2028b",
    "a\u2029[null]\u2029b",
    "\u2028",
    "\u0085\r\v\f\u001e",
  ].map(lineOf);
  const kept = keepingSink(file);
  await kept.lines(lines);
  kept.event(exit);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const sink = new DriverSink();
  await deliverKept(file, sink, { clock });
  assert.deepEqual([sink.taken, sink.events], [lines, [exit]]);
  assert.ok(!existsSync(file));
});

test("what is no whole entry is left out", async (t) => {
  const file = join(temporaryFolder(t), "ended-replicas");
  const kept = keepingSink(file);
  kept.event(exit);
  appendFileSync(
    file,
    '5\nnull\n"text"\n[null]\ntrue\n{}\n{"lines":5}\n{"event":5}\n{"lines":[{"te',
  );
  const sink = new DriverSink();
  await deliverKept(file, sink, { clock });
  assert.deepEqual([sink.taken, sink.events], [[], [exit]]);
});
