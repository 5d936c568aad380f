// Runs the client's build command, whose output becomes the build's log. Ends the build at once
// when the output shows something that no build may do. Says in a sentence why a build failed.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { buildAgain } from "@slipway/contract/advice.ts";
import { maskOf } from "#drivers/build-secrets.ts";
import { BuildFailed } from "#drivers/builder.ts";
import type { Clock } from "#lib/clock.ts";
import { runCommand } from "#lib/command.ts";
import { digestNotPlain, type AllowedImages } from "./base-images.ts";
import { explainBuildFailure } from "./build-error.ts";
import type { PreparedBuild } from "./build-folder.ts";
import { BuildProgress } from "./build-progress.ts";
import type { BuildTry } from "./build-try.ts";
import { addressFetched, hasHereDocument, headLinesOf } from "./dockerfile-check.ts";
import { registryRefused } from "./image-sources.ts";
import { ConnectionBroke } from "./retry-build.ts";

export type BuildRun = {
  /** The client's program and the words of its build command. */
  readonly command: readonly [string, ...string[]];
  /** The parameters in addition to those of `prepared`. */
  readonly parameters: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly prepared: PreparedBuild;
  readonly images: AllowedImages;
  /** The memory that a step may use; null: no limit. */
  readonly memoryBytes: number | null;
  readonly clock: Clock;
};

/**
 * Runs the build and returns the image's id. Rejects with `BuildFailed`, or with the reason of the
 * try's signal. When the client is ended, the engine ends the running step.
 */
export async function runBuild(current: BuildTry, run: BuildRun): Promise<string> {
  const { dir, context, timeoutMs, leftMs } = current;
  const { command, parameters, environment, prepared } = run;
  const progress = progressOf(current, run);
  const idFile = join(dir, "image");
  const outputParameters = ["--progress=plain", `--iidfile=${idFile}`];
  const end = await runCommand({
    command: [...command, ...outputParameters, ...parameters, ...prepared.parameters],
    cwd: dir,
    environment: { ...environment, DOCKER_BUILDKIT: "1" },
    signal: context.signal,
    timeoutMs: leftMs(),
    onLine: (_stream, text) => progress.line(text),
    // `BuildProgress` reads the number at the beginning of a line, which only a newline ends.
    keepsReturns: true,
  });
  context.signal.throwIfAborted();
  if (end.kind === "timeout") {
    throw new BuildFailed(
      `The image was not built within ${Math.round(timeoutMs / 1000)} s (SLIPWAY_BUILD_TIMEOUT_SECONDS). Make its steps shorter, or ask the operator for more time; then ${buildAgain}.`,
    );
  }
  if (end.kind === "exited" && end.exitCode === 0) return (await readFile(idFile, "utf8")).trim();
  throw failureOf(progress, current, run);
}

function progressOf(
  { context, facts, end }: BuildTry,
  { prepared, images, clock }: BuildRun,
): BuildProgress {
  const mask = maskOf(context.secrets);
  return new BuildProgress({
    steps: prepared.steps,
    images: images.sources,
    mask,
    log: context.log,
    facts,
    onRun: context.onEnvironment ?? null,
    clock,
    onFetch: (title) => end(addressFetched(mask(title))),
    onImage: (image) => {
      if (!images.mayLookUp(image)) end(registryRefused(mask(image)));
    },
    onDigest: (image) => {
      if (!images.isDigestChecked(image)) end(digestNotPlain(mask(image)));
    },
  });
}

function failureOf(
  progress: BuildProgress,
  { plan }: BuildTry,
  { prepared, images, memoryBytes }: BuildRun,
): BuildFailed {
  const dockerfile = prepared.dockerfile ?? "";
  const reason = explainBuildFailure(progress.failure(), {
    hasAuth: images.auths !== null,
    baseImage: prepared.dockerfile === null ? plan.baseImage : null,
    memoryBytes,
    headLines: headLinesOf(dockerfile),
    hasHereDocument: hasHereDocument(dockerfile),
  });
  return progress.isConnectionBroken ? new ConnectionBroke(reason) : new BuildFailed(reason);
}
