// When a replica is looked at: once for many nudges, never twice at a time, and not after the end.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { ReplicaLooks } from "./replica-looks.ts";

test("looks that are asked for during a turn cause one more, and none does after the end", async (t) => {
  const waiting: (() => void)[] = [];
  let turns = 0;
  const looks = new ReplicaLooks({
    dir: temporaryFolder(t, "looks"),
    clock: systemClock,
    turn: async () => {
      turns++;
      await new Promise<void>((resolve) => waiting.push(resolve));
    },
    onFault: (error) => assert.fail(String(error)),
  });
  looks.look();
  assert.equal(turns, 0, "it has not started");
  looks.start();
  looks.look();
  looks.look();
  assert.equal(turns, 1);
  waiting.shift()?.();
  await Promise.resolve();
  await Promise.resolve();
  assert.equal(turns, 2);
  looks.look();
  looks.stop();
  waiting.shift()?.();
  await looks.settled();
  assert.equal(turns, 2);
});

test("a turn that fails is reported, and the next change in the folder causes another", async (t) => {
  const dir = temporaryFolder(t, "looks");
  const faults: unknown[] = [];
  const second = Promise.withResolvers<void>();
  let turns = 0;
  const looks = new ReplicaLooks({
    dir,
    clock: systemClock,
    turn: () => {
      turns++;
      if (turns === 1) return Promise.reject(new Error("the disk is full"));
      second.resolve();
      return Promise.resolve();
    },
    onFault: (error) => faults.push(error),
  });
  t.after(() => looks.stop());
  looks.start();
  await looks.settled();
  assert.match(String(faults), /the disk is full/);
  writeFileSync(join(dir, "state"), "running\n");
  await second.promise;
});
