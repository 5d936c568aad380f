// The guide "Write your first app": its commands are run by bash in a home folder of their own, against a real platform, and
// print what the guide shows.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { serveExamples } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { guideBlocks, runGuide } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { commandsAt } from "./support/slipway-command.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/first-app.md");

async function stage(t: TestContext) {
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: await serveExamples(t) });
  const home = temporaryFolder(t, "home");
  mkdirSync(join(home, "slipway"));
  const { baseUrl, serviceAccountToken } = platform.bootstrap;
  const env = { PATH: `${join(projectDir, "cli/bin")}:${process.env["PATH"]}`, HOME: home };
  const login = await commandsAt(t, { env })(["login", "--token", "--url", baseUrl], { input: serviceAccountToken })
    .ended;
  assert.equal(login.code, 0, login.stderr);
  const text = readFileSync(guide, "utf8").replaceAll("~/slipway/.slipway", platform.dataDir);
  return { platform, home, env, blocks: guideBlocks(text) };
}

test("the guide's commands work as they are written and print what it shows", async (t) => {
  const { platform, env, home, blocks } = await stage(t);
  const output = await runGuide(blocks, { dataDir: platform.dataDir, cwd: home, env });
  assert.match(output, /first-app is live after /);
  assert.match(output, /App started successfully!/, "the build's log ends with the start of the app");
  assert.deepEqual(readdirSync(join(home, "first-app")).toSorted(), ["main.py", "slipway.toml"]);
});

test("a build that fails says why the app cannot be called", async (t) => {
  const { platform, env, home, blocks } = await stage(t);
  const wanted = ["value() {", "api() {", "BUILD="].map((start) => {
    const block = blocks.find(({ commands }) => commands.startsWith(start));
    return {
      commands: (block?.commands ?? "").replace('"gitPath": "hello"', '"gitPath": "no-such-folder"'),
      shown: null,
    };
  });
  const call = {
    commands: `curl -s "\${APP%/*}/greeter/run" -H "Authorization: Bearer $(value inferenceToken)" -d '{}'`,
    shown: null,
  };
  const output = await runGuide([...wanted, call], { dataDir: platform.dataDir, cwd: home, env });
  assert.match(
    output,
    /"message":"greeter has no release yet: its latest build is in state build_failure: .*no-such-folder/,
  );
});
