// Accepted runs of an app whose replicas do not last: a neighbour ends them, or they do not start
// for a while. What no replica has seen waits, says what for, and runs in the end.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

/** An import fails as often as a file says that the storage holds. */
const app = `import os, pathlib, time

count = pathlib.Path("/persistent-storage/failures")
left = int(count.read_text()) if count.exists() else 0
if left > 0:
    count.write_text(str(left - 1))
    raise ConnectionError("the database is down")

def ok():
    return "ok"

def exits():
    os._exit(1)

def fail_from_now_on(imports: int):
    count.write_text(str(imports))
    os._exit(1)
`;

test(
  "accepted runs outlive their neighbours and a start that fails for a while",
  { timeout: 300_000 },
  async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("acme", "app", { "main.py": app });
    const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
    const built = await deploy(platform, {
      name: "app",
      gitRepo: "acme/app",
      pythonVersion: "3.11",
      cooldownPeriodSeconds: 600,
      maxReplicaCount: 1,
      replicaConcurrency: 1,
    });
    assert.equal(built.status, "success", built.log);
    const { projectId } = platform.bootstrap;
    const path = `/v2/projects/${projectId}/apps/${projectId}-app`;
    const accept = async (name: string, body: object = {}): Promise<string> => {
      const accepted = await platform.call("app", `${name}?async=true`, body);
      assert.equal(accepted.status, 202, await accepted.clone().text());
      return ((await accepted.json()) as { run_id: string }).run_id;
    };
    const runOf = async (runId: string): Promise<Json> =>
      (await platform.api("GET", `${path}/runs/${runId}`)).body?.item;
    const ended = async (runId: string): Promise<Json> => {
      await until("it has ended", async () => (await runOf(runId)).endedAt !== null, {
        deadlineMs: 120_000,
      });
      return await runOf(runId);
    };

    await t.test("a run after two that end the process", async () => {
      const poison = [await accept("exits"), await accept("exits")];
      const { status, attempts } = await ended(await accept("ok"));
      assert.deepEqual([status, attempts], ["success", 1]);
      for (const runId of poison) assert.equal((await ended(runId)).status, "failure");
    });

    await t.test(
      "runs among as many that end the process, and plain calls among them",
      async () => {
        const good: string[] = [];
        const plain: Promise<Response>[] = [];
        for (let turn = 0; turn < 5; turn++) {
          await accept("exits");
          good.push(await accept("ok"));
          plain.push(platform.call("app", "ok", {}));
        }
        for (const runId of good) {
          const { status, reason } = await ended(runId);
          assert.deepEqual([status, reason], ["success", null]);
        }
        for (const response of await Promise.all(plain))
          assert.equal(response.status, 200, await response.text());
      },
    );

    await t.test("runs while the import fails, which say so", async () => {
      await ended(await accept("fail_from_now_on", { imports: 4 }));
      const runs = await Promise.all(Array.from({ length: 12 }, () => accept("ok")));
      const [first = ""] = runs;
      await until(
        "it says what it waits for",
        async () =>
          /ConnectionError: the database is down/.test(String((await runOf(first)).reason)),
        { deadlineMs: 60_000 },
      );
      const refused = await platform.call("app", "ok", {});
      assert.ok(
        [200, 503].includes(refused.status),
        "a plain call waits, or gets the reason at once",
      );
      for (const runId of runs) {
        const { status, attempts, reason } = await ended(runId);
        assert.deepEqual([status, attempts, reason], ["success", 1, null]);
      }
    });
  },
);
