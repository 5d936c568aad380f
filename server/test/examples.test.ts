// Every example app, and folders in the style of apps out there, is deployed for real by a real
// platform process, from a git repository over HTTP, and called.
import { test } from "node:test";
import { drawCases } from "./support/drawn-cases.ts";
import type { Scenario } from "./support/example-scenarios.ts";
import { serveExamples } from "./support/examples.ts";
import { sharedScenarios, styleFolders } from "./support/folder-scenarios.ts";
import { packageIndexAnswers } from "./support/package-index.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";

test("example apps build, answer, stream and scale to zero", async (t) => {
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: await serveExamples(t, styleFolders),
  });
  const noIndex = await packageIndexAnswers();
  const kindOf = ({ needsPackages }: Scenario): string => String(needsPackages);
  for (const { promise, needsPackages, run } of drawCases(sharedScenarios, {
    what: "example apps",
    max: 2,
    kindOf,
  })) {
    await t.test(promise, { skip: needsPackages ? noIndex : false }, () => run(platform, t));
  }
});
