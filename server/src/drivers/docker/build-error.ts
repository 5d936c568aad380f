// Explains a failed build of an image in a sentence that says what to do next. Pure.
import { buildAgain, changeField } from "@slipway/contract/advice.ts";
import { toApt } from "#drivers/error-advice.ts";
import { explainInstallFailure } from "#drivers/process/build-install-error.ts";
import { exitText } from "#drivers/process/build-tool.ts";
import type { BuildFailure } from "./build-progress.ts";
import { failingLine } from "#lib/failing-line.ts";
import { engineIsDown } from "./engine-outage.ts";

/** How many characters of a text a sentence shows. */
const shownMax = 200;

type BuildSetting = {
  /** Whether the app has credentials for registries. */
  readonly hasAuth: boolean;
  /** The base image as the app's settings name it; null with the app's own Dockerfile. */
  readonly baseImage: string | null;
  /** The memory that a step may use; null: no limit. */
  readonly memoryBytes: number | null;
  /** The number of lines that the builder has put before the app's own Dockerfile. */
  readonly headLines: number;
  /** Whether the app's own Dockerfile has here-documents but no `# syntax=` line. */
  readonly hasHereDocument: boolean;
};

/** Returns a sentence for the app's owner. */
export function explainBuildFailure(failure: BuildFailure, setting: BuildSetting): string {
  const advice = isProgramOfApp(failure) && diskFull.test(failure.output) ? ` ${ifEngineDisk}` : "";
  const explained = explain(failure, setting) + advice;
  if (failure.exitCode !== killedCode || setting.memoryBytes === null) return explained;
  return `${explained} A step of a build may use ${(setting.memoryBytes / 1e9).toFixed(1)} GB of memory here.`;
}

/** The exit code of a command that SIGKILL ended, as the kernel does when memory runs out. */
const killedCode = 137;
const diskFull = /no space left on device/i;
const ifEngineDisk =
  "Its output says that a disk is full: if the step does not fill one itself, ask the operator to free up space on the disk of the Docker engine.";
/** The advice for a Dockerfile whose here-documents were read as instructions. */
const hereDocument =
  "Docker here reads here-documents (<<EOF) only when the first line asks for it: write # syntax=docker/dockerfile:1 there";

function explain(failure: BuildFailure, setting: BuildSetting): string {
  const { hasAuth, baseImage, headLines } = setting;
  const { step, problem, output, image, title, reason } = failure;
  if (problem !== null) return problem;
  if (/Cannot connect to the Docker daemon|error during connect/i.test(reason)) {
    return `${engineIsDown} Then ${buildAgain}.`;
  }
  // A program of the app may print that a disk is full and mean a small disk of its own, or no disk
  // at all: in this case `explainBuildFailure` adds `ifEngineDisk`.
  if (!isProgramOfApp(failure) && diskFull.test(`${output}${reason}`)) {
    return `The disk of the Docker engine is full. The operator has to free up space on it (docker system df shows what takes it); then ${buildAgain}.`;
  }
  if (image !== null) return explainPull(baseImage ?? image, reason, hasAuth);
  if (failure.engineReason !== null)
    return explainEngine(failure.engineReason, { step, title, output });
  const end = failure.exitCode === null ? `failed (${shown(reason)})` : endOf(failure.exitCode);
  if (step?.kind === "packages") return explainInstallFailure(output, end, toApt);
  if (step?.kind === "apt") return explainApt(output, end);
  if (step?.kind === "conda")
    return `The packages below dependencies.conda could not be installed: conda ${end}.${quotedLine(output)} Check their names and versions.`;
  if (step?.command !== undefined) {
    const { list, number, line } = step.command;
    return `Command ${number} of ${list} ${end}: ${shown(line)}.${quotedLine(output)} See its output above; fix the command and ${buildAgain}.`;
  }
  const [, parseError] = /dockerfile parse error:?(?: on)? (.*)/i.exec(reason) ?? [];
  if (parseError !== undefined) {
    // The owner knows the line in the app's file, without the head that the builder has added.
    const problem = parseError.replace(/(?<=^(?:on )?line )\d+/, (line) =>
      String(Number(line) - headLines),
    );
    const needsSyntax = setting.hasHereDocument && /unknown instruction/i.test(parseError);
    const advice = needsSyntax ? hereDocument : "Fix it";
    return `The Dockerfile cannot be read: ${shown(problem)}. ${advice} and ${buildAgain}.`;
  }
  const [, entitlement] = /\b(network\.host|security\.insecure) is not allowed/.exec(reason) ?? [];
  if (entitlement !== undefined) {
    const flag = entitlement === "network.host" ? "--network=host" : "--security=insecure";
    return `A step of the Dockerfile asks for ${flag}, which no build gets here: leave it out, and ${buildAgain}.`;
  }
  if (title !== null && isDockerfileStep(failure)) {
    return `${shown(title)}: this step ${end}.${quotedLine(output)} Fix the Dockerfile and ${buildAgain}.`;
  }
  const where = step === null ? "" : `${step.title}: `;
  const why = reason === "" ? "the builder does not say why" : reason;
  return `The image could not be built: ${where}${shown(why)}.${quotedLine(output)} See the output above, and ${buildAgain}.`;
}

/**
 * Whether the failure is the exit code of a command in the app's settings, or of a step in the
 * app's own Dockerfile.
 */
function isProgramOfApp(failure: BuildFailure): boolean {
  const isStepOfApp = failure.step?.command !== undefined || isDockerfileStep(failure);
  return failure.exitCode !== null && isStepOfApp;
}

/** Whether a step of the app's own Dockerfile failed. `BuildProgress` calls such steps "Step …". */
function isDockerfileStep({ step, title }: BuildFailure): boolean {
  return step === null && title?.startsWith("Step ") === true;
}

/** Says that the engine could not run a step at all. `reason` is the engine's. */
function explainEngine(
  reason: string,
  failure: Pick<BuildFailure, "step" | "title" | "output">,
): string {
  const [, program] =
    /exec: "([^"]{1,200})": (?:stat|executable)/.exec(`${reason}\n${failure.output}`) ?? [];
  if (program !== undefined) {
    return `The base image has no ${program}, which the steps of a build need: choose another one (baseImage, or FROM in the Dockerfile), and ${buildAgain}.`;
  }
  const title = failure.step?.title ?? failure.title ?? "a step";
  return `The Docker engine could not run a step of the build (${shown(title)}): ${shownEnd(reason)}.${quotedLine(failure.output)} This is not the app's fault: the operator has to check the engine (slipway doctor builds an image and starts a container); then ${buildAgain}.`;
}

/** Says why an image cannot be pulled. `reason` is the engine's. */
export function explainPull(image: string, reason: string, hasAuth: boolean): string {
  const name = image.replace(/@sha256:.*/, "");
  // 401 and 403 count only as words of their own: a port or a version may contain these digits.
  if (
    /unauthorized|no basic auth credentials|authorization failed|access denied|insufficient_scope|forbidden|(?<![.:\w])40[13](?!\w)/i.test(
      reason,
    )
  ) {
    const problem = hasAuth
      ? "the app's dockerAuth is not accepted"
      : "it may need credentials, and the app has no dockerAuth";
    return `The base image ${name} cannot be pulled: ${problem}. Check the image's name, set dockerAuth (${changeField}) to credentials that may pull it, and ${buildAgain}.`;
  }
  if (/not found|manifest unknown|does not exist/i.test(reason)) {
    return `There is no base image ${name}: check its name and tag (baseImage, or FROM in the Dockerfile), and ${buildAgain}.`;
  }
  return `The base image ${name} cannot be pulled from here (${shownEnd(reason)}). Check its name; when its registry answers, ${buildAgain}.`;
}

function explainApt(output: string, end: string): string {
  const where = "below dependencies.apt";
  const [, missing] =
    /Unable to locate package (\S+)|Package '?(\S+?)'? has no installation candidate/.exec(
      output,
    ) ?? [];
  if (missing !== undefined)
    return `There is no package ${missing} for this base image: check its name ${where}.`;
  const [, version, name] = /Version '([^']*)' for '([^']*)' was not found/.exec(output) ?? [];
  if (version !== undefined)
    return `There is no version ${version} of ${name} for this base image: check it ${where}, or leave the version out.`;
  if (/Could not resolve|Failed to fetch|Unable to connect|Connection timed out/.test(output)) {
    return `The package lists of the base image cannot be downloaded. When its servers can be reached from the build machine, ${buildAgain}.`;
  }
  return `The packages ${where} could not be installed: apt-get ${end}.${quotedLine(output)} See its output above, check them, and ${buildAgain}.`;
}

function endOf(exitCode: number): string {
  // The 0 stands for a time limit, which only a text about a timeout shows.
  return exitText({ kind: "exited", exitCode }, 0);
}

/** Quotes the line of the output that most likely says why; "" if there is none. */
function quotedLine(output: string): string {
  const line = failingLine(output);
  return line === "" ? "" : ` It says: ${shown(line)}.`;
}

/** Shortens the beginning, by whole words if possible: the cause stands at the end. */
function shownEnd(text: string): string {
  return text.length > shownMax ? `…${text.slice(-shownMax).replace(/^\S*\s/, "")}` : text;
}

function shown(text: string): string {
  return text.length > shownMax ? `${text.slice(0, shownMax)}…` : text;
}
