// The plan of zygotes: which stay, which end, and which is made next.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ZygoteState } from "#drivers/driver.ts";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { planZygotes, type ZygoteCandidate } from "./zygote-plan.ts";

const megabyte = 1_000_000;

function candidate(name: string, usedAtMs: number, megabytes = 100): ZygoteCandidate {
  return {
    appId: `app-${name}` as AppId,
    releaseId: name as ReleaseId,
    usedAtMs,
    memoryBytes: megabytes * megabyte,
  };
}

function zygote(name: string, megabytes: number | null = 100): ZygoteState {
  return {
    id: `zygote-${name}` as ReplicaId,
    appId: `app-${name}` as AppId,
    releaseId: name as ReleaseId,
    memoryBytes: megabytes === null ? null : megabytes * megabyte,
    usedAtMs: 0,
  };
}

test("the release that was used last gets the next zygote, one at a time", () => {
  const plan = planZygotes([candidate("a", 1), candidate("b", 2)], [], 500 * megabyte);
  assert.deepEqual(plan, { ends: [], next: candidate("b", 2) });
});

test("a zygote stays while its release is a candidate, and ends when it is none", () => {
  const plan = planZygotes([candidate("a", 1)], [zygote("a"), zygote("b")], 500 * megabyte);
  assert.deepEqual(plan, { ends: ["zygote-b"], next: null });
});

test("a newer use displaces the zygote that was used longest ago", () => {
  const candidates = [candidate("a", 1), candidate("b", 2), candidate("c", 3)];
  const plan = planZygotes(candidates, [zygote("a"), zygote("b")], 200 * megabyte);
  assert.deepEqual(plan, { ends: ["zygote-a"], next: candidate("c", 3) });
});

test("an older use displaces nothing", () => {
  const candidates = [candidate("a", 1), candidate("b", 2)];
  const plan = planZygotes(candidates, [zygote("b")], 150 * megabyte);
  assert.deepEqual(plan, { ends: [], next: null });
});

test("a release that does not fit leaves room for one that does", () => {
  const candidates = [candidate("large", 2, 900), candidate("small", 1)];
  const plan = planZygotes(candidates, [], 500 * megabyte);
  assert.deepEqual(plan, { ends: [], next: candidate("small", 1) });
});

test("what a zygote really holds counts, and what is expected when that is unknown", () => {
  const grown = planZygotes([candidate("a", 1)], [zygote("a", 600)], 500 * megabyte);
  assert.deepEqual(grown, { ends: ["zygote-a"], next: null });
  const unknown = planZygotes([candidate("a", 1, 600)], [zygote("a", null)], 500 * megabyte);
  assert.deepEqual(unknown, { ends: ["zygote-a"], next: null });
});
