// Commands in replicas: how often a terminal gets a new size, and how long they may be open.
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

/** A command that was opened, and why it was ended. */
async function opened() {
  const { promise: ended, resolve } = Promise.withResolvers<{
    exitCode: number | null;
    message: string;
  }>();
  const reasons: string[] = [];
  const exec: RunningExec = {
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
    ended,
    resize: () => undefined,
    end: (reason) => {
      reasons.push(reason);
      resolve({ exitCode: null, message: reason });
    },
  };
  const clock = new VirtualClock();
  const execs = new ReplicaExecs({ driver: { exec: () => Promise.resolve(exec) }, clock });
  const wish = { replicaId: "app-1" as ReplicaId, command: ["sh"], terminal: null } as const;
  return {
    clock,
    reasons,
    session: await execs.open(wish),
    finish: () => resolve({ exitCode: 0, message: "done" }),
  };
}

const minuteMs = 60_000;

test("a command is ended after 30 minutes in which nothing was sent or received, and not before", async () => {
  const { clock, reasons, session } = await opened();
  await clock.advance(29 * minuteMs);
  session.noteUse();
  await clock.advance(29 * minuteMs);
  assert.deepEqual(reasons, [], "a byte in either direction begins the time anew");
  await clock.advance(minuteMs);
  assert.deepEqual(reasons, ["Nothing was sent or received for 30 minutes."]);
  await clock.advance(300 * minuteMs);
  assert.equal(reasons.length, 1, "no timer is left");
});

test("a command that is used all the time is ended after four hours", async () => {
  const { clock, reasons, session } = await opened();
  for (let minutes = 0; minutes < 239; minutes++) {
    await clock.advance(minuteMs);
    session.noteUse();
  }
  assert.deepEqual(reasons, []);
  await clock.advance(minuteMs);
  assert.deepEqual(reasons, ["Commands run for at most 4 hours."]);
});

test("of a command that has ended by itself, no limit is left", async () => {
  const { clock, reasons, finish } = await opened();
  finish();
  await clock.advance(300 * minuteMs);
  assert.deepEqual(reasons, []);
});
