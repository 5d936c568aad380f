// Installs pip once for all test files, in the form that builds copy into environments of apps;
// `give-pip.ts` passes it on. Called by the runner.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { appIdOf, newProjectId } from "#lib/ids.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { buildPlan } from "./build-plan.ts";
import { toolEnvironment } from "./build-queue.ts";
import { pipVersion, toolsBelow } from "./give-pip.ts";
import { processBuilder } from "./process-builder.ts";

const makeTimeoutMs = 120_000;

/**
 * Lets a builder install pip below the folder, if this Python version exists; returns the value for
 * SLIPWAY_TEST_PIP.
 */
export async function makePipSeed(folder: string): Promise<string> {
  const buildsDir = join(folder, "builds");
  const pythons = new PythonFinder({ environment: toolEnvironment });
  const usable = (await pythons.all()).some(
    (python) => python.version === pipVersion && python.hasPip,
  );
  if (!usable) return "";
  const builder = processBuilder(folder, {
    pythons,
    toolEnvironment,
    commandTimeoutMs: makeTimeoutMs,
    hidden: [],
  });
  const sourceDir = join(folder, "source");
  mkdirSync(sourceDir);
  const plan = buildPlan({
    appId: appIdOf(newProjectId(), "app"),
    pythonVersion: pipVersion,
    shellCommands: ["true"],
  });
  const signal = new AbortController().signal;
  const registryAuth = (): Promise<null> => Promise.resolve(null);
  await builder.build(plan, {
    source: folderSource(sourceDir),
    log: () => undefined,
    signal,
    registryAuth,
    secrets: new Map(),
  });
  return toolsBelow(buildsDir);
}
