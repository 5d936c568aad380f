// Makes pip as builds copy it into environments of apps, once for all test files; `give-pip.ts` hands it to them. Called by
// the runner.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { ProcessBuilder } from "#drivers/process/builder.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, newProjectId } from "#lib/ids.ts";
import { buildPlan } from "./build-plan.ts";
import { toolEnvironment } from "./build-queue.ts";
import { toolsBelow } from "./give-pip.ts";

/** The version that apps of tests ask for; a platform makes pip of another one by itself. */
const version = "3.11";
const makeTimeoutMs = 120_000;

/** Has a builder make pip below the folder, where there is a Python of the version; the value for SLIPWAY_TEST_PIP. */
export async function makePipSeed(folder: string): Promise<string> {
  const buildsDir = join(folder, "builds");
  const pythons = new PythonFinder({ environment: toolEnvironment });
  const usable = (await pythons.all()).some((python) => python.version === version && python.hasPip);
  if (!usable) return "";
  const builder = new ProcessBuilder({
    ...{ buildsDir, pythons, toolEnvironment, commandTimeoutMs: makeTimeoutMs, runtimeDir: null, hidden: [] },
    ...{ sandbox: { kind: "none", reason: "it runs nothing of an app" }, clock: systemClock },
  });
  const sourceDir = join(folder, "source");
  mkdirSync(sourceDir);
  const plan = buildPlan({ appId: appIdOf(newProjectId(), "app"), pythonVersion: version, shellCommands: ["true"] });
  const signal = new AbortController().signal;
  await builder.build(plan, { sourceDir, log: () => undefined, signal, registryAuth: () => Promise.resolve(null) });
  return toolsBelow(buildsDir);
}
