// What users see of the storage that an app has for itself, on any driver.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { deploy } from "./examples.ts";
import type { PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";

const main = `
import os

def add(text: str):
    with open("/data/models/words", "a") as file:
        file.write(text + " ")
    return read()

def read():
    found = []
    for folder, _, files in os.walk("/data/models"):
        found += [open(os.path.join(folder, name)).read() for name in files]
    return found

def shared():
    return sorted(os.listdir("/persistent-storage"))
`;

/**
 * The files of the repository `acme/keeper`. The setting is given as people write it: with a slash
 * at its end, too.
 */
export const keeperFiles = {
  "main.py": main,
  "slipway.toml": '[slipway.storage]\npath = "/data/models/"\n',
};

/**
 * Two apps of one project with storage of their own at the same path; one of them is changed and
 * then deleted.
 */
export async function keepApart(platform: PlatformProcess): Promise<void> {
  const common = { gitRepo: "acme/keeper", cpu: 0.5, memory: 0.25 };
  const project = `/v2/projects/${platform.bootstrap.projectId}`;
  const call = async (app: string, name: string, body: object = {}): Promise<unknown> => {
    const response = await platform.call(app, name, body);
    const answer = await response.text();
    assert.equal(response.status, 200, answer);
    return (JSON.parse(answer) as { result: unknown }).result;
  };
  const release = async (appId: string): Promise<number> =>
    Number((await platform.api("GET", `${project}/apps/${appId}`)).body.liveRelease);
  const first = await deploy(platform, { ...common, name: "first" });
  assert.equal(first.status, "success", first.log);
  assert.deepEqual(await call("first", "add", { text: "kept" }), ["kept "]);
  const second = await deploy(platform, { ...common, name: "second" });
  assert.equal(second.status, "success", second.log);
  assert.deepEqual(await call("second", "read"), [], "each app has its own");
  assert.deepEqual(await call("second", "add", { text: "other" }), ["other "]);
  assert.deepEqual(await call("second", "shared"), [], "the project's storage shows none of it");

  const before = await release(first.appId);
  assert.equal(
    (await platform.api("PATCH", `${project}/apps/${first.appId}`, { memory: 0.3 })).status,
    200,
  );
  await until(
    "the next release takes the calls",
    async () => (await release(first.appId)) > before,
    {
      deadlineMs: 120_000,
    },
  );
  assert.deepEqual(await call("first", "add", { text: "again" }), ["kept again "]);

  const own = (appId: string): string => join(platform.dataDir, "storage/.apps", appId);
  assert.equal((await platform.api("DELETE", `${project}/apps/${first.appId}`)).status, 200);
  await until("its storage has gone with it", () => !existsSync(own(first.appId)), {
    deadlineMs: 120_000,
  });
  assert.ok(existsSync(own(second.appId)));
  assert.deepEqual(await call("second", "read"), ["other "]);
}
