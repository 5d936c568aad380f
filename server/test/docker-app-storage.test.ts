// The storage that an app has for itself (storagePath), with containers.
import "#test/support/leftovers.ts";
import { test } from "node:test";
import { keeperFiles, keepApart } from "#test/support/app-storage-scenario.ts";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { startGitServer } from "#test/support/git-server.ts";

const skip = await noEngine();

test(
  "an app's own storage is seen by no other app, outlives releases, and goes with the app",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "keeper", keeperFiles);
    const { platform } = await startDockerPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate });
    await keepApart(platform);
  },
);
