// Which driver a platform starts with when nobody names one, with a real engine: it begins with
// docker where that works, and keeps to the driver that made its releases.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { dataPaths, readConfig } from "#config.ts";
import { dockerObstacle } from "#drivers/docker/open.ts";
import { noEngine, openEngine } from "#test/support/docker-engine.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";

const skip = await noEngine();
const nowhere = { SLIPWAY_DOCKER_HOST: "unix:///nowhere/docker.sock" };

/** Starts the platform again; returns what its log says of the choice. */
async function restarted(
  platform: PlatformProcess,
  environment: Record<string, string>,
): Promise<string> {
  await platform.end("SIGTERM");
  const before = platform.output().length;
  await platform.restart({ environment });
  return choiceIn(platform.output().slice(before));
}

function choiceIn(output: string): string {
  const found = output.match(/"driver (?:docker|process): [^"]*"/g) ?? [];
  assert.equal(found.length, 1, output);
  return (found[0] ?? "").slice('"driver '.length, -1);
}

test(
  "a new installation begins with docker where an engine answers, and keeps it",
  { skip },
  async (t) => {
    const { dockerHost } = await openEngine();
    const platform = await startPlatformOnTestServer(t, {
      SLIPWAY_DRIVER: "auto",
      SLIPWAY_DOCKER_HOST: dockerHost,
    });
    assert.match(
      choiceIn(platform.output()),
      /^docker: an engine answers at unix:.*docker\.sock, and images can be built there; .*SLIPWAY_DRIVER=process/,
    );
    assert.match(platform.output(), /apps run in containers/);
    await assert.rejects(
      restarted(platform, nowhere),
      /The driver is docker \(SLIPWAY_DRIVER, or the file driver of the data folder\), but no Docker engine answers at \/nowhere\/docker\.sock \(ENOENT\)/,
    );
    assert.match(
      await restarted(platform, { SLIPWAY_DRIVER: "process" }),
      /^process: SLIPWAY_DRIVER names it, but until now it was docker; .*each app must be deployed again/,
    );
    assert.match(
      await restarted(platform, {}),
      /^process: this installation has used it; .*SLIPWAY_DRIVER/,
    );
  },
);

test(
  "a new installation without an engine begins with processes, and keeps them",
  { skip },
  async (t) => {
    const platform = await startPlatformOnTestServer(t, { SLIPWAY_DRIVER: "auto", ...nowhere });
    assert.match(
      choiceIn(platform.output()),
      /^process: no Docker engine answers at \/nowhere\/docker\.sock \(ENOENT\); .*SLIPWAY_DRIVER=docker/,
    );
    const { dockerHost: SLIPWAY_DOCKER_HOST } = await openEngine();
    assert.match(
      await restarted(platform, { SLIPWAY_DOCKER_HOST }),
      /^process: this installation has used it/,
    );
  },
);

test("an installation of an earlier version with apps keeps processes", { skip }, async (t) => {
  const { dockerHost } = await openEngine();
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_DOCKER_HOST: dockerHost });
  const created = await platform.api(
    "POST",
    `/v2/projects/${platform.bootstrap.projectId}/apps/git`,
    {
      name: "app",
      gitRepo: "acme/app",
    },
  );
  assert.equal(created.status, 201, JSON.stringify(created.body));
  await platform.end("SIGTERM");
  // It did not write it.
  rmSync(join(platform.dataDir, "driver"));
  assert.match(
    await restarted(platform, { SLIPWAY_DRIVER: "auto" }),
    /^process: this installation has used it/,
  );
});

test(
  "an engine that cannot do all that is needed is passed over with the reason",
  { skip },
  async (t) => {
    const { dockerHost } = await openEngine();
    const dataDir = temporaryFolder(t, "choice");
    const obstacle = (
      environment: Record<string, string>,
      ...image: [string?]
    ): Promise<string | null> => {
      const given = {
        SLIPWAY_DATA_DIR: dataDir,
        SLIPWAY_DOCKER_HOST: dockerHost,
        PATH: process.env["PATH"],
      };
      return dockerObstacle(
        { ...readConfig({ ...given, ...environment }), paths: dataPaths(dataDir) },
        ...image,
      );
    };
    assert.equal(await obstacle({}), null);
    assert.match(
      (await obstacle({}, "localhost:1/none:none")) ?? "",
      /nor its registry has the usual base image localhost:1/,
    );
    assert.match(
      (await obstacle({ PATH: "/nowhere" })) ?? "",
      /no image can be built: there is no docker command line/,
    );
    assert.match(
      (await obstacle({ SLIPWAY_DOCKER_HOST: "tcp://engine:2375" })) ?? "",
      /not a socket of this machine/,
    );
  },
);
