// Backups at s3:// addresses, in a server of this machine that speaks S3.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { S3Folder } from "#backups/s3-folder.ts";
import { Secret } from "#lib/secret.ts";
import { emptyDatabase, testDatabase } from "./support/database.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const isThere = spawnSync("gofakes3", ["-h"], { timeout: 20_000 }).error === undefined;
const noServer = isThere
  ? false
  : "gofakes3 is not installed here: go install github.com/johannesboyne/gofakes3/cmd/gofakes3@v1.2.0";

/** A server with the bucket `own`; returns the settings for it. */
async function startServer(t: TestContext): Promise<Record<string, string>> {
  const [port = ""] = await freePorts(1);
  const parameters = ["-backend", "memory", "-host", `127.0.0.1:${port}`, "-initialbucket", "own"];
  const server = spawn("gofakes3", parameters, { stdio: "ignore" });
  t.after(() => server.kill("SIGKILL"));
  const endpoint = `http://127.0.0.1:${port}`;
  const answers = (): Promise<boolean> =>
    fetch(endpoint).then(
      () => true,
      () => false,
    );
  await until("the server answers", answers, { deadlineMs: 30_000 });
  return {
    SLIPWAY_BACKUP_S3_ENDPOINT: endpoint,
    SLIPWAY_BACKUP_S3_ACCESS_KEY_ID: "any",
    SLIPWAY_BACKUP_S3_SECRET_ACCESS_KEY: "any",
  };
}

test(
  "what a killed backup has uploaded is listed, and can be removed",
  { skip: noServer },
  async (t) => {
    const { SLIPWAY_BACKUP_S3_ENDPOINT: endpoint = "" } = await startServer(t);
    const folder = new S3Folder(
      {
        endpoint,
        region: "auto",
        accessKeyId: new Secret("any"),
        secretAccessKey: new Secret("any"),
      },
      { bucket: "own", prefix: "some/" },
    );
    assert.deepEqual(await folder.list(), []);
    // What a backup leaves that is killed after it has begun. This server checks no signatures.
    for (const name of ["some/one day.age", "some/other.age", "some/inner/day.age", "day.age"]) {
      const begun = await fetch(`${endpoint}/own/${name}?uploads`, { method: "POST" });
      assert.equal(begun.status, 200);
    }
    const left = await folder.list();
    assert.deepEqual(
      left.map((name) => name.replace(/\d+$/, "ID")),
      ["one day.age.unfinished-upload-ID", "other.age.unfinished-upload-ID"],
    );
    await folder.remove(left[0] ?? "");
    assert.deepEqual(await folder.list(), left.slice(1));
    await folder.remove(left[1] ?? "");
    assert.deepEqual(await folder.list(), []);
  },
);

test("a backup goes to a bucket, and comes back from it", { skip: noServer }, async (t) => {
  const { url } = await testDatabase(t, { hasKey: true });
  const cwd = temporaryFolder(t, "backup");
  mkdirSync(join(cwd, "data"));
  writeFileSync(join(cwd, "data/bootstrap.json"), "{}");
  const env = {
    ...(await startServer(t)),
    SLIPWAY_DATA_DIR: join(cwd, "data"),
    SLIPWAY_DATABASE_URL: url.reveal(),
  };
  const slipway = commandsAt(t, { cwd, env });
  const done = async (words: string, more: Record<string, string> = {}): Promise<string> => {
    const { code, stdout, stderr } = await slipway(words.split(" "), { env: { ...env, ...more } })
      .ended;
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const refused = async (words: string): Promise<string> => {
    const { code, stderr } = await slipway(words.split(" ")).ended;
    assert.equal(code, 1, stderr);
    return stderr;
  };
  const key = await done("backup --new-key own.key");
  await done(`backup s3://own/some/day.age --public-key ${key}`);
  assert.match(await refused(`backup s3://own/some/day.age --public-key ${key}`), /exists already/);
  assert.match(
    await refused(`backup s3://other/day.age --public-key ${key}`),
    /The bucket other cannot be used: .* 404 .*: it may have no bucket of this name/,
  );
  assert.match(
    await refused("restore s3://own/night.age --key own.key --check"),
    /There is no backup/,
  );
  const to = await emptyDatabase(t);
  await done("restore s3://own/some/day.age --key own.key", {
    SLIPWAY_DATA_DIR: join(cwd, "restored"),
    SLIPWAY_DATABASE_URL: to.reveal(),
  });
  await done(`backup restored.age --public-key ${key}`, { SLIPWAY_DATABASE_URL: to.reveal() });
});
