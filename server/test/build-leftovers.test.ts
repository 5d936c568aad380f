// Without a sandbox, what commands of a build leave running is ended with the build.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { appIdOf, newBuildId, newProjectId } from "#lib/ids.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { givePip, pipVersion } from "#test/support/give-pip.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { processBuilder } from "./support/process-builder.ts";

const registryAuth = (): Promise<null> => Promise.resolve(null);

const environment = {
  PATH: process.env["PATH"] ?? "/usr/bin:/bin",
  PYENV_ROOT: process.env["PYENV_ROOT"] ?? "",
};
const pythons = new PythonFinder({ environment });

test("a program that a command leaves in a session of its own has ended when the build fails", async (t) => {
  const folder = temporaryFolder(t, "build");
  givePip(join(folder, "builds"));
  const builder = processBuilder(folder, { pythons, toolEnvironment: environment });
  const sourceDir = join(folder, "source");
  mkdirSync(sourceDir);
  writeFileSync(join(sourceDir, "main.py"), "");
  const file = join(folder, "pid");
  // It has left the command's group before the command goes on.
  const command = `setsid sh -c 'echo $$ >${file}; exec sleep 1000' & while ! test -s ${file}; do sleep 0.01; done; false`;
  const plan = await planOf(command);
  const signal = new AbortController().signal;
  await assert.rejects(
    builder.build(plan, {
      source: folderSource(sourceDir),
      log: () => undefined,
      signal,
      registryAuth,
      secrets: new Map(),
    }),
    BuildFailed,
  );
  assert.match(stateOf(readFileSync(file, "utf8").trim()), /^(gone|[ZX] )/);
});

async function planOf(command: string): Promise<BuildPlan> {
  const python = (await pythons.all())
    .filter(({ hasPip }) => hasPip)
    .toSorted(
      (one, other) => Number(other.version === pipVersion) - Number(one.version === pipVersion),
    )[0];
  assert.ok(python, "a Python with venv and pip is installed");
  return {
    buildId: newBuildId(),
    appId: appIdOf(newProjectId(), "app"),
    runtime: "cortex",
    pythonVersion: python.version,
    isPythonVersionGiven: true,
    startsClean: false,
    useUv: false,
    requirements: [],
    project: null,
    aptPackages: [],
    condaPackages: [],
    preBuildCommands: [command],
    shellCommands: [],
    baseImage: "debian:bookworm-slim",
    dockerfilePath: null,
    entrypoint: [],
    secretNames: [],
    environment: {},
  };
}

/** As /proc says it: a letter and a word. */
function stateOf(pid: string): string {
  try {
    return /^State:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "unknown";
  } catch {
    return "gone";
  }
}
