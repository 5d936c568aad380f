// The contract for turning an app folder into an artifact that a driver of the same kind can start.
import type { Readable } from "node:stream";
import type { AppId, BuildId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { BuildSecrets } from "./build-secrets.ts";
import type { Artifact } from "./driver.ts";

/** The packages that `pyproject.toml` in the app's folder names. uv installs them. */
export type PythonProject = {
  /** Whether `uv.lock` decides the versions. */
  readonly isLocked: boolean;
  /** The `dependency-groups` to install. */
  readonly groups: readonly string[];
  /** The `optional-dependencies` to install. */
  readonly extras: readonly string[];
  /** Whether some of the packages are files of the app. */
  readonly needsCode: boolean;
  /** A hash over `pyproject.toml` and `uv.lock`: equal hashes mean equal packages. */
  readonly digest: string;
};

/**
 * What to build, decided by `deploy/build-plan.ts` from the app's settings and the files of the
 * repository.
 */
export type BuildPlan = {
  readonly buildId: BuildId;
  readonly appId: AppId;
  readonly runtime: "cortex" | "custom";
  /** The Python version, for example `3.11`. */
  readonly pythonVersion: string;
  /** False for the default version: the nearest newer installed version may then replace it. */
  readonly isPythonVersionGiven: boolean;
  /** Whether uv installs the requirements; false: pip does. */
  readonly useUv: boolean;
  /** True: nothing of earlier builds is reused. */
  readonly startsClean: boolean;
  /** Lines of a requirements file, in installation order; empty when the app needs none. */
  readonly requirements: readonly string[];
  /** Installed before the requirements; null: there is none, or the requirements replace it. */
  readonly project: PythonProject | null;
  readonly aptPackages: readonly string[];
  readonly condaPackages: readonly string[];
  /** Shell lines to run before anything is installed. */
  readonly preBuildCommands: readonly string[];
  /** Shell lines to run when the packages are installed and the code is in place. */
  readonly shellCommands: readonly string[];
  readonly baseImage: string;
  /** The path of the app's own Dockerfile in its folder; null: the app has none. */
  readonly dockerfilePath: string | null;
  readonly entrypoint: readonly string[];
  /** Names of the secrets that steps of the build get; the context has their values. */
  readonly secretNames: readonly string[];
  /** Environment variables for the commands of the build; no secrets. */
  readonly environment: Readonly<Record<string, string>>;
};

export type BuildStage =
  | "source"
  | "plan"
  | "prepare"
  | "dependencies"
  | "code"
  | "commands"
  | "start"
  | "release";

/**
 * Appends a line to the build's log. `stream` is `platform` for the platform's own messages. Never
 * waits.
 */
export type BuildLog = (
  stage: BuildStage,
  stream: "platform" | "stdout" | "stderr",
  text: string,
) => void;

/** The app's files, without `.git`. */
export type BuildSource = {
  /**
   * Returns the files as a tar archive of one folder, `.`, with names, contents, links and modes.
   * The owners and times in it mean nothing. Names and links may be hostile, so unpack the archive
   * without following a link. The stream ends only when everything is packed. Otherwise it fails;
   * after an abort, it fails with the reason of `signal`. May be called again for another try.
   */
  archive(signal: AbortSignal): Readable;
};

/** What a builder gets besides the plan. */
export type BuildContext = {
  readonly source: BuildSource;
  readonly log: BuildLog;
  readonly signal: AbortSignal;
  /**
   * The app owner's credentials for the registry of its base image, in Docker's own format; null
   * when not set.
   */
  readonly registryAuth: () => Promise<Secret | null>;
  /**
   * The secrets that the plan names, and no others. The builder hides them in what it logs and
   * in its errors.
   */
  readonly secrets: BuildSecrets;
  /** Called when the builder starts to create an environment; not called when it reuses one. */
  readonly onEnvironment?: () => void;
  /**
   * Called before another try, when a build failed through no fault of the app: the work until then
   * is not metered.
   */
  readonly onAgain?: () => void;
};

/**
 * Builds artifacts. Where images are pushed, and the credentials for it, are settings of the
 * driver.
 */
export interface Builder {
  /** Rejects with `BuildFailed`; leaves nothing behind when it fails or `signal` is aborted. */
  build(plan: BuildPlan, context: BuildContext): Promise<Artifact>;
  /**
   * Whether the artifact can be started. False when somebody has removed it and it cannot be
   * fetched from anywhere, so that it has to be built again.
   */
  isThere(artifact: Artifact, context: { readonly signal: AbortSignal }): Promise<boolean>;
  /** Removes an artifact that no release needs any more. */
  remove(artifact: Artifact): Promise<void>;
  /**
   * Removes unused caches, and every artifact that was there before `readUsed` was called and that
   * the result of `readUsed` does not name. May be called while builds run.
   */
  collect(readUsed: () => Promise<UsedArtifacts>): Promise<void>;
}

/** What must not be removed. */
export type UsedArtifacts = {
  readonly artifacts: readonly Artifact[];
  /** The builds that are not finished, whose files are kept. */
  readonly building: readonly BuildId[];
};

/** Why a build failed, in a sentence for the app's owner. */
export class BuildFailed extends Error {
  override readonly name = "BuildFailed";
}
