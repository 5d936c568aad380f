// The Docker driver with a real platform: app folders give the same answers as with processes, and
// what goes wrong is named.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import {
  makeBase,
  noEngine,
  openRegistry,
  type TestRegistry,
} from "#test/support/docker-engine.ts";
import { startDockerPlatform, type DockerPlatform } from "#test/support/docker-platform.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import type { Scenario } from "#test/support/example-scenarios.ts";
import { deploy, serveExamples } from "#test/support/examples.ts";
import { imageScenarios, sharedScenarios, styleFolders } from "#test/support/folder-scenarios.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();

test(
  "app folders give the same answers in containers as in processes",
  { skip, timeout: 900_000 },
  async (t) => {
    const registry = await openRegistry(t);
    const docker = await startDockerPlatform(t, {
      SLIPWAY_GIT_URL: await serveExamples(t, styleFolders),
      SLIPWAY_DOCKER_REGISTRIES: registry.host,
    });
    const { platform } = docker;
    const noIndex = await packageIndexAnswers();
    const ownImage: Scenario = {
      promise:
        "a folder with a base image from a private registry: the app finds what the image has",
      needsPackages: false,
      run: () => tryOwnImage(docker, registry, t),
    };
    const kindOf = ({ needsPackages }: Scenario): string => String(needsPackages);
    const all = [...sharedScenarios, ...imageScenarios, ownImage];
    for (const { promise, needsPackages, run } of drawCases(all, {
      what: "apps in containers",
      max: 3,
      kindOf,
    })) {
      await t.test(promise, { skip: needsPackages ? noIndex : false }, () => run(platform, t));
    }
  },
);

async function tryOwnImage(
  { platform, engine }: DockerPlatform,
  registry: TestRegistry,
  t: TestContext,
): Promise<void> {
  const image = registry.push(engine, makeBase(t, engine, "ours"), "own/marked:1");
  const settings = { name: "style-image", gitPath: "style-image", baseImage: image };
  const refused = await deploy(platform, { ...settings, name: "no-auth" });
  assert.equal(refused.status, "build_failure", refused.log);
  assert.match(
    refused.log,
    /cannot be pulled: it may need credentials, and the app has no dockerAuth/,
  );
  const app = await deploy(platform, {
    ...settings,
    dockerAuth: `${registry.username}:${registry.password}`,
  });
  assert.equal(app.status, "success", app.log);
  assert.ok(!app.log.includes(registry.password));
  assert.equal(await resultOf(await platform.call("style-image", "marker", {})), "ours");
}

const badStarts = [
  {
    name: "no-module",
    files: { "main.py": "import nowhere_installed\n\ndef run():\n    return 1\n" },
    settings: {},
    reason: /No module named 'nowhere_installed'.*\[cerebrium\.dependencies\.pip\]/,
  },
  {
    name: "no-command",
    files: { "main.py": "" },
    settings: { runtime: "custom", entrypoint: ["no-such-program"], port: 8000 },
    reason: /The start command was not found: no-such-program\. Correct the entrypoint/,
  },
  {
    name: "no-port",
    files: { "main.py": "import time\nprint('idle', flush=True)\ntime.sleep(3600)\n" },
    settings: {
      runtime: "custom",
      entrypoint: ["python3", "main.py"],
      port: 8000,
      deploymentInitializationTimeout: 60,
    },
    reason:
      /It did not become ready within 60 seconds\. .*Nothing listens on port 8000: the app must listen on the port in its settings/,
  },
] as const;

test("a start that fails in a container is named with its reason", { skip }, async (t) => {
  const server = await startGitServer(t);
  const { platform } = await startDockerPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate });
  for (const { name, files } of badStarts) await server.createRepo("acme", name, files);
  const drawn = drawCases(badStarts, { what: "starts that fail", max: 2 });
  const tried = drawn.map(async ({ name, settings, reason }) => {
    const { status, log } = await deploy(platform, { name, gitRepo: `acme/${name}`, ...settings });
    assert.match(status, /^init_(failure|timeout)$/, log);
    assert.match(log, reason);
  });
  await Promise.all(tried);
});

const main = `
import os

def run(version="one"):
    print("run of", version, flush=True)
    return "one"

def keep(text):
    with open("/persistent-storage/kept", "w") as file:
        file.write(text)

def kept():
    with open("/persistent-storage/kept") as file:
        return file.read()

def fill():
    print("filling", flush=True)
    parts = []
    while True:
        parts.append(bytearray(os.urandom(4_000_000)))
`;

test(
  "containers keep logs by run, share storage, survive the platform and make way for a new release",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "app", { "main.py": main });
    const docker = await startDockerPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate });
    const { platform } = docker;
    const common = { gitRepo: "acme/app", cpu: 0.5, memory: 0.25, minReplicaCount: 1 };
    const [one, other] = await Promise.all(
      ["one", "other"].map((name) => deploy(platform, { ...common, name })),
    );
    assert.deepEqual(
      [one?.status, other?.status],
      ["success", "success"],
      `${one?.log}${other?.log}`,
    );
    const appId = one?.appId ?? "";

    await t.test("a line has the id of its run", async () => {
      const answer = (await (await platform.call("one", "run", {})).json()) as { run_id: string };
      await logLine(platform, appId, { runId: answer.run_id, line: "run of one" });
    });
    await t.test("apps of a project share a folder", async () => {
      assert.equal((await platform.call("one", "keep", { text: "shared" })).status, 200);
      assert.equal(await resultOf(await platform.call("other", "kept", {})), "shared");
    });
    await t.test("a killed platform finds its containers again", async () => {
      const before = docker.containers().toSorted();
      assert.equal(before.length, 2);
      await platform.end("SIGKILL");
      await platform.restart();
      assert.equal(await resultOf(await platform.call("one", "run", {})), "one");
      assert.deepEqual(docker.containers().toSorted(), before);
    });
    await t.test("an app that uses up its memory is named in the run and in the log", async () => {
      const answer = await platform.call("one", "fill", {});
      const reason = /used up its memory of 0\.25 GB/;
      assert.equal(answer.status, 502);
      const { message } = (await answer.json()) as { message: string };
      assert.match(message, reason);
      const runId = answer.headers.get("x-request-id") ?? "";
      const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/runs/${runId}`;
      await until("the run has its reason", async () => {
        return reason.test(JSON.stringify((await platform.api("GET", path)).body));
      });
      await logLine(platform, appId, { line: "used up its memory of 0.25 GB" });
    });
    await t.test("new code replaces the release, and its old container", async () => {
      const [before] = docker.containers().filter((id) => nameOf(docker, id).includes("other"));
      await server.push("acme", "app", { "main.py": main.replace('return "one"', 'return "two"') });
      const { projectId } = platform.bootstrap;
      const built = await platform.api(
        "POST",
        `/v2/projects/${projectId}/apps/${other?.appId}/builds`,
        {},
      );
      assert.equal(built.status, 201, JSON.stringify(built.body));
      await until(
        "the new release answers",
        async () => (await resultOf(await platform.call("other", "run", {}))) === "two",
        { deadlineMs: 180_000 },
      );
      await until(
        "the old container is gone",
        () => before !== undefined && !docker.containers().includes(before),
        {
          deadlineMs: 60_000,
        },
      );
    });
  },
);

function nameOf({ engine }: DockerPlatform, id: string): string {
  return runDocker(engine, "inspect", `--format={{index .Config.Labels "slipway.app"}}`, id);
}

/** Waits until the app's log has the line. */
async function logLine(
  platform: PlatformProcess,
  appId: string,
  { runId, line }: { readonly runId?: string; readonly line: string },
): Promise<void> {
  const query = runId === undefined ? "" : `?runId=${runId}`;
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}/logs${query}`;
  await until(
    `the log has "${line}"`,
    async () => {
      const lines = (await platform.api("GET", path)).body.logs as { logLine: string }[];
      return lines.some((one) => one.logLine.includes(line));
    },
    { deadlineMs: 60_000 },
  );
}

async function resultOf(response: Response): Promise<unknown> {
  return ((await response.json()) as { result: unknown }).result;
}
