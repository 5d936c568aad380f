// The Docker engine that tests get.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { baseImage, noEngine, openEngine, openRegistry } from "#test/support/docker-engine.ts";
import { runDocker } from "#test/support/dockerd.ts";

const skip = await noEngine();

test(
  "a test gets an engine with a base image, and a registry that it can push to",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const said = runDocker(engine, "run", "--rm", baseImage, "python3", "--version");
    assert.match(said, /^Python 3\.11/);
    const registry = await openRegistry(t);
    assert.match(
      registry.push(engine, baseImage, "base:one"),
      /^127\.0\.0\.1:\d+\/base:one@sha256:[0-9a-f]{64}$/,
    );
  },
);
