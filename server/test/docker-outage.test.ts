// An engine that is killed under a platform: what waits is told, nothing is lost, and everything
// goes on once it is back.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { freePorts } from "#test/support/free-ports.ts";
import { startOwnEngine } from "#test/support/own-engine.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();

const slowToml = `[cerebrium.deployment]
shell_commands = ["echo begun; sleep 3; echo finished"]
`;

test(
  "while the engine is away calls are told why, runs and builds wait, and all goes on afterwards",
  { skip },
  async (t) => {
    const server = await startGitServer(t);
    await server.createRepo("acme", "app", { "main.py": "def run():\n    return 1\n" });
    await server.createRepo("acme", "slow", {
      "main.py": "def run():\n    return 2\n",
      "cerebrium.toml": slowToml,
    });
    const own = await startOwnEngine(t);
    const [port = ""] = await freePorts(1);
    const settings = {
      SLIPWAY_GIT_URL: server.urlTemplate,
      SLIPWAY_METRICS_ADDRESS: `127.0.0.1:${port}`,
    };
    const { platform, containers } = await startDockerPlatform(t, settings, own.current);
    const isUp = async (): Promise<string | undefined> =>
      /^slipway_driver_up (\d)$/m.exec(
        await (await fetch(`http://127.0.0.1:${port}/metrics`)).text(),
      )?.[1];
    // That of the base image: the engine reaches no package servers.
    const common = { pythonVersion: "3.11", cpu: 0.5, memory: 0.25, cooldownPeriodSeconds: 0 };
    const app = await deploy(platform, { ...common, gitRepo: "acme/app", name: "app" });
    assert.equal(app.status, "success", app.log);
    assert.equal(await isUp(), "1");
    await until("the app sleeps", () => containers().length === 0);

    const apps = `/v2/projects/${platform.bootstrap.projectId}/apps`;
    const created = await platform.api("POST", `${apps}/git`, {
      ...common,
      gitRepo: "acme/slow",
      name: "slow",
    });
    assert.equal(created.status, 201);
    const slow = created.body as { appId: string; buildId: string };
    const build = `${apps}/${slow.appId}/builds/${slow.buildId}`;
    const statusOfSlow = async (): Promise<unknown> =>
      (await platform.api("GET", build)).body.status;
    const logOfSlow = async (): Promise<string> =>
      ((await platform.api("GET", `${build}/logs`)).body.logs as { log: string }[])
        .map(({ log }) => log)
        .join("\n");
    await until("the step runs", async () => /^begun$/m.test(await logOfSlow()), {
      deadlineMs: 120_000,
    });
    await own.end("SIGKILL");

    const refused = await platform.call("app", "run", {});
    const { message } = (await refused.json()) as { message: string };
    assert.equal(refused.status, 503, message);
    assert.match(message, /The Docker engine does not answer\. The operator has to start it/);
    assert.ok(Number(refused.headers.get("retry-after")) > 0);
    const accepted = await platform.call("app", "run?async=true", {});
    assert.equal(accepted.status, 202);
    const { run_id: runId } = (await accepted.json()) as { run_id: string };
    assert.equal(await isUp(), "0");
    const waits = (await platform.api("GET", `${apps}/${app.appId}`)).body as {
      waitReason: string | null;
    };
    assert.match(String(waits.waitReason), /The Docker engine does not answer/);
    await until("the build says that it waits", async () =>
      /The Docker engine does not answer\. The build/.test(await logOfSlow()),
    );

    await own.start();
    await until(
      "the build has ended",
      async () => /success|failure/.test(String(await statusOfSlow())),
      {
        deadlineMs: 120_000,
      },
    );
    const log = await logOfSlow();
    assert.equal(await statusOfSlow(), "success", log);
    assert.match(
      log,
      /^begun$[^]*^The connection to the Docker engine broke; trying again\.$[^]*^begun$[^]*^finished$/m,
    );
    const runOf = async (): Promise<unknown> =>
      (await platform.api("GET", `${apps}/${app.appId}/runs/${runId}`)).body.item.status;
    await until("the run has ended", async () => (await runOf()) === "success");
    assert.equal(await isUp(), "1");
    for (const name of ["app", "slow"])
      assert.equal((await platform.call(name, "run", {})).status, 200);
  },
);
