// The platform as an npm package: packed, installed in an empty folder, and toured from there, on
// this Node.js and on the oldest that the package names, as root and as a user.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { makeFolder, removeFolder, temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { addDatabase, installNewVersion, installPackage } from "./support/installed-package.ts";
import { LoadOfCalls } from "./support/load-of-calls.ts";
import { loadedServer } from "./support/loaded-app.ts";
import { commandsAt, type CommandEnd } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

const nobody = 65534;

/** Where only the package is installed. */
let installed = "";
/** The oldest Node.js that the package names, or why it is not here. */
let oldestNode: { readonly program: string } | { readonly missing: string } = { missing: "" };

before(() => {
  installed = makeFolder("installed");
  installPackage(installed, "pack.ts", ["--omit=optional"]);
  addPostgres();
  chmodSync(installed, 0o755);
  oldestNode = installOldestNode();
});

after(() => removeFolder(installed));

/** As npm installs it without running its scripts: without the links between its libraries. */
function addPostgres(): void {
  const target = addDatabase(installed);
  const list = join(target, "native/pg-symlinks.json");
  if (process.platform !== "linux") return;
  for (const { target: link } of JSON.parse(readFileSync(list, "utf8")) as { target: string }[])
    rmSync(join(target, link));
}

/** Installed beside the package, for every user. */
function installOldestNode(): typeof oldestNode {
  const manifest = readFileSync(join(installed, "node_modules/slipway/package.json"), "utf8");
  const { engines } = JSON.parse(manifest) as { engines: { node: string } };
  const version = engines.node.replace(">=", "");
  const name = `node-${process.platform}-${process.arch}`;
  const folder = join(installed, "oldest");
  mkdirSync(join(folder, "node_modules"), { recursive: true });
  const words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", `${name}@${version}`];
  const { status, stderr } = spawnSync("npm", words, {
    cwd: folder,
    encoding: "utf8",
    timeout: 120_000,
  });
  return status === 0
    ? { program: join(folder, "node_modules", name, "bin/node") }
    : { missing: `npm cannot install Node.js ${version} here: ${stderr.trim().split("\n")[0]}` };
}

type Tour = {
  /** The user and the Node.js, as words before the program. */
  readonly prefix: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
};

/** Runs commands that must succeed; resolves with what they print. */
function succeeding(slipway: ReturnType<typeof commandsAt>) {
  return async (words: readonly string[]): Promise<CommandEnd> => {
    const end = await slipway(words).ended;
    assert.equal(end.code, 0, `${words.join(" ")}\n${end.stderr}`);
    assert.doesNotMatch(end.stderr, /ExperimentalWarning/);
    return end;
  };
}

/** From nothing to an answer, and down again. */
async function tour(t: TestContext, { prefix, env, cwd }: Tour): Promise<void> {
  const program = [...prefix, join(installed, "node_modules/slipway/bin/slipway.js")];
  const [port = ""] = await freePorts(1);
  const settings = { SLIPWAY_PORT: port, SLIPWAY_DRIVER: "process", ...env };
  const slipway = commandsAt(t, { program, cwd, env: settings });
  t.after(() => slipway(["down"]).ended);
  const said = succeeding(slipway);
  await said(["up"]);
  for (const path of ["dashboard", "docs"]) {
    const page = await fetch(`http://127.0.0.1:${port}/${path}`);
    assert.equal(page.status, 200, path);
    assert.match(await page.text(), /<title>/);
  }
  await said(["init", "--name", "toured"]);
  assert.match((await said(["deploy"])).stdout, /^toured is live/m);
  assert.match((await said(["call", "toured/run", "name=Ada"])).stdout, /Hello, Ada!/);
  assert.match(
    (await said(["down"])).stdout,
    /^The platform \(process \d+\) has stopped\.\n1 replica ended/,
  );
}

test("the package holds all that the platform needs, and nothing of its tests", () => {
  const folder = join(installed, "node_modules/slipway");
  assert.deepEqual(readdirSync(folder).toSorted(), [
    "LICENSE",
    "README.md",
    "THIRD-PARTY-LICENSES.txt",
    "bin",
    "dashboard",
    "dist",
    "package.json",
    "runtimes",
    "server",
    "tools",
  ]);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  assert.deepEqual(
    files.filter((name) => /\.test\.|__pycache__|\.map$/.test(name)),
    [],
  );
  const licenses = readFileSync(join(folder, "THIRD-PARTY-LICENSES.txt"), "utf8");
  for (const name of ["fastify", "pg", "better-auth"])
    assert.match(licenses, new RegExp(`^${name}\n\n`, "m"));
});

test("it starts a platform, deploys and answers", async (t) => {
  const env = { SLIPWAY_DATA_DIR: temporaryFolder(t, "data") };
  await tour(t, { prefix: [process.execPath], env, cwd: temporaryFolder(t, "app") });
});

test("a user does the same on the oldest Node.js, and finds the data below the home folder", async (t) => {
  if ("missing" in oldestNode) return t.skip(oldestNode.missing);
  const cwd = temporaryFolder(t, "app");
  const home = temporaryFolder(t, "home-of-user");
  const asUser =
    process.getuid?.() === 0
      ? ["setpriv", `--reuid=${nobody}`, `--regid=${nobody}`, "--clear-groups"]
      : [];
  if (asUser.length > 0) for (const folder of [cwd, home]) chownSync(folder, nobody, nobody);
  await tour(t, { prefix: [...asUser, oldestNode.program], env: { HOME: home }, cwd });
  const data = readdirSync(join(home, ".local/share/slipway"));
  assert.ok(data.includes("bootstrap.json"), data.join(" "));
});

test("a new version of the package takes over, and fails no call, stream, WebSocket or run", async (t) => {
  const folder = temporaryFolder(t, "upgraded");
  cpSync(join(installed, "node_modules"), join(folder, "node_modules"), {
    recursive: true,
    verbatimSymlinks: true,
  });
  const program = [process.execPath, join(folder, "node_modules/slipway/bin/slipway.js")];
  const [port = ""] = await freePorts(1);
  const dataDir = temporaryFolder(t, "data");
  const cwd = temporaryFolder(t, "app");
  const env = { SLIPWAY_PORT: port, SLIPWAY_DATA_DIR: dataDir, SLIPWAY_DRIVER: "process" };
  const slipway = commandsAt(t, { program, cwd, env });
  t.after(() => slipway(["down"]).ended);
  const said = succeeding(slipway);
  await said(["up"]);
  writeFileSync(join(cwd, "server.py"), loadedServer(1));
  writeFileSync(join(cwd, "slipway.toml"), loadedSettings);
  assert.match((await said(["deploy"])).stdout, /^loaded is live/m);
  const { projectId, serviceAccountToken } = JSON.parse(
    readFileSync(join(dataDir, "bootstrap.json"), "utf8"),
  ) as { readonly projectId: string; readonly serviceAccountToken: string };
  const load = new LoadOfCalls({
    urlOf: () => `http://127.0.0.1:${port}/v4/${projectId}/loaded`,
    callsPerSecond: Number(process.env["SLIPWAY_TEST_LOAD"] ?? "40"),
    hasRuns: true,
  });
  t.after(() => load.end());
  const isCalled = async (): Promise<void> => {
    const before = load.answered;
    await until("calls are answered", () => load.answered > before + 100, { deadlineMs: 60_000 });
  };
  await isCalled();
  installNewVersion(folder, "0.99.0");
  assert.match((await said(["--version"])).stdout, /0\.99\.0/);
  await isCalled();
  assert.match((await said(["restart"])).stderr, /The platform runs at /);
  await isCalled();
  const { failures, runs, ...counts } = await load.end();
  t.diagnostic(JSON.stringify({ ...counts, runs: runs.length, failures: failures.length }));
  assert.deepEqual(failures, []);
  assert.ok(counts.streams > 0 && counts.sockets > 0 && runs.length > 0);
  const ofApp = `http://127.0.0.1:${port}/v2/projects/${projectId}/apps/${projectId}-loaded`;
  const headers = { authorization: `Bearer ${serviceAccountToken}` };
  const hasSucceeded = async (run: string): Promise<boolean> => {
    const answer = await fetch(`${ofApp}/runs/${run}`, { headers });
    return ((await answer.json()) as { item: { status: string } }).item.status === "success";
  };
  for (const run of runs)
    await until(`run ${run} succeeds`, () => hasSucceeded(run), { deadlineMs: 60_000 });
});

const loadedSettings = `
[cerebrium.deployment]
name = "loaded"
disable_auth = true

[cerebrium.runtime.custom]
entrypoint = ["python", "server.py"]
port = 8000

[cerebrium.scaling]
min_replicas = 1
max_replicas = 1
replica_concurrency = 200
`;

test("an older Node.js is refused with what is needed", () => {
  const program = join(installed, "node_modules/slipway/bin/slipway.js");
  const old = 'Object.defineProperty(process.versions, "node", { value: "20.19.0" });';
  const words = ["--import", `data:text/javascript,${encodeURIComponent(old)}`, program, "up"];
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  assert.equal(status, 1);
  assert.match(stderr, /^Slipway needs Node\.js 22\.15 or newer, but this is 20\.19\.0\.\n$/);
});
