// Zygotes on a whole platform: an app that sleeps is woken by a fork, a refused one says why in its
// log, and a restart of the app or of the platform leaves nothing old behind.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { deploy, replicaCount } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";

const sandbox = await detectSandbox(tmpdir());
const isPossible = sandbox.kind === "namespaces" && !sandbox.isUserOwned && sandbox.hasOverlays;
const skip = isPossible ? false : "zygotes need root and overlays";

const deadlineMs = 120_000;

const app = `
import os, time
time.sleep(0.5)
imported_by = os.getpid()
greeting = os.environ.get("GREETING", "none")

def run():
    return {"isForked": os.getpid() != imported_by, "greeting": greeting, "pid": imported_by}
`;

type Result = { readonly isForked: boolean; readonly greeting: string };

type Fixture = {
  readonly platform: PlatformProcess;
  readonly appPath: string;
  /** Calls the app. */
  run(): Promise<Result>;
  /** Resolves when the app has no replica. */
  asleep(): Promise<void>;
};

async function openApp(t: TestContext, code: string): Promise<Fixture> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "sleeper", { "main.py": code });
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_ZYGOTE_MEMORY_PERCENT: "10",
  });
  const { appId, status, log } = await deploy(platform, {
    name: "sleeper",
    gitRepo: "acme/sleeper",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 0,
  });
  assert.equal(status, "success", log);
  return {
    platform,
    appPath: `/v2/projects/${platform.bootstrap.projectId}/apps/${appId}`,
    async run() {
      const answer = await platform.call("sleeper", "run", {});
      const text = await answer.text();
      assert.equal(answer.status, 200, text);
      return (JSON.parse(text) as { result: Result }).result;
    },
    async asleep() {
      await until("no replica is left", async () => (await replicaCount(platform, appId)) === 0, {
        deadlineMs,
      });
    },
  };
}

/** Calls the app again and again, each time when it sleeps, until it was forked. */
async function untilForked({ run, asleep }: Fixture): Promise<Result> {
  return await until(
    "a call is answered by a fork",
    async () => {
      const result = await run();
      if (result.isForked) return result;
      await asleep();
      return undefined;
    },
    { deadlineMs },
  );
}

test("a sleeping app is woken by a fork, also after changes and restarts", { skip }, async (t) => {
  const fixture = await openApp(t, app);
  const { platform, appPath, asleep } = fixture;
  assert.equal((await untilForked(fixture)).greeting, "none");
  await asleep();

  const secrets = await platform.api("PATCH", `${appPath}/secrets`, { GREETING: "hello" });
  assert.ok(secrets.status < 300, JSON.stringify(secrets.body));
  assert.equal((await fixture.run()).greeting, "hello", "the old zygote is not used any more");
  await asleep();
  assert.equal((await untilForked(fixture)).greeting, "hello");

  await platform.end("SIGTERM");
  await platform.restart();
  assert.equal((await untilForked(fixture)).greeting, "hello");
  await platform.end("SIGKILL");
  await platform.restart();
  assert.equal((await untilForked(fixture)).greeting, "hello");
});

test("an app that cannot be forked says why in its log", { skip }, async (t) => {
  const threads = `
import threading, time
threading.Thread(target=time.sleep, args=(100000,), daemon=True, name="counter").start()
`;
  const { platform, appPath, run, asleep } = await openApp(t, app + threads);
  await until(
    "the log says why",
    async () => {
      assert.equal((await run()).isForked, false);
      await asleep();
      const { body } = await platform.api("GET", `${appPath}/logs`);
      return JSON.stringify(body).includes("counter");
    },
    { deadlineMs },
  );
});
