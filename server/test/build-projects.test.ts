// Packages of pyproject.toml and uv.lock, installed by the process driver with the real uv.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { appIdOf, newProjectId } from "#lib/ids.ts";
import { buildPlan } from "#test/support/build-plan.ts";
import { toolEnvironment } from "#test/support/build-queue.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { givePip, pipVersion } from "#test/support/give-pip.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import { shop, shopLock, sixHash } from "#test/support/shop-project.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { processBuilder } from "./support/process-builder.ts";

const run = promisify(execFile);

async function openBuilder(t: TestContext) {
  const folder = temporaryFolder(t, "build");
  const buildsDir = join(folder, "builds");
  givePip(buildsDir);
  const builder = processBuilder(folder, {
    pythons: new PythonFinder({ environment: toolEnvironment }),
    toolEnvironment,
    commandTimeoutMs: 600_000,
  });
  const appId = appIdOf(newProjectId(), "app");
  const build = async (files: Readonly<Record<string, string>>, plan: Partial<BuildPlan>) => {
    const sourceDir = join(folder, "source");
    await rm(sourceDir, { recursive: true, force: true });
    await mkdir(sourceDir, { recursive: true });
    for (const [path, content] of Object.entries(files))
      await writeFile(join(sourceDir, path), content);
    const { signal } = new AbortController();
    const registryAuth = () => Promise.resolve(null);
    const source = folderSource(sourceDir);
    const context = { source, log: () => undefined, signal, registryAuth, secrets: new Map() };
    return processArtifact(
      await builder.build(buildPlan({ appId, pythonVersion: pipVersion, ...plan }), context),
    );
  };
  return { build };
}

async function refusal(building: Promise<unknown>): Promise<string> {
  const error = await building.then(
    () => assert.fail("it was built"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

test("uv installs what pyproject.toml names, and with uv.lock exactly that, with its hashes", async (t) => {
  const reason = await packageIndexAnswers();
  if (reason !== false) return t.skip(reason);
  const { build } = await openBuilder(t);
  const given = { isLocked: false, groups: [], extras: ["old"], needsCode: false, digest: "1" };
  const plain = await build(
    { "main.py": "", "pyproject.toml": shop },
    { project: given, requirements: ["idna==3.10"] },
  );
  const { stdout } = await run(plain.python, [
    "-c",
    "import six, toml, idna; print(six.__version__ < '1.17')",
  ]);
  assert.equal(stdout, "True\n");
  const files = (hash: string) => ({
    "main.py": "",
    "pyproject.toml": shop,
    "uv.lock": shopLock(hash),
  });
  const locked = (digest: string) => ({
    project: { ...given, isLocked: true, extras: [], digest },
  });
  const exact = await build(files(sixHash), locked("2"));
  const seen = await run(exact.python, ["-c", "import six; print(six.__version__)"]);
  assert.equal(seen.stdout, "1.16.0\n");
  const said = await refusal(build(files("0".repeat(64)), locked("3")));
  assert.match(said, /^The hash of six==1\.16\.0 is not the one that is written down/);
});
