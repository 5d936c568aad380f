// What the proxy sees of replicas.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId, ReleaseId, ReplicaId } from "#lib/ids.ts";
import { ReplicaView, type ReadyReplica, type StartFailure } from "./replica-view.ts";

const appId = "p-00000000-app" as AppId;

function ready(name: string): ReadyReplica {
  const address = { host: "127.0.0.1", port: 1 };
  return {
    replicaId: name as ReplicaId,
    appId,
    releaseId: "r" as ReleaseId,
    address,
    concurrency: 1,
  };
}

const failure: StartFailure = { kind: "start_failed", reason: "no", retryAtMs: 5 };

test("the array is frozen and stays the same one until something changes", () => {
  const view = new ReplicaView();
  const a = ready("a");
  const b = ready("b");
  view.put(appId, { ready: [a], failure: undefined });
  const first = view.ready(appId);
  view.put(appId, { ready: [a], failure: undefined });
  assert.equal(view.ready(appId), first);
  assert.ok(Object.isFrozen(first));
  view.put(appId, { ready: [a, b], failure: undefined });
  assert.notEqual(view.ready(appId), first);
  assert.deepEqual(first, [a]);
});

test("listeners hear of changes only, and of none after they left", () => {
  const view = new ReplicaView();
  let heard = 0;
  const leave = view.onChange(() => heard++);
  view.put(appId, { ready: [], failure: undefined });
  assert.equal(heard, 0);
  view.put(appId, { ready: [], failure });
  view.put(appId, { ready: [], failure: { ...failure } });
  assert.equal(heard, 1);
  assert.equal(view.failure(appId)?.reason, "no");
  view.put(appId, { ready: [], failure: undefined });
  assert.equal(heard, 2);
  assert.equal(view.failure(appId), undefined);
  leave();
  view.put(appId, { ready: [ready("a")], failure: undefined });
  assert.equal(heard, 2);
});
