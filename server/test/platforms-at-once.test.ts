// Two whole platforms, with folders of their own, on one database: the second is refused while the
// first lives, and does nothing to the first one's replicas when it has taken its place.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { copyFileSync, readFileSync, rmSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { platformLock } from "#store/advisory-locks.ts";
import { drawTests } from "#test/support/drawn-cases.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { deploy } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { forgetInstallation } from "#test/support/instances.ts";
import { PlatformProcess, startPlatform } from "#test/support/platform-process.ts";
import { templateName } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

const test = drawTests({ what: "meetings of two platforms", count: 2, max: 1 });

const app = `import os

def run():
    return os.getpid()
`;

/** The installation that the platform works for. */
const idOf = ({ dataDir }: PlatformProcess): string =>
  readFileSync(join(dataDir, "installation.id"), "utf8").trim();

async function resultOf(platform: PlatformProcess): Promise<unknown> {
  const answer = await platform.call("pid-app", "run");
  return ((await answer.json()) as { result: unknown }).result;
}

test("a second platform on a database is refused, takes over after a kill, and leaves the first one's replicas alone", async (t) => {
  const git = await startGitServer(t);
  await git.createRepo("acme", "pid", { "main.py": app });
  const url = (await emptyDatabase(t, { template: templateName })).reveal();
  const settings = {
    SLIPWAY_DATABASE_URL: url,
    SLIPWAY_SECRET_KEY: randomBytes(32).toString("hex"),
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_DATABASE_CONNECTIONS: "4",
  };
  const first = await startPlatform(t, settings);
  const wish = {
    name: "pid-app",
    gitRepo: "acme/pid",
    pythonVersion: "3.11",
    cooldownPeriodSeconds: 600,
  };
  const made = await deploy(first, wish);
  assert.equal(made.status, "success", made.log);
  const answer = await resultOf(first);
  const instanceId = readFileSync(join(first.dataDir, "instance.id"), "utf8").trim();
  const client = new Client({ connectionString: url });
  t.after(() => client.end());
  await client.connect();
  /**
   * Reads the rows of the first platform's replicas; the second one starts its own, since calls
   * came a moment ago.
   */
  const rows = async (): Promise<unknown[]> =>
    (
      await client.query(
        "select id, instance_id, state, stopped_at, reason from replicas where instance_id = $1",
        [instanceId],
      )
    ).rows;
  const before = await rows();
  assert.equal(before.length, 1);

  const second = new PlatformProcess(temporaryFolder(t, "second"), settings);
  t.after(() => second.remove());
  // Only the platform that made the first project wrote it.
  copyFileSync(join(first.dataDir, "bootstrap.json"), join(second.dataDir, "bootstrap.json"));
  await assert.rejects(second.restart(), /the platform ended with 1/);
  const named = `(process ${first.pid()} on host ${hostname()}, data folder ${first.dataDir})`;
  assert.ok(second.output().includes(named), second.output());
  assert.match(
    second.output(),
    /Stop that one, or give this one its own database with SLIPWAY_DATABASE_URL/,
  );
  assert.equal(await resultOf(first), answer, "the first one serves");
  assert.deepEqual(await rows(), before);

  await first.end("SIGKILL");
  await second.restart();
  assert.deepEqual(await rows(), before, "what it cannot know it does not judge");
  assert.match(second.output(), /this platform leaves alone/);
  assert.equal(idOf(second), instanceId, "both work for the same installation");
  await second.end("SIGTERM");
  // As an earlier version left the database and the folder of the first one.
  await forgetInstallation(client);
  rmSync(join(first.dataDir, "installation.id"));
  await first.restart();
  assert.equal(await resultOf(first), answer, "its replica has lived on");
  assert.equal(idOf(first), instanceId, "what its folder said is the identity now");
});

test("a platform whose database another one has taken says so and ends", async (t) => {
  const url = (await emptyDatabase(t, { template: templateName })).reveal();
  const platform = await startPlatform(t, {
    SLIPWAY_DATABASE_URL: url,
    SLIPWAY_DATABASE_CONNECTIONS: "4",
  });
  const taker = new Client({ connectionString: url });
  const other = new Client({ connectionString: url });
  for (const client of [taker, other]) {
    t.after(() => client.end());
    await client.connect();
  }
  const taken = taker.query("select pg_advisory_lock($1)", [platformLock]);
  await until("it waits for the lock", async () => {
    const waiting = await other.query(
      "select from pg_locks where locktype = 'advisory' and not granted",
    );
    return waiting.rowCount === 1;
  });
  await other.query("select pg_terminate_backend(connection_pid) from instances");
  await taken;
  await platform.ended();
  assert.match(
    platform.output(),
    /another platform \(one that is just starting\) has the lock now/,
  );
  assert.match(
    platform.output(),
    /its replicas keep running without calls until it is started again/,
  );
});
