// Deploys, rollbacks, scale-downs and kills of the platform while calls, streams and WebSockets
// run: none of them fails but those in flight in the killed platform itself. In full with
// `SLIPWAY_TEST_LOAD=<calls a second>`; see CONTRIBUTING.md.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startGitServer } from "./support/git-server.ts";
import { LoadOfCalls } from "./support/load-of-calls.ts";
import { deployLoaded, loadedServer } from "./support/loaded-app.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

const wanted = Number(process.env["SLIPWAY_TEST_LOAD"] ?? "0");
const isFull = wanted > 0;
const callsPerSecond = isFull ? wanted : 40;
const rounds = isFull
  ? { deploys: 20, rollbacks: 10, scaleDowns: 20, kills: 5 }
  : { deploys: 3, rollbacks: 1, scaleDowns: 2, kills: 1 };
const deadlineMs = 120_000;

/** The app under its load. */
async function openLoad(t: TestContext) {
  const git = await startGitServer(t);
  const platform = await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const { projectId } = platform.bootstrap;
  await deployLoaded(platform, git, { maxReplicaCount: 4, cooldownPeriodSeconds: 1 });
  const load = new LoadOfCalls({
    urlOf: () => `${platform.bootstrap.apiUrl}/v4/${projectId}/loaded`,
    callsPerSecond,
  });
  t.after(() => load.end());
  const path = `/v2/projects/${projectId}/apps/${projectId}-loaded`;
  const api = async (method: string, below: string, body?: unknown): Promise<Json> => {
    const answer = await platform.api(method, `${path}${below}`, body);
    assert.ok(
      answer.status < 300,
      `${method} ${below}: ${answer.status} ${JSON.stringify(answer.body)}`,
    );
    return answer.body;
  };
  return { git, platform, load, api };
}

/** What is done under the load. */
function actionsOn({ git, platform, load, api }: Awaited<ReturnType<typeof openLoad>>) {
  let version = 1;
  const releases = async (): Promise<Json[]> => (await api("GET", "/releases")).items;
  const liveNumber = async (): Promise<number> =>
    (await releases()).find(({ state }) => state === "live")?.number;
  const serving = async (): Promise<number> =>
    ((await api("GET", "/containers")) as Json[]).filter(
      ({ containerState }) => containerState === "RUNNING",
    ).length;
  const reach = (what: string, holds: () => Promise<boolean>) => until(what, holds, { deadlineMs });
  return {
    async deploys(round: number): Promise<void> {
      await api("PATCH", "", { rollOutDurationSeconds: round % 2 === 0 ? 0 : 2 });
      await git.push("team", "loaded", { "server.py": loadedServer(++version) });
      const { buildId } = await api("POST", "/builds", {});
      await reach(
        "it is deployed",
        async () => (await api("GET", `/builds/${buildId}`)).status === "success",
      );
      await reach("it is live", async () => (await releases())[0]?.state === "live");
    },
    async rollbacks(): Promise<void> {
      const before = await liveNumber();
      await api("POST", "/rollback", {});
      assert.notEqual(await liveNumber(), before);
    },
    async scaleDowns(): Promise<void> {
      await api("PATCH", "", { minReplicaCount: 3 });
      await reach("three replicas serve", async () => (await serving()) >= 3);
      await api("PATCH", "", { minReplicaCount: 1 });
      await reach("fewer replicas serve", async () => (await serving()) < 3);
    },
    async kills(): Promise<void> {
      load.down();
      await platform.end("SIGKILL");
      await platform.restart();
      load.up();
    },
  };
}

/** Twenty deploys take minutes. */
const timeout = isFull ? 3_600_000 : 240_000;

test(
  "deploys, rollbacks, scale-downs and kills fail no call but those in the killed platform",
  { timeout },
  async (t) => {
    const under = await openLoad(t);
    const actions = actionsOn(under);
    const roundsMax = Math.max(...Object.values(rounds));
    for (let round = 0; round < roundsMax; round++) {
      for (const name of Object.keys(actions) as (keyof typeof actions)[]) {
        // Each is spread evenly over all rounds.
        const part = rounds[name] / roundsMax;
        if (Math.floor((round + 1) * part) === Math.floor(round * part)) continue;
        await actions[name](round);
        t.diagnostic(`${name} in round ${round + 1}; ${under.load.failed} calls have failed`);
      }
    }
    const report = await under.load.end();
    t.diagnostic(JSON.stringify({ ...report, failures: report.failures.length, callsPerSecond }));
    assert.deepEqual(report.failures, []);
    assert.ok(report.calls > 0 && report.streams > 0 && report.sockets > 0);
    assert.ok(report.versions > rounds.deploys, `${report.versions} versions answered`);
  },
);
