// A restart of the platform on a socket that outlives it, as systemd holds one, under a load of
// calls, streams, WebSockets and async runs on connections that are used again: none fails. In full
// with `SLIPWAY_TEST_LOAD=<calls a second>`.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startGitServer } from "./support/git-server.ts";
import { LoadOfCalls } from "./support/load-of-calls.ts";
import { deployLoaded } from "./support/loaded-app.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const callsPerSecond = Number(process.env["SLIPWAY_TEST_LOAD"] ?? "40");
const restarts = 2;
const deadlineMs = 120_000;

/** The part of node's own sockets that can be bound without being accepted from. */
type SocketBinding = {
  readonly TCP: new (kind: number) => {
    readonly fd: number;
    bind(host: string, port: number): number;
    getsockname(into: { port?: number }): number;
    close(): void;
  };
  readonly constants: { readonly SERVER: number };
};

/** A socket that is bound to a free port, on which nothing of this process listens. */
function holdSocket(t: TestContext): { readonly socket: number; readonly port: number } {
  const { TCP, constants } = (
    process as unknown as { binding(name: string): SocketBinding }
  ).binding("tcp_wrap");
  const handle = new TCP(constants.SERVER);
  t.after(() => handle.close());
  const address: { port?: number } = {};
  assert.equal(handle.bind("127.0.0.1", 0), 0);
  assert.equal(handle.getsockname(address), 0);
  return { socket: handle.fd, port: address.port ?? 0 };
}

/** Each run ends, and well. */
async function assertSucceeded(platform: PlatformProcess, runs: readonly string[]): Promise<void> {
  const { projectId } = platform.bootstrap;
  const path = `/v2/projects/${projectId}/apps/${projectId}-loaded/runs`;
  for (const run of runs) {
    const ended = await until(
      `run ${run} ends`,
      async () => {
        const { item } = (await platform.api("GET", `${path}/${run}`)).body;
        return ["pending", "queued", "running"].includes(item.status) ? undefined : item;
      },
      { deadlineMs },
    );
    assert.equal(ended.status, "success", JSON.stringify(ended));
  }
}

test(
  "restarts on a socket that is held fail no call, stream, WebSocket or async run",
  { timeout: 240_000 },
  async (t) => {
    const git = await startGitServer(t);
    const { socket, port } = holdSocket(t);
    const platform = await startPlatformOnTestServer(
      t,
      { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_PORT: String(port) },
      { socket },
    );
    await deployLoaded(platform, git, { maxReplicaCount: 1, cooldownPeriodSeconds: 600 });
    const { apiUrl, projectId } = platform.bootstrap;
    assert.equal(new URL(apiUrl).port, String(port));
    const load = new LoadOfCalls({
      urlOf: () => `${apiUrl}/v4/${projectId}/loaded`,
      callsPerSecond,
      hasRuns: true,
    });
    t.after(() => load.end());
    for (let restart = 0; restart < restarts; restart++) {
      const answered = load.answered;
      await until("calls are answered", () => load.answered > answered + callsPerSecond, {
        deadlineMs,
      });
      assert.equal(await platform.end("SIGTERM"), 0, platform.output());
      await platform.restart({ socket });
    }
    const answered = load.answered;
    await until("calls are answered", () => load.answered > answered + callsPerSecond, {
      deadlineMs,
    });
    const report = await load.end();
    const { runs, failures, ...counts } = report;
    t.diagnostic(JSON.stringify({ ...counts, runs: runs.length, failures: failures.length }));
    assert.deepEqual(failures, []);
    assert.ok(report.calls > 0 && report.streams > 0 && report.sockets > 0 && runs.length > 0);
    await assertSucceeded(platform, runs);
  },
);
