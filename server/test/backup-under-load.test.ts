// `slipway backup` of a platform that takes calls and async runs, and `slipway restore` after its
// data folder is lost: every run that was accepted before the backup is there and ends, secrets can
// be read, files of the storage are there, and apps answer without a new build.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { runStop } from "./support/run-stop.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const stepMs = 120_000;
const senders = 4;
/** So many are accepted before the backup begins; some of them still wait then. */
const runsMin = 40;
const source = `import os, time

def run(number):
    time.sleep(0.05)
    return {"number": number, "word": os.environ["WORD"]}

def keep(text):
    with open("/persistent-storage/kept.txt", "w") as file:
        file.write(text)

def kept():
    with open("/persistent-storage/kept.txt") as file:
        return file.read()
`;

type Run = { readonly id: string; readonly number: number };

/** A platform with the app `teller`, which tells a secret and keeps a text. */
async function openTeller(t: TestContext) {
  const git = await startGitServer(t);
  await git.createRepo("acme", "teller", { "main.py": source });
  const platform = await startPlatform(t, { SLIPWAY_GIT_URL: git.urlTemplate });
  const project = `/v2/projects/${platform.bootstrap.projectId}`;
  assert.equal((await platform.api("PATCH", `${project}/secrets`, { WORD: "secret" })).status, 200);
  const app = await deploy(platform, {
    name: "teller",
    gitRepo: "acme/teller",
    pythonVersion: "3.11",
  });
  assert.equal(app.status, "success", app.log);
  assert.equal((await platform.call("teller", "keep", { text: "a text" })).status, 200);
  return { platform, runs: `${project}/apps/${app.appId}/runs` };
}

/** Sends async runs and plain calls, until `stop`. */
function load(platform: PlatformProcess) {
  const accepted: Run[] = [];
  let isEnded = false;
  let next = 0;
  const send = async (): Promise<void> => {
    while (!isEnded) {
      const number = next++;
      const response = await platform.call("teller", "run?async=true", { number });
      const { run_id: id } = (await response.json()) as { run_id: string };
      assert.equal(response.status, 202);
      accepted.push({ id, number });
    }
  };
  const call = async (): Promise<void> => {
    while (!isEnded) {
      const { status } = await platform.call("teller", "run", { number: 0 });
      assert.equal(status, 200, "plain calls go on");
    }
  };
  const work = Promise.all([call(), ...Array.from({ length: senders }, send)]);
  work.catch(() => undefined);
  return {
    accepted,
    async stop() {
      isEnded = true;
      await work;
    },
  };
}

test("a backup taken under load gives every accepted run, the secrets, the files and the apps", async (t) => {
  const { platform, runs } = await openTeller(t);
  const storage = join(platform.dataDir, "storage", "large");
  const large = randomBytes(30_000_000);
  await writeFile(storage, large);
  const folder = temporaryFolder(t, "backup");
  const env = { SLIPWAY_DATA_DIR: platform.dataDir };
  const slipway = commandsAt(t, { cwd: folder, env });
  const done = async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await slipway(words).ended;
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const refused = async (...words: string[]): Promise<string> => {
    const { code, stderr } = await slipway(words).ended;
    assert.equal(code, 1, stderr);
    return stderr;
  };
  const publicKey = (await done("backup", "--new-key", "own.key")).trim();

  const traffic = load(platform);
  await until("runs are accepted", () => traffic.accepted.length >= runsMin);
  const before = [...traffic.accepted];
  await done("backup", "own.age", "--public-key", publicKey);
  await traffic.stop();
  assert.match(await refused("backup", "own.age", "--public-key", publicKey), /exists already/);
  assert.match(await refused("backup", "other.age"), /needs a public key/);
  assert.match(await refused("restore", "own.age", "--key", "own.key"), /is not empty/);

  await platform.end("SIGKILL");
  await runStop(platform.dataDir);
  await rm(platform.dataDir, { recursive: true });

  await done("backup", "--new-key", "wrong.key");
  assert.match(await refused("restore", "own.age", "--key", "wrong.key"), /another public key/);
  const bytes = await readFile(join(folder, "own.age"));
  await writeFile(join(folder, "short.age"), bytes);
  await truncate(join(folder, "short.age"), bytes.length - 1);
  assert.match(await refused("restore", "short.age", "--key", "own.key"), /damaged or cut off/);
  assert.ok(!(await readdir(join(platform.dataDir, ".."))).includes(platform.dataDir), "nothing");
  await mkdir(platform.dataDir, { recursive: true });
  assert.deepEqual(await readdir(platform.dataDir), [], "a refused restore leaves nothing");
  assert.match(await done("restore", "own.age", "--key", "own.key", "--check", "--json"), /"at"/);
  assert.deepEqual(await readdir(platform.dataDir), [], "a check writes nothing");
  await done("restore", "own.age", "--key", "own.key");

  await platform.restart();
  for (const { id, number } of before) {
    const find = () => platform.api("GET", `${runs}/${id}`);
    const isEnded = async (): Promise<boolean> => {
      const { status, body } = await find();
      assert.equal(status, 200, `run ${number} is known`);
      return body.item.status === "success";
    };
    await until(`run ${number} ends`, isEnded, { deadlineMs: stepMs });
  }
  const { result } = (await (await platform.call("teller", "run", { number: 7 })).json()) as {
    result: unknown;
  };
  assert.deepEqual(result, { number: 7, word: "secret" });
  const kept = (await (await platform.call("teller", "kept", {})).json()) as { result: unknown };
  assert.equal(kept.result, "a text");
  assert.ok((await readFile(storage)).equals(large), "a large file is there");
});
