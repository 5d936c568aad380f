// When apps have their turns: after nudges, and when all are asked to.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { AppTurns } from "./app-turns.ts";

const one = "p-0123abcd-one" as AppId;
const other = "p-0123abcd-other" as AppId;

test("many nudges of an app lead to one turn, after the caller has yielded", async () => {
  const turns = new AppTurns(silentLog);
  const done: AppId[] = [];
  turns.begin((appId) => done.push(appId));
  for (const appId of [one, other, one]) turns.nudge(appId);
  assert.deepEqual(done, []);
  await Promise.resolve();
  assert.deepEqual(done, [one, other]);
});

test("a nudge during a turn leads to another turn", async () => {
  const turns = new AppTurns(silentLog);
  let count = 0;
  turns.begin((appId) => {
    if (++count === 1) turns.nudge(appId);
  });
  turns.nudge(one);
  await Promise.resolve();
  await Promise.resolve();
  assert.equal(count, 2);
});

test("an app whose turn fails does not keep the others from theirs", () => {
  const turns = new AppTurns(silentLog);
  const done: AppId[] = [];
  turns.begin((appId) => {
    if (appId === one) throw new Error("its turn fails");
    done.push(appId);
  });
  turns.run([one, other]);
  assert.deepEqual(done, [other]);
});

test("no app has a turn before the begin or after the end", async () => {
  const turns = new AppTurns(silentLog);
  const done: AppId[] = [];
  turns.nudge(one);
  turns.begin((appId) => done.push(appId));
  await Promise.resolve();
  turns.nudge(one);
  turns.end();
  await Promise.resolve();
  turns.run([other]);
  assert.deepEqual(done, []);
});
