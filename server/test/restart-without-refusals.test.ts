// A restart of the platform on a socket that outlives it, as systemd holds one or as a platform
// hands it to its successor, under a load of calls, streams, WebSockets and async runs on
// connections that are used again: none fails. In full with `SLIPWAY_TEST_LOAD=<calls a second>`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { emptyDatabase } from "./support/database.ts";
import { freePorts } from "./support/free-ports.ts";
import { startGitServer } from "./support/git-server.ts";
import { deployLoaded } from "./support/loaded-app.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { startPlatform } from "./support/platform-process.ts";
import { restartUnderLoad } from "./support/restart-under-load.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { templateName } from "./support/test-server.ts";
import { until } from "./support/until.ts";

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

const noFirewall =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "root and the program nft are needed";

const scaling = { maxReplicaCount: 1, cooldownPeriodSeconds: 600 };

test(
  "restarts on a socket that is held fail no call, stream, WebSocket or async run",
  { timeout: 240_000 },
  async (t) => {
    const git = await startGitServer(t);
    const { socket, port } = holdSocket(t);
    const settings = { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_PORT: String(port) };
    const platform = await startPlatformOnTestServer(t, settings, { socket });
    assert.equal(new URL(platform.bootstrap.apiUrl).port, String(port));
    await deployLoaded(platform, git, scaling);
    await restartUnderLoad(t, platform, async () => {
      assert.equal(await platform.end("SIGTERM"), 0, platform.output());
      await platform.restart({ socket });
    });
  },
);

test(
  "a platform that holds connections back is replaced without a failed call, and holds none for long",
  { timeout: 240_000, skip: noFirewall },
  async (t) => {
    const git = await startGitServer(t);
    const [port = ""] = await freePorts(1);
    const settings = {
      SLIPWAY_GIT_URL: git.urlTemplate,
      SLIPWAY_PORT: port,
      SLIPWAY_HOLD_SECONDS: "60",
    };
    const platform = await startPlatformOnTestServer(t, settings);
    await deployLoaded(platform, git, scaling);
    const table = ["list", "table", "inet", `slipway_hold_${port}`];
    t.after(() => spawnSync("nft", ["delete", ...table.slice(1)]));
    await restartUnderLoad(t, platform, async () => {
      assert.equal(await platform.end("SIGTERM"), 0, platform.output());
      assert.match(spawnSync("nft", table, { encoding: "utf8" }).stdout, / drop/);
      await platform.restart();
      assert.notEqual(spawnSync("nft", table).status, 0, "the next platform ends the hold");
    });
    await platform.end("SIGTERM");
    await platform.restart({ environment: { SLIPWAY_HOLD_SECONDS: "1" } });
    await platform.end("SIGTERM");
    const isRefused = (): Promise<boolean> =>
      fetch(platform.bootstrap.apiUrl).then(
        () => false,
        ({ cause }: Error) => (cause as NodeJS.ErrnoException).code === "ECONNREFUSED",
      );
    await until("connections are refused again", isRefused, { deadlineMs });
  },
);

test(
  "slipway restart has the platform start its successor, and fails no call either",
  { timeout: 240_000 },
  async (t) => {
    const git = await startGitServer(t);
    const [port = ""] = await freePorts(1);
    const url = await emptyDatabase(t, { template: templateName });
    const settings = {
      SLIPWAY_GIT_URL: git.urlTemplate,
      SLIPWAY_PORT: port,
      SLIPWAY_DATABASE_URL: url.reveal(),
      SLIPWAY_DRIVER: "process",
    };
    const platform = await startPlatform(t, settings);
    const { dataDir } = platform;
    const slipway = commandsAt(t, {
      env: { ...settings, SLIPWAY_DATA_DIR: dataDir, SLIPWAY_TOKEN: "" },
    });
    const pidOf = (): string => readFileSync(join(dataDir, "slipway.pid"), "utf8");
    try {
      await deployLoaded(platform, git, scaling);
      await restartUnderLoad(t, platform, async () => {
        const before = pidOf();
        const { code, stderr } = await slipway(["restart"]).ended;
        assert.equal(code, 0, stderr);
        assert.match(stderr, /The platform runs at http/);
        assert.notEqual(pidOf(), before);
        assert.ok(!existsSync(join(dataDir, "successor.json")), "it may hold secrets");
      });
      assert.ok(platform.hasEnded());
      const last = pidOf();
      const broken = slipway(["restart"], {
        env: { ...settings, SLIPWAY_DATA_DIR: dataDir, SLIPWAY_LOG_LEVEL: "loud" },
      });
      const { code, stderr } = await broken.ended;
      assert.equal(code, 1);
      assert.match(stderr, /SLIPWAY_LOG_LEVEL/);
      assert.equal(pidOf(), last, "the one of before goes on");
      assert.equal((await fetch(`http://127.0.0.1:${port}/readyz`)).status, 200);
    } finally {
      await slipway(["down"]).ended;
    }
  },
);
