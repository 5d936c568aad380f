// Commands in replicas: how often a terminal gets a new size.
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import type { RunningExec, TerminalSize } from "#drivers/exec.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { ReplicaExecs } from "./replica-execs.ts";

test("of many new sizes the first and the last are passed on, and some between", async () => {
  const sizes: number[] = [];
  const { promise: ended } = Promise.withResolvers<never>();
  const exec: RunningExec = {
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
    ended,
    resize: ({ columns }: TerminalSize) => void sizes.push(columns),
    end: () => undefined,
  };
  const clock = new VirtualClock();
  const execs = new ReplicaExecs({ driver: { exec: () => Promise.resolve(exec) }, clock });
  const session = await execs.open({
    replicaId: "app-1" as ReplicaId,
    command: ["sh"],
    terminal: { columns: 80, rows: 24 },
  });
  for (let columns = 1; columns <= 1000; columns++) {
    session.resize({ columns, rows: 24 });
    await clock.advance(1);
  }
  await clock.advance(1000);
  assert.deepEqual([sizes[0], sizes.at(-1)], [1, 1000]);
  assert.ok(sizes.length <= 6, `${sizes.length} sizes in a second`);
  session.resize({ columns: 2000, rows: 24 });
  assert.equal(sizes.at(-1), 2000, "at once, when it is the only one");
});
