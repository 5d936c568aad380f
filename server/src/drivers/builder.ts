// The contract for turning an app folder into an artifact that the same kind of driver can start.
import type { AppId, BuildId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { Artifact } from "./driver.ts";

/** What to build, decided by `deploy/build-plan.ts` from the app's settings and the files of the repository. */
export type BuildPlan = {
  readonly buildId: BuildId;
  readonly appId: AppId;
  readonly runtime: "cortex" | "custom";
  /** For example `3.11`. */
  readonly pythonVersion: string;
  /** False when that is the default: then the nearest newer one that is there may take its place. */
  readonly isPythonVersionGiven: boolean;
  readonly useUv: boolean;
  /** Lines of a requirements file, sorted as they should be installed; empty when the app needs none. */
  readonly requirements: readonly string[];
  readonly aptPackages: readonly string[];
  readonly condaPackages: readonly string[];
  /** Shell lines before anything is installed, and after the code is in place. */
  readonly preBuildCommands: readonly string[];
  readonly shellCommands: readonly string[];
  readonly baseImage: string;
  readonly dockerfilePath: string | null;
  readonly entrypoint: readonly string[];
  /** Variables for the commands of the build; no secrets. */
  readonly environment: Readonly<Record<string, string>>;
};

export type BuildStage = "source" | "plan" | "prepare" | "dependencies" | "code" | "commands" | "start" | "release";

/** Takes a line of the build's log. `stream` is `platform` for what the platform itself says. Never waits. */
export type BuildLog = (stage: BuildStage, stream: "platform" | "stdout" | "stderr", text: string) => void;

/** Builds artifacts. Where images are pushed to is a setting of the driver. `sourceDir` holds the app's folder only, without `.git`; the builder copies what it keeps. */
export interface Builder {
  /** Rejects with `BuildFailed`; leaves nothing behind when it fails or `signal` is aborted. */
  build(
    plan: BuildPlan,
    context: {
      readonly sourceDir: string;
      readonly log: BuildLog;
      readonly signal: AbortSignal;
      /** What the app's owner gave for the registry of its base image, in Docker's own form; null: nothing. */
      readonly registryAuth: () => Promise<Secret | null>;
      /** Called when an environment begins to be made; never where one that is there serves. */
      readonly onEnvironment?: () => void;
    },
  ): Promise<Artifact>;
  /** Drops an artifact that no release needs any more. */
  remove(artifact: Artifact): Promise<void>;
  /** Drops what killed builds left, and caches that nothing in use needs. `building`: builds that are being worked on. */
  collect(used: { readonly artifacts: readonly Artifact[]; readonly building: readonly BuildId[] }): Promise<void>;
}

/** Why a build failed, in a sentence for the app's owner. */
export class BuildFailed extends Error {
  override readonly name = "BuildFailed";
}
