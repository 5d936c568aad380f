// What becomes of an upload whose build is cancelled, on a whole platform.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

test("the files of an upload go at once when its build is cancelled, before all of them are there", async (t) => {
  const platform = await startPlatformOnTestServer(t);
  const apps = `/v2/projects/${platform.bootstrap.projectId}/apps`;
  const { body } = await platform.api("POST", apps, { name: "half" });
  const headers = { "content-type": "application/zip", "content-range": "bytes 0-3/1000" };
  assert.equal((await fetch(body.uploadUrl, { method: "PUT", headers, body: "half" })).status, 200);
  const stored = (): number => readdirSync(join(platform.dataDir, "uploads")).length;
  assert.equal(stored(), 1);
  assert.equal(
    (await platform.api("DELETE", `${apps}/${body.appId}/builds/${body.buildId}`)).status,
    200,
  );
  await until("its files are removed", () => stored() === 0);
});
