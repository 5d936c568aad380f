// Files of an app that another editor than ours has saved: read as Python, pip and Docker read
// them, or named with what is wrong.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { appFiles } from "#deploy/app-files.ts";
import { pythonPackages } from "#deploy/python-packages.ts";
import { systemClock } from "#lib/clock.ts";
import {
  buildInState,
  createApp,
  playedTrial,
  requestBuild,
  startQueue,
} from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer, type RepositoryFiles } from "#test/support/git-server.ts";

const latin = (text: string): Buffer => Buffer.from(text, "latin1");
const utf16 = (text: string): Buffer =>
  Buffer.from(`\ufeff${text.replaceAll("\n", "\r\n")}`, "utf16le");

async function open(t: TestContext) {
  const database = await testDatabase(t);
  const folder = temporaryFolder(t, "deploy");
  const server = await startGitServer(t);
  const trial = playedTrial(() => ({ ok: true }));
  const parts = {
    ...database,
    folder,
    urlTemplate: server.urlTemplate,
    refreshed: [],
    clock: systemClock,
  };
  await startQueue(t, { ...parts, trial, buildsAtOnce: 1, buildTimeoutMs: 600_000 });
  const { db } = database;
  return async (name: string, files: RepositoryFiles, end: "success" | "build_failure") => {
    await server.createRepo("acme", name, files);
    const app = await createApp(db, { name, request: { gitRepo: `acme/${name}` } });
    const { buildId } = await requestBuild(db, app);
    const { row, log } = await buildInState(db, buildId, [end]);
    return {
      reason: row.reason ?? "",
      log: log.join("\n"),
      settings: row.settings as { cpu?: number },
    };
  };
}

test("settings and sources in any encoding that Python reads have their effect", async (t) => {
  const build = await open(t);
  const files = {
    "cerebrium.toml": utf16("# caf\xe9\n[cerebrium.hardware]\ncpu = 3\n"),
    "main.py": latin(`# -*- coding: latin-1 -*-\ndef run(): return "caf\xe9"\n`),
  };
  const made = await build("all", files, "success");
  assert.equal(made.settings.cpu, 3);
  const large = { "main.py": `X = '${"a".repeat(1_100_000)}'\ndef run(): return len(X)\n` };
  assert.equal((await build("large", large, "success")).reason, "");
});

test("package lists in any encoding that pip reads list their packages", (t) => {
  const folder = temporaryFolder(t, "app");
  writeFileSync(join(folder, "requirements.txt"), latin("# caf\xe9\n-r more.txt\n-r named.txt\n"));
  writeFileSync(join(folder, "more.txt"), utf16("six==1.16.0\nidna\n"));
  writeFileSync(join(folder, "named.txt"), latin("# coding: latin-1\ntoml # caf\xe9\n"));
  const wanted = { pip: {}, path: undefined, groups: [], entrypoint: [], hasDockerfile: false };
  const read = pythonPackages({ files: appFiles(folder), ...wanted });
  assert.deepEqual(read.ok && read.value.lines, ["six==1.16.0", "idna", "toml"]);
});

test("a file that cannot be read fails the build with its name, line and byte, instead of counting as missing", async (t) => {
  const build = await open(t);
  const main = { "main.py": "def run(): return 1\n" };
  const cases: readonly (readonly [RepositoryFiles, string])[] = [
    [
      {
        ...main,
        "slipway.toml": latin(
          "[cerebrium.hardware]\ncpu = 3\n[cerebrium.deployment]\nname = 'caf\xe9'\n",
        ),
      },
      "slipway.toml is not UTF-8: line 4 has the byte 0xe9. Save it as UTF-8.",
    ],
    [
      { ...main, "slipway.toml": Buffer.alloc(1_000_001, "#") },
      "slipway.toml is larger than 1 MB, the maximum for such a file. Make it smaller.",
    ],
    [
      { ...main, "requirements.txt": latin("six\nidna # caf\xe9\n") },
      "requirements.txt is not UTF-8: line 2 has the byte 0xe9. Save it as UTF-8.",
    ],
    [
      {
        ...main,
        "requirements.txt": "-r a/more.txt\n",
        "a/more.txt": Buffer.from("idna\n", "utf16le"),
      },
      "a/more.txt has a byte 0 in line 1, so it is not text, or is UTF-16 without a byte order mark. Save it as UTF-8.",
    ],
    [
      {
        ...main,
        "apt.txt": latin("caf\xe9\n"),
        "slipway.toml": "[cerebrium.dependencies.paths]\napt = 'apt.txt'\n",
      },
      "apt.txt is not UTF-8: line 1 has the byte 0xe9. Save it as UTF-8.",
    ],
    [
      { "main.py": utf16("def run(): return 1\n") },
      "main.py is saved as UTF-16, which Python does not read. Save it as UTF-8.",
    ],
    [
      { "main.py": latin("def run():\n  return 'caf\xe9'\n") },
      "main.py is not UTF-8: line 2 has the byte 0xe9. Save it as UTF-8, or name its encoding in the first line, as in # -*- coding: latin-1 -*-.",
    ],
  ];
  for (const [index, [files, expected]] of cases.entries()) {
    const { reason, log } = await build(`app-${index}`, files, "build_failure");
    assert.equal(reason, `${expected} Fix that, then build it again (POST …/apps/{app}/builds).`);
    assert.ok(log.includes(`Error: ${expected}`), log);
  }
});
