// No step of a build gets more rights than others, whatever its Dockerfile asks for, with a real
// engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { baseImage, noEngine, openEngine } from "#test/support/docker-engine.ts";
import { imageBuilds } from "#test/support/image-builds.ts";

const skip = await noEngine();
const plan = { runtime: "custom", dockerfilePath: "Dockerfile" } as const;
/** As old and new engines say it. */
const refusal = /Unknown flag: (?:network|security)|^A step of the Dockerfile asks for --/;

for (const flag of ["--network=host", "--security=insecure"]) {
  test(`a step that asks for ${flag} does not run`, { skip }, async (t) => {
    const builds = imageBuilds(t, await openEngine());
    const lines: string[] = [];
    const Dockerfile = `FROM ${baseImage}\nRUN ${flag} echo it runs\nCMD ["true"]\n`;
    await assert.rejects(builds.build({ Dockerfile }, { plan, lines }), (error) => {
      assert.ok(error instanceof BuildFailed, String(error));
      assert.match(error.message, refusal);
      return true;
    });
    assert.ok(!lines.some((line) => line.endsWith(" stdout it runs")), lines.join("\n"));
  });
}
