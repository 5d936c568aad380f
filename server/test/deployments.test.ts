// What people meet who deploy: a private repository, an app folder with the oddities of real ones,
// compute that is not there, new releases under load. A real platform, a real git host that asks
// for a token, real apps.
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { drawCases } from "./support/drawn-cases.ts";
import { deploy, replicaCount } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const gitToken = "git-token-that-nobody-may-see";
const registryAuth = "registry-auth-that-nobody-may-see";
const secretValue = "secret-value-that-nobody-may-see";

const strayToml = `
[cerebrium.deployment]
name = "in-the-file"
python_version = 3.10
include = ["./*", "main.py", "cerebrium.toml"]
exclude = [".*"]
shell_commands = [""]
disable_auth = true
[cerebrium.hardware]
cpu = 2.0
memory = 2.0
compute = "CPU"
gpu_count = 1
provider = "aws"
region = "us-east-1"
[cerebrium.scaling]
cooldown = 30
[cerebrium.build]
use_uv = true
[cerebrium.pip]
dependancies = ["numpy"]
[cerebrium.dependencies.conda]
`;

const gpuToml = `
[cerebrium.hardware]
compute = "AMPERE_A10"
gpu_count = 1
`;

const releaseMain = `
import os, time

def run():
    time.sleep(0.02)
    return os.environ["BUILD_ID"]
`;

const project = (platform: PlatformProcess): string =>
  `/v2/projects/${platform.bootstrap.projectId}`;

async function privateRepository(platform: PlatformProcess, host: string): Promise<void> {
  const wish = { gitRepo: "team/app", gitPath: "plain" };
  const without = await deploy(platform, { ...wish, name: "without-token" });
  assert.equal(without.status, "build_failure");
  assert.match(without.log, /is private: this project has no git credential .* add a credential/);
  const path = `${project(platform)}/git-credentials/${host}`;
  await platform.api("PUT", path, { kind: "token", secret: "not-the-right-one" });
  const wrong = await deploy(platform, { ...wish, name: "wrong-token" });
  assert.match(wrong.log, /the git credential that this project has .* is not allowed to read it/);
  await platform.api("PUT", path, { kind: "token", secret: gitToken });
  const right = await deploy(platform, { ...wish, name: "right-token" });
  assert.equal(right.status, "success", right.log);
  assert.doesNotMatch(right.log, /dockerAuth/);
}

async function credentialsOfImages(platform: PlatformProcess): Promise<void> {
  const dockerAuth = JSON.stringify({ auths: { "registry.example": { auth: registryAuth } } });
  const wish = { gitRepo: "team/app", gitPath: "plain", name: "with-credentials", dockerAuth };
  const { appId, status, log } = await deploy(platform, wish);
  assert.equal(status, "success", log);
  const warning =
    /Warning: dockerAuth is set, which has no effect with the process driver: it pulls no images;/;
  assert.match(log, warning);
  const app = `${project(platform)}/apps/${appId}`;
  assert.equal((await platform.api("PATCH", app, { dockerAuth: null })).status, 200);
  const logs = await until("it was built without them", async () => {
    const [build] = (await platform.api("GET", `${app}/builds`)).body;
    if (build.number !== 2 || build.status !== "success") return null;
    return (await platform.api("GET", `${app}/builds/${build.id}/logs`)).body.logs;
  });
  assert.doesNotMatch(JSON.stringify(logs), /dockerAuth/);
}

async function oddFolder(platform: PlatformProcess): Promise<void> {
  const odd = await deploy(platform, { name: "odd-folder", gitRepo: "team/app", gitPath: "odd" });
  assert.equal(odd.status, "success", odd.log);
  for (const warning of [
    /python_version .* read as 3\.10/,
    /gpu_count .* no effect/,
    /build .* is unknown/,
    /pip .* is unknown/,
  ]) {
    assert.match(odd.log, warning);
  }
  const open = await platform.call(
    "odd-folder",
    "run",
    { prompt: "hi" },
    { headers: { authorization: "" } },
  );
  assert.deepEqual(
    ((await open.json()) as Json).result,
    { my_result: "hi" },
    "disable_auth of the file counts",
  );
}

async function missingCompute(platform: PlatformProcess): Promise<void> {
  const body = { gitRepo: "team/app", gitPath: "gpu", name: "gpu-app" };
  const { appId, buildId } = (await platform.api("POST", `${project(platform)}/apps/git`, body))
    .body;
  const reason = /requests compute AMPERE_A10, but this platform has only CPU/;
  const app = `${project(platform)}/apps/${appId}`;
  const detail = await until("the build has failed", async () => {
    const { body: found } = await platform.api("GET", app);
    return found.lastBuildStatus === "build_failure" && found;
  });
  assert.match(detail.lastBuildReason, reason);
  const called = await until("calls are told the reason", async () => {
    const response = await platform.call("gpu-app", "run", {});
    assert.equal(response.status, 503);
    const { message } = (await response.json()) as { message: string };
    return reason.test(message);
  });
  assert.ok(called);
  await until("the build log says it", async () => {
    const { body: page } = await platform.api("GET", `${app}/builds/${buildId}/logs`);
    return page.logs.some(({ log }: { log: string }) => reason.test(log));
  });
}

async function releasesUnderLoad(platform: PlatformProcess): Promise<void> {
  const wish = {
    gitRepo: "team/app",
    gitPath: "release",
    replicaConcurrency: 2,
    maxReplicaCount: 2,
  };
  const first = await deploy(platform, { ...wish, name: "under-load", cooldownPeriodSeconds: 60 });
  assert.equal(first.status, "success", first.log);
  const seen = new Set<string>();
  const failures: string[] = [];
  let isOver = false;
  const caller = async (): Promise<void> => {
    while (!isOver) {
      const response = await platform.call("under-load", "run", {});
      const text = await response.text();
      if (response.status === 200) seen.add(JSON.parse(text).result);
      else failures.push(`${response.status} ${text}`);
    }
  };
  const callers = Array.from({ length: 4 }, caller);
  const builds = `${project(platform)}/apps/${first.appId}/builds`;
  let latest = first.buildId;
  for (let count = 0; count < 3; count++) {
    latest = (await platform.api("POST", `${builds}/${first.buildId}/rebuild`)).body.buildId;
    await until(`release ${count + 2} answers`, () => seen.has(latest), { deadlineMs: 60_000 });
  }
  const app = `${project(platform)}/apps/${first.appId}`;
  for (const release of [1, 4, 3]) {
    const back = await platform.api("POST", `${app}/rollback`, { release });
    assert.equal(back.status, 200, JSON.stringify(back.body));
    latest = back.body.buildId;
    seen.clear();
    await until(`after the rollback release ${release} alone answers`, async () => {
      const before = [...seen];
      seen.clear();
      return before.length === 1 && before[0] === latest;
    });
  }
  isOver = true;
  await Promise.all(callers);
  assert.deepEqual(failures, []);
  const replicas = async (): Promise<Json[]> =>
    (await platform.api("GET", `${project(platform)}/apps/${first.appId}/containers`)).body;
  await until("only the last release has replicas", async () =>
    (await replicas()).every((one) => one.buildId === latest),
  );
  assert.ok((await replicaCount(platform, first.appId)) <= 2);
}

/**
 * Files below the folder that hold the text, found without following links. Sockets and files that
 * go away meanwhile hold nothing.
 */
async function filesWith(folder: string, text: string, below = ""): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(join(folder, below), { withFileTypes: true }).catch(() => [])) {
    const path = join(below, entry.name);
    if (entry.isDirectory()) found.push(...(await filesWith(folder, text, path)));
    if (!entry.isFile()) continue;
    const content = await readFile(join(folder, path)).catch(() => Buffer.alloc(0));
    if (content.includes(text)) found.push(path);
  }
  return found;
}

async function secretsStaySecret(platform: PlatformProcess): Promise<void> {
  const { serviceAccountToken, inferenceToken, ownerPassword } = platform.bootstrap;
  await platform.api("PATCH", `${project(platform)}/secrets`, { SIGNING_KEY: secretValue });
  await platform.api("PATCH", `${project(platform)}/secrets`, {
    SIGNING_KEY: secretValue,
    "not a name": secretValue,
  });
  const { appId, status } = await deploy(platform, {
    name: "with-secret",
    gitRepo: "team/app",
    gitPath: "plain",
  });
  assert.deepEqual(
    [status, await replicaCount(platform, appId)],
    ["success", 1],
    "a replica has the secrets",
  );
  const basic = Buffer.from(`x-access-token:${gitToken}`).toString("base64");
  for (const secret of [gitToken, basic, registryAuth, secretValue]) {
    assert.deepEqual(await filesWith(platform.dataDir, secret), [], "it stands in no file");
    assert.equal(
      platform.output().includes(secret),
      false,
      "it stands in no line that the platform printed",
    );
  }
  for (const secret of [serviceAccountToken, inferenceToken, ownerPassword]) {
    assert.deepEqual(await filesWith(platform.dataDir, secret), ["bootstrap.json"]);
    assert.equal(platform.output().includes(secret), false);
  }
}

test("deployments say what they wait for or why they failed, and disturb nobody", async (t: TestContext) => {
  const server = await startGitServer(t, { credentials: `x-access-token:${gitToken}` });
  await server.createRepo("team", "app", {
    "plain/main.py": "def run():\n    return 1\n",
    "odd/cerebrium.toml": strayToml,
    "odd/main.py": 'def run(prompt: str):\n    return {"my_result": prompt}\n',
    "gpu/cerebrium.toml": gpuToml,
    "gpu/main.py": "def run():\n    return 1\n",
    "release/main.py": releaseMain,
  });
  const settings = {
    SLIPWAY_GIT_URL: server.urlTemplate,
    SLIPWAY_BUILDS_AT_ONCE: "1",
    SLIPWAY_LOG_LEVEL: "debug",
  };
  const platform = await startPlatformOnTestServer(t, settings);
  await t.test(
    "a private repository is built with the project's token, and each refusal says what is missing",
    () => privateRepository(platform, server.host),
  );
  await t.test("the log says that credentials of images have no effect", () =>
    credentialsOfImages(platform),
  );
  const others: readonly [string, (platform: PlatformProcess) => Promise<void>][] = [
    [
      "an app folder with unknown keys, numbers for texts and a GPU count on CPU runs, with warnings",
      oddFolder,
    ],
    [
      "an app whose compute is not there fails at once, and says so wherever its owner looks",
      missingCompute,
    ],
    [
      "new releases and rollbacks under constant load fail no call, and leave no replica of the old ones",
      releasesUnderLoad,
    ],
  ];
  for (const [promise, run] of drawCases(others, { what: "deployments", max: 1 }))
    await t.test(promise, () => run(platform));
  await t.test("tokens, credentials and secrets stand in no file and no line but their own", () =>
    secretsStaySecret(platform),
  );
});
