// The storage of a project is the same folder whichever driver runs its apps: on one data folder,
// what a container writes a process reads, and the other way round.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";

const skip = await noEngine();

const main = `
import os

def say(text: str):
    """Adds a line, and returns all."""
    with open("/persistent-storage/said", "a") as file:
        file.write(text + " ")
    os.chmod("/persistent-storage/said", 0o600)
    with open("/persistent-storage/said") as file:
        return file.read().split()
`;

test(
  "what a container has written a process reads, and the other way round",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "app", { "main.py": main });
    const { platform } = await startDockerPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate });
    const say = async (app: string, text: string): Promise<unknown> => {
      const response = await platform.call(app, "say", { text });
      const answer = await response.text();
      assert.equal(response.status, 200, answer);
      return (JSON.parse(answer) as { result: unknown }).result;
    };
    const common = { gitRepo: "acme/app", cpu: 0.5, memory: 0.25 };
    const contained = await deploy(platform, { ...common, name: "contained" });
    assert.equal(contained.status, "success", contained.log);
    assert.deepEqual(await say("contained", "one"), ["one"]);
    await platform.end("SIGTERM");
    await platform.restart({ environment: { SLIPWAY_DRIVER: "process" } });
    const plain = await deploy(platform, { ...common, name: "plain" });
    assert.equal(plain.status, "success", plain.log);
    assert.deepEqual(await say("plain", "two"), ["one", "two"]);
    await platform.end("SIGTERM");
    await platform.restart();
    assert.deepEqual(await say("contained", "three"), ["one", "two", "three"]);
  },
);
