// What the owner of an app is told that its calls wait for.
import assert from "node:assert/strict";
import { test } from "node:test";
import { waitReason } from "./app-state.ts";

type Given = Parameters<typeof waitReason>[0];

const idle: Given = {
  failureReason: undefined,
  starts: undefined,
  heldBack: undefined,
  starting: 0,
  pending: 0,
  ready: 0,
  unrouted: 0,
  waiting: 0,
  replicasMax: 2,
  nowMs: 1000,
};
const failed = {
  releaseId: "r" as never,
  failures: 1,
  failedAtMs: 900,
  retryAtMs: 2900,
  reason: "No.",
  isShown: false,
  isRefused: false,
};

test("an owner is told what calls wait for, the most telling first, and nothing while they need not wait", () => {
  const cases: readonly (readonly [Partial<Given>, RegExp | undefined])[] = [
    [{}, undefined],
    [{ ready: 1, waiting: 1 }, undefined],
    [{ failureReason: "No such compute." }, /^No such compute\.$/],
    [{ starting: 1 }, /^A replica is starting\.$/],
    [{ starting: 3, starts: failed }, /^3 replicas are starting\.$/],
    [
      { starting: 1, heldBack: "Full." },
      /^A replica is starting\. More replicas are wanted\. Full\.$/,
    ],
    [
      { starting: 1, pending: 1, heldBack: "Full." },
      /^A replica is waiting for a machine .* wanted\. Full\.$/,
    ],
    [{ heldBack: "Full." }, /^Full\.$/],
    [{ heldBack: "Full.", ready: 1, waiting: 1 }, /^Full\.$/],
    [{ heldBack: "Full.", ready: 1 }, /^More replicas are wanted\. Full\.$/],
    [{ starts: failed }, /retried in 2 s: No\.$/],
    [{ starts: { ...failed, failures: 0 } }, /^The next replica starts in 2 s: No\.$/],
    [{ starts: failed, ready: 1 }, undefined],
    [{ starts: failed, nowMs: 3000 }, undefined],
    [{ unrouted: 1, waiting: 5 }, /its ready check \(readycheckEndpoint\) fails/],
    [{ unrouted: 1, ready: 1 }, undefined],
    [
      { ready: 1, waiting: 1, replicasMax: 1 },
      /^The only replica is busy, and maxReplicaCount allows no more\.$/,
    ],
    [{ ready: 2, waiting: 1 }, /^All 2 replicas are busy, and maxReplicaCount allows no more\.$/],
  ];
  for (const [change, expected] of cases) {
    const reason = waitReason({ ...idle, ...change });
    if (expected === undefined) assert.equal(reason, undefined, JSON.stringify(change));
    else assert.match(reason ?? "", expected, JSON.stringify(change));
  }
});
