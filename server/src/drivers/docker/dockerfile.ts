// Writes the Dockerfile of an app from its build plan. Each step is a stage of its own, so that the
// output of a build names it. Steps that change often come last, so that a change of the code alone
// leaves all other steps in the cache. Pure.
import { namesForPackages } from "#drivers/build-secrets.ts";
import type { BuildPlan, BuildStage } from "#drivers/builder.ts";
import * as scripts from "./image-scripts.ts";

/** A step of the Dockerfile, as the build's log and its failures show it. */
export type ImageStep = {
  readonly kind: "base" | "python" | "command" | "apt" | "conda" | "packages" | "code" | "runtime";
  readonly stage: BuildStage;
  readonly title: string;
  /**
   * The app's command that this step runs: the name of its list, its number there and its text.
   */
  readonly command?: { readonly list: string; readonly number: number; readonly line: string };
};

/** A Dockerfile, and its steps by the names of their stages. */
export type WrittenDockerfile = {
  readonly text: string;
  readonly steps: ReadonlyMap<string, ImageStep>;
};

/** The paths of the app's files, the runtime and the list of packages in the build context. */
export const contextPaths = {
  code: "code",
  runtime: "runtime",
  requirements: "requirements.txt",
} as const;
/** The folder in a step for the files of the app's Python project, if no other files are needed. */
const projectFolder = "/run/slipway/project";

type Options = {
  /** The owner of the app's files. */
  readonly user: number;
  /** Whether some of the requirements are files of the app. */
  readonly needsCode: boolean;
};

/** One stage with its instructions, without the FROM that names the stage before it. */
type Stage = ImageStep & { readonly name: string; readonly lines: readonly string[] };

/** Writes the Dockerfile for an app that has none of its own. */
export function writeDockerfile(plan: BuildPlan, options: Options): WrittenDockerfile {
  const { entrypoint, runtime, shellCommands } = plan;
  // The stage `base`, whose lines stand in `texts`, and the stages that install packages.
  const image: Stage[] = [
    {
      name: "base",
      kind: "base",
      stage: "prepare",
      title: `Base image ${plan.baseImage}`,
      lines: [],
    },
    ...packageStages(plan, options),
  ];
  // The runtime begins from the last of these stages, in which all packages are installed.
  const lastPackageStage = image.at(-1)?.name ?? "base";
  const isCortex = runtime === "cortex";
  const copyCode = `COPY --chown=${options.user}:${options.user} ${contextPaths.code}/ ${scripts.imagePaths.code}/`;
  const code: Stage[] = [
    { name: "code", kind: "code", stage: "code", title: "The app's files", lines: [copyCode] },
    ...commandStages("shell_commands", shellCommands, {
      ...options,
      secretNames: plan.secretNames,
    }),
  ];
  const runtimeStage: Stage = {
    name: "runtime",
    kind: "runtime",
    stage: "code",
    title: "The runtime",
    lines: [
      `COPY ${contextPaths.runtime}/ ${scripts.imagePaths.runtime}/`,
      run(scripts.runtimeScript),
    ],
  };
  const runtimeStages = isCortex ? [runtimeStage] : [];
  const copyRuntime = `COPY --from=runtime ${scripts.imagePaths.runtime} ${scripts.imagePaths.runtime}`;
  const start = isCortex
    ? [`${scripts.imagePaths.environment}/bin/python`, `${scripts.imagePaths.runtime}/start.py`]
    : entrypoint;
  const last: Stage = {
    name: "app",
    kind: "code",
    stage: "code",
    title: "Compiled files",
    lines: [
      ...(isCortex ? [copyRuntime] : []),
      run(scripts.finishScript(plan, options.user)),
      "ENTRYPOINT []",
      `CMD ${JSON.stringify(start)}`,
      "HEALTHCHECK NONE",
      "STOPSIGNAL SIGTERM",
      `USER ${options.user}:${options.user}`,
    ],
  };
  const texts = [
    `FROM ${plan.baseImage} AS base`,
    // The base image may have another user.
    "USER root",
    run(scripts.accountScript(options.user)),
    `WORKDIR ${scripts.imagePaths.code}`,
    ...chained([...image.slice(1), ...code], "base"),
    ...chained(runtimeStages, lastPackageStage),
    ...chained([last], code.at(-1)?.name ?? "code"),
  ];
  const stages = [...image, ...code, ...runtimeStages, last];
  return {
    text: `${texts.join("\n")}\n`,
    steps: new Map(stages.map((stage) => [stage.name, stage])),
  };
}

/** Returns the stages that install what the app needs, in their order. */
function packageStages(plan: BuildPlan, options: Options): Stage[] {
  const { preBuildCommands, aptPackages, condaPackages, requirements, project } = plan;
  const usesConda = condaPackages.length > 0;
  const dependencies = { stage: "dependencies" } as const;
  const before = commandStages("pre_build_commands", preBuildCommands, {
    ...options,
    secretNames: plan.secretNames,
  });
  const apt: Stage = {
    name: "apt",
    kind: "apt",
    ...dependencies,
    title: `apt: ${aptPackages.join(" ")}`,
    lines: [run(scripts.aptScript(plan), listsMounts)],
  };
  const conda: Stage = {
    name: "conda",
    kind: "conda",
    ...dependencies,
    title: `conda: ${condaPackages.join(" ")}`,
    lines: [run(scripts.condaScript(plan)), `ENV PATH=${scripts.imagePaths.conda}/bin:$PATH`],
  };
  const python = pythonStage(plan, usesConda);
  const installer = plan.useUv || project !== null ? "uv" : "pip";
  const packages: Stage = {
    name: "packages",
    kind: "packages",
    ...dependencies,
    title: `Python packages, with ${installer}`,
    lines: [packagesLine(plan, options)],
  };
  const stages: Stage[] = [];
  if (!usesConda) stages.push(python);
  stages.push(...before);
  if (aptPackages.length > 0) stages.push(apt);
  // If conda is used, Python is one of its packages, so the stage of Python comes later.
  if (usesConda) stages.push(conda, python);
  if (requirements.length > 0 || project !== null) stages.push(packages);
  return stages;
}

function pythonStage(plan: BuildPlan, usesConda: boolean): Stage {
  const { environment, home } = scripts.imagePaths;
  return {
    name: "python",
    kind: "python",
    stage: "prepare",
    title: `Python ${plan.pythonVersion}`,
    lines: [
      run(scripts.environmentScript(plan, usesConda), listsMounts),
      `ENV VIRTUAL_ENV=${environment} PATH=${environment}/bin:$PATH HOME=${home} USER=app LOGNAME=app LANG=C.UTF-8`,
    ],
  };
}

function packagesLine(plan: BuildPlan, { needsCode }: Options): string {
  const file = `/run/slipway/${contextPaths.requirements}`;
  const { project } = plan;
  const projectFiles: string[] = [];
  if (project !== null) projectFiles.push("pyproject.toml");
  if (project?.isLocked === true) projectFiles.push("uv.lock");
  const secrets = namesForPackages(plan.secretNames, plan.requirements);
  // Writable, since packages among the app's files are compiled in place.
  const codeMount = `type=bind,source=${contextPaths.code},target=${scripts.imagePaths.code},rw`;
  const projectMounts = projectFiles.map(
    (name) => `type=bind,source=${contextPaths.code}/${name},target=${projectFolder}/${name}`,
  );
  const mounts = [
    `type=cache,id=slipway-downloads,target=${scripts.downloadsPath},sharing=locked`,
    `type=bind,source=${contextPaths.requirements},target=${file}`,
    ...secrets.map(secretMount),
    ...(needsCode ? [codeMount] : projectMounts),
  ];
  const folder = needsCode ? scripts.imagePaths.code : projectFolder;
  return run(scripts.packagesScript(plan, { file, folder, secrets }), mounts);
}

/** Returns a stage for each command of a list. */
function commandStages(
  list: string,
  lines: readonly string[],
  { user, secretNames }: Pick<Options, "user"> & Pick<BuildPlan, "secretNames">,
): Stage[] {
  const when = list === "shell_commands" ? "after" : "before";
  return lines.map((line, index) => ({
    name: `${when}-${index + 1}`,
    kind: "command",
    stage: "commands",
    title: `$ ${line}`,
    command: { list, number: index + 1, line },
    lines: [run(scripts.commandScript(line, user, secretNames), secretNames.map(secretMount))],
  }));
}

/**
 * Keeps package lists and downloads out of the layers. Each project has caches of its own, since
 * the build names a namespace for them (see `ownerParameters`).
 */
const listsMounts = [
  "type=cache,id=slipway-lists,target=/var/lib/apt/lists,sharing=locked",
  "type=cache,id=slipway-archives,target=/var/cache/apt,sharing=locked",
];

/**
 * Returns the lines of the stages. Each stage begins from the stage before it, and the first one
 * from the stage named `first`.
 */
function chained(stages: readonly Stage[], first: string): string[] {
  const names = [first, ...stages.map(({ name }) => name)];
  return stages.flatMap(({ name, lines }, index) => [
    "",
    `FROM ${names[index]} AS ${name}`,
    ...lines,
  ]);
}

/** The mounts of every step: the variables of the build, and the machine's certificates. */
const secretMounts = Object.values(scripts.buildSecrets).map(secretMount);

function secretMount(id: string): string {
  return `type=secret,id=${id}`;
}

/**
 * Writes a RUN instruction in the JSON form, which is neither expanded nor continued on the next
 * line, and without `<`, which could begin a here-document.
 */
function run(script: string, mounts: readonly string[] = []): string {
  const commandJson = JSON.stringify(["/bin/sh", "-c", script]).replaceAll("<", String.raw`\u003c`);
  return `RUN ${[...secretMounts, ...mounts].map((mount) => `--mount=${mount} `).join("")}${commandJson}`;
}
