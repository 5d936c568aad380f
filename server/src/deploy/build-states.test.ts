// The table of a build's moves.
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildStates } from "@slipway/contract/words.ts";
import { isEnd, buildStatesBefore } from "./build-states.ts";

test("what has ended stays as it is, and everything else can be ended", () => {
  for (const state of buildStates) {
    const next = buildStates.filter((to) => buildStatesBefore(to).includes(state));
    assert.equal(isEnd(state), next.length === 0, state);
    if (!isEnd(state)) assert.ok(next.includes("cancelled"), state);
  }
});

test("success comes only after the trial start, and every state can be reached from pending", () => {
  assert.deepEqual(buildStatesBefore("success"), ["initializing"]);
  const reached = new Set<string>(["pending"]);
  for (let size = 0; size < reached.size;) {
    size = reached.size;
    for (const to of buildStates)
      if (buildStatesBefore(to).some((from) => reached.has(from))) reached.add(to);
  }
  assert.deepEqual([...reached].sort(), [...buildStates].sort());
});
