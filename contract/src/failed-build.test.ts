// What is said of an app that serves although its newest build failed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { failedBuildNote, type BuiltApp } from "./failed-build.ts";

const app: BuiltApp = {
  status: "ACTIVE",
  liveRelease: 2,
  lastBuildStatus: "build_failure",
  lastBuildReason: "pip install failed\nwith many lines",
};

test("a failed newest build is told with when, the first line of why, and which release serves", () => {
  assert.equal(
    failedBuildNote(app, " 3 min ago"),
    "The newest build failed 3 min ago: pip install failed. Release v2 still takes calls.",
  );
  const stopped = { ...app, status: "STOPPED", lastBuildReason: null };
  assert.equal(failedBuildNote(stopped, ""), "The newest build failed.");
  assert.notEqual(failedBuildNote({ ...app, lastBuildStatus: "init_timeout" }, ""), null);
});

test("a newest build that succeeded, goes on or was cancelled is no news, nor one of an app without a release", () => {
  for (const lastBuildStatus of ["success", "building", "cancelled", null] as const)
    assert.equal(failedBuildNote({ ...app, lastBuildStatus }, ""), null);
  assert.equal(failedBuildNote({ ...app, liveRelease: null }, ""), null);
});
