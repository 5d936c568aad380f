// Two whole platforms on one database and one engine, each with a data folder of its own: the
// second is refused while the first lives, and then takes over what runs. Only the database says
// what belongs together.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "pg";
import { installationOf } from "#drivers/app-firewall.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { noEngine, openEngine } from "#test/support/docker-engine.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { leaveNothing } from "#test/support/docker-platform.ts";
import { deploy } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { forgetInstallation } from "#test/support/instances.ts";
import { PlatformProcess, startPlatform } from "#test/support/platform-process.ts";
import { templateName } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();

/** Each replica answers with a word of its own. */
const app = `import uuid

word = str(uuid.uuid4())

def run():
    return word
`;

async function resultOf(platform: PlatformProcess): Promise<unknown> {
  const answer = await platform.call("kept", "run");
  return ((await answer.json()) as { result: unknown }).result;
}

const idIn = (folder: string, name: string): string =>
  readFileSync(join(folder, name), "utf8").trim();

test(
  "a platform with an empty data folder takes over the containers of one that is gone",
  { skip },
  async (t) => {
    const git = await startGitServer(t);
    await git.createRepo("acme", "kept", { "main.py": app });
    const engine = await openEngine();
    const url = (await emptyDatabase(t, { template: templateName })).reveal();
    const settings = {
      SLIPWAY_DRIVER: "docker",
      SLIPWAY_DOCKER_HOST: engine.dockerHost,
      SLIPWAY_DATABASE_URL: url,
      SLIPWAY_DATABASE_CONNECTIONS: "4",
      SLIPWAY_SECRET_KEY: randomBytes(32).toString("hex"),
      SLIPWAY_GIT_URL: git.urlTemplate,
    };
    const first = await startPlatform(t, settings);
    const list = await leaveNothing(t, first, engine);
    const ours = `--filter=label=slipway.instance=${idIn(first.dataDir, "instance.id")}`;
    const networkNames = (): string[] =>
      runDocker(engine, "network", "ls", ours, "--format={{.Name}}").split("\n").filter(Boolean);
    const made = await deploy(first, {
      name: "kept",
      gitRepo: "acme/kept",
      pythonVersion: "3.11",
      cpu: 0.5,
      memory: 0.25,
      minReplicaCount: 1,
      cooldownPeriodSeconds: 600,
    });
    assert.equal(made.status, "success", made.log);
    const answer = await resultOf(first);
    const containers = list("ps");
    const networks = networkNames();
    assert.equal(containers.length, 1);

    const second = new PlatformProcess(temporaryFolder(t, "second"), settings);
    t.after(() => second.remove());
    // Only the platform that made the first project wrote it.
    copyFileSync(join(first.dataDir, "bootstrap.json"), join(second.dataDir, "bootstrap.json"));
    await assert.rejects(second.restart(), /the platform ended with 1/);
    assert.match(second.output(), /is using this database/);
    assert.equal(await resultOf(first), answer, "the first one serves");

    await first.end("SIGKILL");
    const client = new Client({ connectionString: url });
    t.after(() => client.end());
    await client.connect();
    // The old platform may also have been of an earlier version.
    await forgetInstallation(client);
    await second.restart();
    assert.equal(await resultOf(second), answer, "the same replica answers");
    assert.deepEqual(list("ps"), containers);
    assert.match(second.output(), /go on with the storage of another data folder/);
    assert.equal(idIn(second.dataDir, "installation.id"), idIn(first.dataDir, "instance.id"));
    assert.notEqual(idIn(second.dataDir, "instance.id"), idIn(first.dataDir, "instance.id"));
    const alive = "select instance_id from replicas where stopped_at is null";
    const { rows } = await client.query<{ instance_id: string }>(alive);
    assert.deepEqual(rows, [{ instance_id: idIn(second.dataDir, "instance.id") }]);

    // The next replica goes where the rules of the first one's networks hold.
    for (const id of containers) runDocker(engine, "rm", "--force", id);
    await until("another one answers", async () => {
      const next = await resultOf(second).catch(() => undefined);
      return typeof next === "string" && next !== answer;
    });
    assert.deepEqual(networkNames(), networks);
    const prefix = `slipway-${installationOf(first.dataDir)}-`;
    assert.ok(networks.length > 0 && networks.every((name) => name.startsWith(prefix)));
  },
);
