// `npm run stop` leaves no container and no network in the engine, and the next platform knows what
// the replicas said last.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { leaveNothing, startDockerPlatform } from "#test/support/docker-platform.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { runStop } from "#test/support/run-stop.ts";

const skip = await noEngine();

const main = `import atexit

atexit.register(print, "the app is over", flush=True)

def run():
    return "ran"
`;

test(
  "a platform that is stopped leaves no containers, and one that is killed keeps them",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "app", { "main.py": main });
    const { platform, engine, containers } = await startDockerPlatform(t, {
      SLIPWAY_GIT_URL: server.urlTemplate,
    });
    const list = await leaveNothing(t, platform, engine);
    const wish = { name: "app", gitRepo: "acme/app", cpu: 0.5, memory: 0.25, minReplicaCount: 1 };
    const { status, log } = await deploy(platform, wish);
    assert.equal(status, "success", log);
    const run = async (): Promise<string> => await (await platform.call("app", "run", {})).text();
    const settings = { SLIPWAY_DRIVER: "docker", SLIPWAY_DOCKER_HOST: engine.dockerHost };
    const { projectId } = platform.bootstrap;
    const ofApp = `/v2/projects/${projectId}/apps/${projectId}-app`;
    const timesOver = async (): Promise<number> =>
      JSON.stringify((await platform.api("GET", `${ofApp}/logs`)).body).split("the app is over")
        .length - 1;

    for (const [index, signal] of (["SIGTERM", "SIGKILL"] as const).entries()) {
      assert.match(await run(), /"ran"/);
      const before = containers();
      if (signal === "SIGKILL") {
        await platform.end("SIGKILL");
        assert.deepEqual(containers(), before);
      }
      const { code, output, errors } = await runStop(platform.dataDir, settings);
      assert.equal(code, 0, errors);
      assert.match(output, /1 replica ended: app-\w+\./);
      assert.deepEqual([list("ps", "--all"), list("network", "ls")], [[], []]);
      assert.deepEqual(readdirSync(join(platform.dataDir, "containers")), []);
      await platform.restart();
      assert.equal(await timesOver(), index + 1);
      assert.equal(existsSync(join(platform.dataDir, "ended-replicas")), false);
    }
    assert.match(await run(), /"ran"/);
  },
);
