// The setting egressCidrs on a whole platform, with both drivers: what a change of it takes, when
// it is in effect, and what is refused.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { test, type TestContext } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { openLanHost } from "#test/support/lan-host.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import type { PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";

const detected = await detectSandbox(tmpdir());
const hasNetwork = detected.kind === "namespaces" && detected.network.kind === "own";
const noProcesses = hasNetwork
  ? false
  : "replicas cannot have networks of their own on this machine";
const noRules =
  spawnSync("nft", ["list", "tables"]).status === 0 ? false : "this needs root and nft";
const noContainers = (await noEngine()) || noRules;

const main = `import socket

def run(host: str, port: int):
    try:
        with socket.create_connection((host, port), 3) as client:
            return client.recv(100).decode()
    except OSError:
        return "nothing"
`;
const fields = {
  name: "limited",
  gitRepo: "acme/limited",
  pythonVersion: "3.11",
  cooldownPeriodSeconds: 600,
};

type Settings = Record<string, string>;
const drivers = [
  { name: "processes", skip: noProcesses, start: startPlatformOnTestServer },
  {
    name: "containers",
    skip: noContainers,
    start: async (t: TestContext, settings: Settings) =>
      (await startDockerPlatform(t, settings)).platform,
  },
];

for (const { name, skip, start } of drivers) {
  test(`an app's way out is what a change makes it, with ${name}`, { skip }, async (t) => {
    const hosts = await Promise.all([openLanHost("203.0.113"), openLanHost("198.51.100")]);
    for (const host of hosts) cleanLast(t, () => host.close());
    const git = await startGitServer(t);
    await git.createRepo("acme", "limited", { "main.py": main });
    const platform = await start(t, { SLIPWAY_GIT_URL: git.urlTemplate });
    const reaches = (): Promise<string[]> =>
      Promise.all(
        hosts.map(async ({ host, port }) => {
          const answer = await platform.call("limited", "run", { host, port });
          return ((await answer.json()) as { result: string }).result;
        }),
      );
    const made = await deploy(platform, { ...fields, egressCidrs: [] });
    assert.equal(made.status, "success", made.log);
    assert.deepEqual(await reaches(), ["nothing", "nothing"]);

    const path = `/v2/projects/${platform.bootstrap.projectId}/apps/${made.appId}`;
    const egressCidrs = [`${hosts[0].host}/32`];
    const changed = await platform.api("PATCH", path, { egressCidrs });
    assert.deepEqual(
      [changed.status, changed.body.change],
      [200, "replica"],
      JSON.stringify(changed.body),
    );
    await until("the change is in effect", async () => String(await reaches()) === "lan,nothing");
    assert.deepEqual((await platform.api("GET", path)).body.settings.egressCidrs, {
      value: egressCidrs,
      origin: "api",
    });
    assert.equal((await platform.api("PATCH", path, { egressCidrs: null })).status, 200);
    await until("the change is in effect", async () => String(await reaches()) === "lan,lan");

    const refused = await platform.api("PATCH", path, { egressCidrs: ["10.0.0.0/8"] });
    assert.equal(refused.status, 400);
    assert.match(
      refused.body.message,
      /^egressCidrs has "10\.0\.0\.0\/8", but of private networks, apps may reach none here/,
    );
  });
}

test(
  "a way out that cannot be limited here is refused at once",
  { skip: noProcesses },
  async (t) => {
    const platform = await startPlatformOnTestServer(t, { SLIPWAY_APP_NETWORK: "shared" });
    assert.deepEqual(await creation(platform, { egressCidrs: [] }), [
      400,
      "egressCidrs is set, but what an app reaches cannot be limited here: SLIPWAY_APP_NETWORK is shared. Leave it out, or ask the operator for networks of apps (docs/guides/isolation.md).",
    ]);
    assert.match(
      String(await creation(platform, { egressCidrs: ["everything"] })),
      /^400,egressCidrs is \["everything"\], but must be a list of at most 64 ranges/,
    );
    assert.equal((await creation(platform, { egressCidrs: null }))[0], 201);
  },
);

async function creation(platform: PlatformProcess, more: object): Promise<[number, string]> {
  const path = `/v2/projects/${platform.bootstrap.projectId}/apps/git`;
  const { status, body } = await platform.api("POST", path, { ...fields, ...more });
  return [status, String(body.message)];
}
