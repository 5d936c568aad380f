// The container image of the platform: made from a Debian, started as the guide says with the root
// folder read-only, toured, replaced by a new container, and refused where options are missing.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, test, type TestContext } from "node:test";
import { installationOf } from "#drivers/app-firewall.ts";
import { cleanLast } from "./support/clean-last.ts";
import { noEngine, openEngine } from "./support/docker-engine.ts";
import { leaveNothing } from "./support/docker-platform.ts";
import { runDocker, runDockerBeside, type Engine } from "./support/dockerd.ts";
import { makeFolder, removeFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { startGitServer } from "./support/git-server.ts";
import { deployLoaded } from "./support/loaded-app.ts";
import { callApi, type Bootstrap, type CalledPlatform } from "./support/platform-process.ts";
import { restartUnderLoad } from "./support/restart-under-load.ts";
import { until } from "./support/until.ts";

const root = join(import.meta.dirname, "../..");
const image = "slipway:test";
const base = "slipway-base:trixie";
/** With the embedded database. */
const bytesMax = 350e6;

const asked = process.env["SLIPWAY_TEST_IMAGE"] === "1";
const skip = asked ? await noEngine() : "takes minutes: SLIPWAY_TEST_IMAGE=1 runs it";

let folder = "";
let engine: Engine;

before(async () => {
  if (skip !== false) return;
  folder = makeFolder("image");
  engine = await openEngine();
  const archive = join(folder, "base.tar");
  run("mmdebstrap", "--variant=minbase", "--include=ca-certificates", "trixie", archive);
  runDocker(engine, "import", archive, base);
  const words = ["--base", base, "--tag", image, "--sbom", folder, "--", "--network", "host"];
  run(process.execPath, join(root, "tools/image.ts"), ...words);
});

after(() => {
  if (skip !== false) return;
  runDocker(engine, "image", "rm", "--force", image, base);
  removeFolder(folder);
});

function run(file: string, ...words: readonly string[]): void {
  const env = { ...process.env, PATH: `/usr/sbin:/usr/bin:${process.env["PATH"]}` };
  const { status, stdout, stderr } = spawnSync(file, words, {
    cwd: root,
    env: { ...env, DOCKER_HOST: engine.dockerHost },
    encoding: "utf8",
    timeout: 590_000,
  });
  assert.equal(
    status,
    0,
    `${file} ${words.join(" ")}\n${stdout.slice(-2000)}\n${stderr.slice(-2000)}`,
  );
}

const rights = [
  "--pid=host",
  "--cgroupns=host",
  "--security-opt=apparmor=unconfined",
  "--cap-add=SYS_ADMIN",
  "--cap-add=NET_ADMIN",
  "--cap-add=SYS_PTRACE",
];

/** Runs the image under this name until the test ends, with a volume of that name. */
async function platform(t: TestContext, name: string, options: readonly string[]) {
  const [port = ""] = await freePorts(1);
  const docker = (...words: readonly string[]): string => runDocker(engine, ...words);
  const beside = (...words: readonly string[]) => runDockerBeside(engine, ...words);
  const common = [
    "--detach",
    `--name=${name}`,
    "--network=host",
    "--read-only",
    "--tmpfs=/tmp",
    `--volume=${engine.socketPath}:/var/run/docker.sock`,
    `--volume=${name}:/var/lib/slipway`,
    `--env=SLIPWAY_PORT=${port}`,
  ];
  const start = async (): Promise<void> => {
    await beside("run", ...common, ...options, image);
    const health = ["inspect", "--format", "{{.State.Health.Status}}", name];
    const isHealthy = async (): Promise<boolean> => (await beside(...health)) === "healthy";
    await until("the image is healthy", isHealthy, { deadlineMs: 90_000 });
  };
  const inside = (script: string): string => docker("exec", name, "sh", "-euc", script);
  cleanLast(t, () => void docker("volume", "rm", "--force", name));
  await start();
  const dataDir = join(engine.dataRoot, "volumes", name, "_data");
  const list = await leaveNothing(t, { dataDir }, engine);
  cleanLast(t, () => void docker("rm", "--force", name));
  const remove = async (): Promise<void> => {
    await beside("stop", "--time", "60", name);
    await beside("rm", name);
  };
  const restart = async (): Promise<void> => {
    await remove();
    await start();
  };
  const table = ["list", "table", "inet", `slipway_${installationOf(dataDir)}`];
  const hasRules = (): boolean => spawnSync("nft", table).status === 0;
  const bootstrap = JSON.parse(readFileSync(join(dataDir, "bootstrap.json"), "utf8")) as Bootstrap;
  const called: CalledPlatform = { bootstrap, api: (...call) => callApi(bootstrap, ...call) };
  return { inside, restart, remove, called, port, list, hasRules };
}

const deploy = `
slipway up
mkdir /tmp/app
cd /tmp/app
slipway init --name hello
slipway deploy
slipway call hello/run name=Ada`;

test("the image is small, says what it is, and lists what it contains", { skip }, () => {
  const [made] = JSON.parse(runDocker(engine, "image", "inspect", image)) as [
    { readonly Config: { readonly Labels: Record<string, string> } },
  ];
  // Engines with containerd's store add the packed layers to the size that they tell.
  const files = ["run", "--rm", "--network=none", "--entrypoint=du", image, "-sxb", "/"];
  const bytes = Number.parseInt(runDocker(engine, ...files), 10);
  assert.ok(bytes < bytesMax, `${bytes} bytes`);
  const { version } = JSON.parse(readFileSync(join(root, "cli/package.json"), "utf8")) as {
    readonly version: string;
  };
  const label = (name: string) => made.Config.Labels[`org.opencontainers.image.${name}`] ?? "";
  assert.equal(label("version"), version);
  assert.match(label("base.digest"), /^sha256:[0-9a-f]{64}$/);
  assert.match(label("revision"), /^[0-9a-f]{40}$/);
  const processor = process.arch === "x64" ? "amd64" : process.arch;
  const file = join(folder, `slipway-${version}-${processor}.cdx.json`);
  const { components } = JSON.parse(readFileSync(file, "utf8")) as {
    readonly components: readonly { readonly purl: string }[];
  };
  for (const part of ["pkg:deb/debian/git@", "pkg:npm/fastify@", "pkg:npm/node-linux-"])
    assert.ok(
      components.some(({ purl }) => purl.startsWith(part)),
      part,
    );
});

test(
  "it deploys and answers with its files read-only, a new container goes on, and both leave nothing",
  { skip },
  async (t) => {
    const { inside, restart, remove, list, hasRules } = await platform(
      t,
      "slipway-test-root",
      rights,
    );
    assert.match(inside(`${deploy} --json`), /Hello, Ada!/);
    assert.throws(() => inside("touch /etc/written"), /Read-only file system/);
    const replica = (): string | undefined => {
      const printed = inside("slipway replicas hello --json");
      return (JSON.parse(printed) as readonly { readonly containerId: string }[])[0]?.containerId;
    };
    const served = replica();
    assert.ok(served !== undefined);
    await restart();
    assert.match(inside("slipway call hello/run name=Bob"), /Hello, Bob!/);
    assert.equal(replica(), served);
    assert.ok(hasRules());
    inside("slipway apps delete hello --yes");
    const isDeleted = (): boolean => list("ps", "--all").length === 0;
    await until("the app's containers are removed", isDeleted, { deadlineMs: 90_000 });
    await remove();
    assert.deepEqual(list("network", "ls"), []);
    assert.ok(!hasRules());
  },
);

test(
  "a new container takes over without a failed call, stream or async run",
  { skip },
  async (t) => {
    const git = await startGitServer(t);
    const { called, restart, port } = await platform(t, "slipway-test-load", [
      ...rights,
      "--env=SLIPWAY_HOLD_SECONDS=60",
      `--env=SLIPWAY_GIT_URL=${git.urlTemplate}`,
    ]);
    cleanLast(t, () => void spawnSync("nft", ["delete", "table", "inet", `slipway_hold_${port}`]));
    await deployLoaded(called, git, { maxReplicaCount: 1, cooldownPeriodSeconds: 600 });
    await restartUnderLoad(t, called, restart);
  },
);

test("a user who may use the engine's socket does the same without rights", { skip }, async (t) => {
  const group = String(statSync(engine.socketPath).gid);
  const { inside } = await platform(t, "slipway-test-user", [
    "--user=10001",
    `--group-add=${group}`,
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
  ]);
  assert.match(inside(deploy), /Hello, Ada!/);
  assert.match(inside("id -u"), /^10001$/);
});

test(
  "it does not start where the engine is missing, or apps could not be kept apart",
  { skip },
  () => {
    const refused = (options: readonly string[], why: RegExp): void =>
      assert.throws(() => runDocker(engine, "run", "--rm", ...options, image), why);
    const socket = ["--volume", `${engine.socketPath}:/var/run/docker.sock`];
    refused([], /no Docker engine answers at \/var\/run\/docker\.sock/);
    refused(socket, /is in the network (?:default|bridge), from which it does not reach/);
    refused([...socket, "--network", "host"], /Start the container with --pid host .*--cap-add/);
  },
);
