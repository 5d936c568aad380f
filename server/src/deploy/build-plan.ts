// Decides what a build does, from the app's settings and the files in its folder. Pure except for
// `files`.
import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import type { BuildRef } from "#apps/build-receiver.ts";
import type { BuildPlan } from "#drivers/builder.ts";
import { variablesIn } from "#drivers/build-secrets.ts";
import { areVersionsExact } from "#drivers/exact-versions.ts";
import type { AppFiles } from "./app-files.ts";
import { checkCapabilities, type WantedOfDriver } from "./capability-check.ts";
import type { Checked } from "./checked.ts";
import { dockerfilesThere, folderOf, whyNoMain } from "./missing-main.ts";
import { pythonPackages } from "./python-packages.ts";
import * as requirements from "./requirements.ts";

export type PlannedBuild = {
  readonly plan: BuildPlan;
  /** Lines for the build log that explain a decision. */
  readonly notes: readonly string[];
  /** Lines for the build log about settings and packages that have no effect or may fail. */
  readonly warnings: readonly string[];
};

export type PlanInput = BuildRef &
  WantedOfDriver & {
    /** False when the app did not ask for a Python version and gets the default. */
    readonly isPythonVersionGiven: boolean;
    readonly files: AppFiles;
    /** True when a person asked to build the same again. */
    readonly isRebuild: boolean;
  };

/**
 * Returns the plan, or a sentence that says why there is none. Throws `Fault("invalid")` for a file
 * that cannot be read.
 */
export function planBuild(input: PlanInput): Checked<PlannedBuild> {
  const {
    buildId,
    appId,
    projectId,
    settings,
    isPythonVersionGiven,
    files,
    capabilities,
    pools,
    driver,
  } = input;
  const { readText } = files;
  const entryProblem = checkEntry(input);
  if (entryProblem !== null) return { ok: false, reason: entryProblem };
  const { dependencies } = settings;
  const python = pythonPackages({
    files,
    pip: dependencies.pip,
    path: dependencies.paths.pip,
    groups: dependencies.groups,
    entrypoint: settings.runtime === "custom" ? settings.entrypoint : [],
    hasDockerfile: settings.dockerfilePath !== null,
  });
  if (!python.ok) return python;
  const apt = packageList(settings, "apt", readText);
  if (!apt.ok) return apt;
  const conda = packageList(settings, "conda", readText);
  if (!conda.ok) return conda;
  const packages = { aptPackages: apt.value, condaPackages: conda.value };
  const { refusal, warnings: unsupported } = checkCapabilities({
    settings,
    ...packages,
    hasDockerAuth: input.hasDockerAuth,
    capabilities,
    pools,
    driver,
  });
  if (refusal !== null) return { ok: false, reason: refusal };
  const { runtime, pythonVersion, useUv, baseImage, dockerfilePath, entrypoint } = settings;
  // New values of secrets may outdate what was built with the old ones, and nothing compares them.
  const mayHaveNewSecrets = input.isRebuild && settings.buildSecrets.length > 0;
  const plan: BuildPlan = {
    // The fingerprint depends on the order of these members.
    buildId,
    appId,
    runtime,
    pythonVersion,
    isPythonVersionGiven,
    useUv,
    startsClean: !settings.partialUpload || mayHaveNewSecrets,
    requirements: python.value.lines,
    project: python.value.project,
    ...packages,
    // `shell_commands = [""]` is common and means no commands.
    preBuildCommands: settings.preBuildCommands.filter((line) => line.trim() !== ""),
    shellCommands: settings.shellCommands.filter((line) => line.trim() !== ""),
    baseImage,
    dockerfilePath,
    entrypoint,
    secretNames: settings.buildSecrets,
    environment: { APP_NAME: settings.name, PROJECT_ID: projectId, BUILD_ID: buildId },
  };
  const warnings = [...unsupported, ...python.value.warnings, ...unknownVariables(plan)];
  return { ok: true, value: { plan, notes: python.value.notes, warnings } };
}

/** A warning about variables in the lines for pip that are no build secrets. */
function unknownVariables({ requirements: lines, secretNames }: BuildPlan): string[] {
  const named = new Set(lines.flatMap((line) => variablesIn(line)));
  const unknown = [...named].filter((name) => !secretNames.includes(name));
  if (unknown.length === 0) return [];
  const list = unknown.map((name) => JSON.stringify(name)).join(", ");
  return [
    `The app's packages use ${unknown.map((name) => `\${${name}}`).join(", ")}, but the build has no secret of that name, so pip keeps the text as it is. Create the secret, and add it below [slipway.build] in the TOML file: secrets = [${list}].`,
  ];
}

/** Says what to do when there is nothing to start; null: there is something to start. */
function checkEntry({ settings, files, capabilities, driver }: PlanInput): string | null {
  if (settings.dockerfilePath !== null) {
    if (files.has(settings.dockerfilePath)) return null;
    const where = `${folderOf(settings)}.${dockerfilesThere(files.names())}`;
    return `dockerfilePath is ${settings.dockerfilePath}, but there is no such file in ${where}`;
  }
  if (settings.runtime === "custom") {
    return settings.entrypoint.length > 0
      ? null
      : "The app has the custom runtime but no entrypoint: set its start command under runtime.custom.entrypoint or in the field entrypoint.";
  }
  // Commands of the build may create or change the file.
  if (settings.preBuildCommands.length > 0 || settings.shellCommands.length > 0) return null;
  if (files.has("main.py")) return files.pythonProblem("main.py");
  return whyNoMain({
    settings,
    names: files.names(),
    driver,
    canBuildDockerfiles: capabilities.dockerfile,
  });
}

/** The packages in the table of the settings; if it is empty, those in the file that they name. */
function packageList(
  settings: AppSettings,
  kind: "apt" | "conda",
  readText: requirements.ReadText,
): Checked<string[]> {
  const path = settings.dependencies.paths[kind];
  const table = settings.dependencies[kind];
  if (path === undefined || Object.keys(table).length > 0) {
    return {
      ok: true,
      value: kind === "apt" ? requirements.aptPackages(table) : requirements.condaPackages(table),
    };
  }
  const text = readText(posix.normalize(path));
  if (text !== null) return { ok: true, value: requirements.listedPackages(text) };
  return {
    ok: false,
    reason: `dependencies.paths.${kind} names ${path}, but that is not in the app's folder.`,
  };
}

export type Fingerprint = {
  /** Builds of one app with the same text make the same artifact. */
  readonly text: string;
  /**
   * True when builds with the same text make the same artifact however much time lies between
   * them: they fetch nothing that may have changed meanwhile.
   */
  readonly isLasting: boolean;
};

/**
 * Hashes what an artifact is made of (the files, the folder in them, the plan), so that equal
 * builds share it.
 */
export function fingerprintOf(build: {
  /** The commit, or a digest of uploaded files. */
  readonly content: string;
  readonly gitPath: string;
  readonly driver: string;
  readonly plan: BuildPlan;
}): Fingerprint {
  const { plan } = build;
  // Leaves out what differs between builds of the same artifact.
  const { buildId: _, startsClean: _clean, environment, ...rest } = plan;
  const { BUILD_ID: _build, ...variables } = environment;
  const facts = [build.driver, build.content, build.gitPath, { ...rest, variables }];
  const unpinnedSteps = [
    plan.preBuildCommands,
    plan.shellCommands,
    plan.aptPackages,
    plan.condaPackages,
  ];
  return {
    text: createHash("sha256").update(JSON.stringify(facts)).digest("hex"),
    // The versions of a project without a lock file may change. Null: the app has no project.
    isLasting:
      areVersionsExact(plan.requirements) &&
      plan.project?.isLocked !== false &&
      unpinnedSteps.every((list) => list.length === 0),
  };
}
