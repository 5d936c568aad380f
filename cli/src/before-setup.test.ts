// What `slipway` does in a checkout that is not set up: nothing there changes, and it needs no
// Node.js.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

const cli = fileURLToPath(new URL("..", import.meta.url));
const main = join(cli, "src/main.ts");
/** What every system has; the shell itself is found by its path. */
const usual = ["awk", "cat", "df", "dirname", "head", "readlink", "sed"];

/** A checkout on a machine that has the usual programs and these, as shell scripts. */
function checkout(t: TestContext, programs: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(folder, { recursive: true }));
  for (const name of ["bin", "package.json"])
    cpSync(join(cli, name), join(folder, "cli", name), { recursive: true });
  const tools = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(tools, { recursive: true }));
  for (const name of usual) {
    const { stdout } = spawnSync("/bin/sh", ["-c", `command -v ${name}`], { encoding: "utf8" });
    symlinkSync(stdout.trim(), join(tools, name));
  }
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(tools, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(tools, name), 0o755);
  }
  const files = (): string[] =>
    readdirSync(folder, { recursive: true, encoding: "utf8" }).toSorted();
  const before = files();
  return (...words: string[]) => {
    const given = {
      encoding: "utf8",
      env: { PATH: tools, HOME: tools },
      cwd: folder,
      timeout: 60_000,
    } as const;
    const { status, stdout, stderr } = spawnSync(
      "/bin/sh",
      [join(folder, "cli/bin/slipway"), ...words],
      given,
    );
    assert.deepEqual(files(), before, "nothing was installed");
    return { status, stdout, stderr };
  };
}

test("help is there before the set-up, the same as after it", (t) => {
  const run = checkout(t);
  const { stdout: help } = spawnSync(process.execPath, [main, "--help"], { encoding: "utf8" });
  const text = readFileSync(join(cli, "bin/help.txt"), "utf8");
  assert.equal(text, help, "to put it right: cli/bin/slipway --help > cli/bin/help.txt");
  for (const words of [["--help"], ["-h"], ["help"], ["deploy", "--help"], ["up", "--help"]]) {
    const { status, stdout } = run(...words);
    assert.equal(status, 0, words.join(" "));
    assert.ok(stdout.startsWith(help), words.join(" "));
    assert.match(stdout, /\nSlipway is not set up yet\. Run this once: .*\/slipway up\n$/);
  }
  assert.deepEqual([run().status, run().stdout], [2, ""]);
  assert.match(run("--version").stdout, /^\d+\.\d+\.\d+\n$/);
  const refused = run("deploy");
  assert.deepEqual([refused.status, refused.stdout], [1, ""]);
  assert.match(refused.stderr, /^Slipway is not set up yet\. Run this once: /);
});

test("doctor checks before the set-up what needs no packages, and installs nothing", (t) => {
  const bare = checkout(t)("doctor");
  assert.equal(bare.status, 1);
  for (const line of [
    /^fault    set-up           Node\.js and npm are needed once/m,
    /^fault    git              git is not installed$/m,
    /^warning  docker           no engine answers/m,
    /^warning  python           no Python/m,
    /^warning  user namespaces  not available/m,
    /^\w+ +disk             \d+\.\d GB free at \.$/m,
  ])
    assert.match(bare.stdout, line);
  const full = checkout(t, {
    node: "echo v20.20.2",
    npm: "echo 10.8.2",
    git: "echo git version 2.39.5",
    docker: "echo 27.1",
    unshare: "exit 0",
    "python3.12": "echo 1",
    "python3.10": 'case "$*" in *ensurepip*) exit 1;; esac; echo 1',
  })("doctor");
  assert.match(
    full.stdout,
    /^warning  set-up           not done yet; .* with Node\.js v20\.20\.2\n +slipway up$/m,
  );
  assert.match(full.stdout, /^ok       docker           engine 27\.1/m);
  assert.match(
    full.stdout,
    /^warning  python           Python 3\.10, 3\.12; .*\n +On Debian: apt-get install python3\.10-venv$/m,
  );
  const old = checkout(t, { node: "echo v18.1.0", npm: "echo 9.0.0", git: "echo git version 2" })(
    "doctor",
  );
  assert.match(
    old.stdout,
    /^fault    set-up           Node\.js v18\.1\.0 with npm 9\.0\.0 is too old$/m,
  );
});
