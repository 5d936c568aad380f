// How many runs are taken in hand: enough for each app, bounded for all.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { Admission } from "./admission.ts";

const app = (name: string): AppId => `p-00000001-${name}` as AppId;

function fill(admission: Admission, appId: AppId, slots: number): number {
  let taken = 0;
  for (; admission.free(appId, slots) > 0; taken++) admission.take(appId, 10);
  return taken;
}

test("an app has twice as many as its replicas can work on, within bounds", () => {
  assert.equal(fill(new Admission({ runsMax: 1000, bytesMax: 1e6, appMax: 256 }), app("a"), 1), 8);
  assert.equal(
    fill(new Admission({ runsMax: 1000, bytesMax: 1e6, appMax: 256 }), app("a"), 50),
    100,
  );
  assert.equal(
    fill(new Admission({ runsMax: 1000, bytesMax: 1e6, appMax: 256 }), app("a"), 5000),
    256,
  );
  assert.equal(fill(new Admission({ runsMax: 1000, bytesMax: 1e6, appMax: 5 }), app("a"), 5000), 5);
});

test("when others have taken all there is, an app still gets a few", () => {
  const admission = new Admission({ runsMax: 300, bytesMax: 1e6, appMax: 256 });
  assert.equal(fill(admission, app("a"), 5000), 256);
  assert.equal(fill(admission, app("b"), 5000), 44);
  assert.equal(fill(admission, app("c"), 5000), 4);
  assert.equal(fill(admission, app("d"), 5000), 4);
  admission.giveBack(app("d"), 10);
  assert.equal(admission.free(app("d"), 5000), 1);
  assert.equal(admission.free(app("c"), 5000), 0);
});

test("bodies share a bounded memory, but an app without any may always have one", () => {
  const admission = new Admission({ runsMax: 1000, bytesMax: 100, appMax: 256 });
  admission.take(app("a"), 90);
  assert.equal(admission.hasBytes(app("a"), 10), true);
  assert.equal(admission.hasBytes(app("a"), 11), false);
  assert.equal(admission.hasBytes(app("b"), 1_000), true);
  admission.giveBack(app("a"), 90);
  assert.equal(admission.hasBytes(app("a"), 1_000), true);
});
