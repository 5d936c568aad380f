// The command line as a package of its own: packed, installed in an empty folder without a network,
// and used from there against a running platform.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { installPackage } from "./support/installed-package.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const packProgram = join(import.meta.dirname, "../../tools/pack-cli.ts");

/** `slipway dev` runs the app of the folder, until it is interrupted. */
async function assertDevelops(slipway: ReturnType<typeof commandsAt>): Promise<void> {
  const developing = slipway(["dev"]);
  const [, url = ""] = await until(
    "the app runs",
    () => /runs at (\S+)/.exec(developing.stderr()),
    {
      deadlineMs: 60_000,
    },
  );
  assert.match(
    await (await fetch(`${url}/run`, { method: "POST", body: "{}" })).text(),
    /Hello, world!/,
  );
  developing.interrupt();
  assert.equal((await developing.ended).code, 130);
}

test("the packed command line deploys and shows an app, without the platform and its packages", async (t) => {
  const folder = temporaryFolder(t, "installed");
  installPackage(folder, "pack-cli.ts");
  const program = [process.execPath, join(folder, "node_modules/.bin/slipway")];
  assert.deepEqual(readdirSync(join(folder, "node_modules")).toSorted(), [
    ".bin",
    ".package-lock.json",
    "@slipway",
  ]);
  const manifest = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../cli/package.json"), "utf8"),
  );
  const platform = await startPlatformOnTestServer(t);
  const { baseUrl, serviceAccountToken } = platform.bootstrap;
  const cwd = temporaryFolder(t, "app");
  const slipway = commandsAt(t, { program, cwd });
  const said = async (words: readonly string[], input = ""): Promise<string> => {
    const { code, stdout, stderr } = await slipway(words, { input }).ended;
    assert.equal(code, 0, `${words.join(" ")}\n${stderr}`);
    return stdout;
  };
  assert.equal(await said(["--version"]), `${manifest.version}\n`);
  await said(["login", "--token", "--url", baseUrl], serviceAccountToken);
  await said(["init", "--name", "packed"]);
  assert.match(await said(["deploy"]), /^packed is live/m);
  assert.match(await said(["apps"]), /^packed +ACTIVE/m);
  const answer = await platform.call("packed", "run", { name: "Ada" });
  assert.match(await answer.text(), /Hello, Ada!/);
  assert.equal((await slipway(["doctor"]).ended).stderr, "");

  await assertDevelops(slipway);

  for (const words of [["start"], ["up"], ["down"]]) {
    const { code, stderr } = await slipway(words).ended;
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^The platform is not part of this package.*\n.*npm start\n.*slipway login --url/,
    );
  }

  // As if it were the platform's source: its programs are not run unasked.
  mkdirSync(join(cwd, "tools"));
  mkdirSync(join(cwd, "node_modules/.bin"), { recursive: true });
  writeFileSync(join(cwd, "package.json"), '{"name": "slipway-workspace"}');
  writeFileSync(
    join(cwd, "tools/setup.mjs"),
    'import { writeFileSync } from "node:fs"; writeFileSync("was-run", "")',
  );
  writeFileSync(join(cwd, "node_modules/.bin/node"), "#!/bin/sh\ntouch was-run\n", { mode: 0o755 });
  for (const words of [["up"], ["down"]]) {
    const { code, stderr } = await slipway(words).ended;
    assert.deepEqual(
      [code, stderr.replace(cwd, ".")],
      [2, "Run the programs in .? There is no terminal to ask on: add --yes to do it.\n"],
    );
  }
  assert.ok(!existsSync(join(cwd, "was-run")));
  await slipway(["up", "--yes"]).ended;
  assert.ok(existsSync(join(cwd, "was-run")));
});

test("the executable needs no Node.js, and runs an app with the files that it contains", async (t) => {
  const folder = temporaryFolder(t, "executable");
  const env = { PATH: "/usr/bin:/bin", HOME: folder };
  const packing = [packProgram, "--executable", folder];
  const packed = spawnSync(process.execPath, packing, { env, encoding: "utf8", timeout: 120_000 });
  assert.equal(packed.status, 0, packed.stderr);
  assert.equal(packed.stdout, `${join(folder, "slipway")}\n`);
  const cwd = temporaryFolder(t, "app");
  const slipway = commandsAt(t, { program: [join(folder, "slipway")], cwd });
  const { version } = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../cli/package.json"), "utf8"),
  );
  assert.equal((await slipway(["--version"]).ended).stdout, `${version}\n`);
  assert.equal((await slipway(["init"]).ended).code, 0);
  await assertDevelops(slipway);
  assert.match((await slipway(["up"]).ended).stderr, /^The platform is not part of this package/);
});

test("the package verifies an exported audit log, and has the terms of what it contains", async (t) => {
  const folder = temporaryFolder(t, "installed");
  installPackage(folder, "pack-cli.ts");
  const program = [process.execPath, join(folder, "node_modules/.bin/slipway")];
  const licenses = readFileSync(
    join(folder, "node_modules/@slipway/cli/THIRD-PARTY-LICENSES.txt"),
    "utf8",
  );
  for (const name of ["yazl", "ignore", "smol-toml", "openapi-fetch"])
    assert.match(licenses, new RegExp(`^${name}$`, "m"));
  assert.ok(!existsSync(join(folder, "node_modules/@slipway/server")));
  const file = join(folder, "export.ndjson");
  writeFileSync(file, "not an export\n");
  const { code, stderr } = await commandsAt(t, { program })(["audit", "verify", file]).ended;
  assert.equal(code, 2, stderr);
});
