// The field containerRuntime with a real engine: v1 and v2 choose the runtime of containers, and
// one that the engine does not have is refused.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { runDocker, tracedRuntime } from "#test/support/dockerd.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();
const common = { gitRepo: "acme/app", cpu: 0.5, memory: 0.25, minReplicaCount: 1 };
const missing =
  /^containerRuntime is v1, which means the runtime not-there here \(SLIPWAY_RUNTIME_V1\), but the Docker engine does not have it, only .*\btraced\b/;

test("containerRuntime chooses the runtime of an app's containers", { skip }, async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "def run():\n    return 1\n" });
  const { platform, engine, containers } = await startDockerPlatform(t, {
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_RUNTIME_V1: "not-there",
    SLIPWAY_RUNTIME_V2: tracedRuntime,
  });
  assert.match(
    platform.output(),
    /"runtime":"not-there".*SLIPWAY_RUNTIME_V1.* containerRuntime v1 are refused until it has it/,
  );
  assert.doesNotMatch(platform.output(), /SLIPWAY_RUNTIME_V2/);
  const { projectId } = platform.bootstrap;
  const runtimeOf = (id = ""): string =>
    runDocker(engine, "inspect", "--format={{.HostConfig.Runtime}}", id);

  const refused = await platform.api("POST", `/v2/projects/${projectId}/apps/git`, {
    ...common,
    name: "refused",
    containerRuntime: "v1",
  });
  assert.equal(refused.status, 400, JSON.stringify(refused.body));
  assert.match(refused.body.message, missing);

  const app = await deploy(platform, { ...common, name: "app", containerRuntime: "v2" });
  assert.equal(app.status, "success", app.log);
  const [traced] = containers();
  assert.equal(runtimeOf(traced), tracedRuntime);
  assert.ok(
    readFileSync(engine.tracedFile, "utf8").includes(traced ?? "?"),
    "the runtime was not called",
  );

  const path = `/v2/projects/${projectId}/apps/${app.appId}`;
  const changed = await platform.api("PATCH", path, { containerRuntime: "v1" });
  assert.equal(changed.status, 400, JSON.stringify(changed.body));
  assert.match(changed.body.message, missing);

  const without = await platform.api("PATCH", path, { containerRuntime: null });
  assert.equal(without.status, 200, JSON.stringify(without.body));
  await until(
    "a container of the engine's own runtime runs alone",
    () => containers().length === 1 && runtimeOf(containers()[0]) === "runc",
    { deadlineMs: 60_000 },
  );
});

test(
  "a file in the repository that asks for a missing runtime ends the build",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    const toml = '[cerebrium.runtime]\ncontainer_runtime = "v1"\n';
    await server.createRepo("acme", "app", {
      "main.py": "def run():\n    return 1\n",
      "slipway.toml": toml,
    });
    const { platform } = await startDockerPlatform(t, {
      SLIPWAY_GIT_URL: server.urlTemplate,
      SLIPWAY_RUNTIME_V1: "not-there",
    });
    const { status, log } = await deploy(platform, { ...common, name: "app" });
    assert.equal(status, "build_failure", log);
    assert.match(log, /containerRuntime is v1, which means the runtime not-there here/);
  },
);
