// The contract for turning an app folder into an artifact that a driver of the same kind can start.
import type { Readable } from "node:stream";
import type { AppId, BuildId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { BuildSecrets } from "./build-secrets.ts";
import type { Artifact } from "./driver.ts";

/** Packages that `pyproject.toml` in the app's folder names. uv installs them. */
export type PythonProject = {
  /** `uv.lock` decides the versions. */
  readonly isLocked: boolean;
  /** The wanted names of its `dependency-groups` and `optional-dependencies`. */
  readonly groups: readonly string[];
  readonly extras: readonly string[];
  /** Some of the packages are files of the app. */
  readonly needsCode: boolean;
  /** The hash of both files: equal hashes mean equal packages. */
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
  /** For example `3.11`. */
  readonly pythonVersion: string;
  /** False for the default version: the nearest newer installed version may then replace it. */
  readonly isPythonVersionGiven: boolean;
  readonly useUv: boolean;
  /** Nothing of earlier builds is reused. */
  readonly startsClean: boolean;
  /** Lines of a requirements file, in installation order; empty when the app needs none. */
  readonly requirements: readonly string[];
  /** Installed before the requirements; null: there is none, or they replace it. */
  readonly project: PythonProject | null;
  readonly aptPackages: readonly string[];
  readonly condaPackages: readonly string[];
  /** Shell lines to run before anything is installed, and after the code is in place. */
  readonly preBuildCommands: readonly string[];
  readonly shellCommands: readonly string[];
  readonly baseImage: string;
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
   * Packs them as a tar archive of one folder, `.`, with names, contents, links and modes; what it
   * says of owners and times means nothing. A hostile app chooses names, and where its links lead:
   * whoever unpacks them follows none. The stream ends only after all is packed; otherwise it
   * fails, after an abort with the reason of `signal`. May be called again for another try.
   */
  archive(signal: AbortSignal): Readable;
};

/** What a build has besides its plan. */
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
   * Called before another try after a failure that is nobody's fault: what was before does not
   * count as work for the app.
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
   * False when somebody has removed what was built, and it cannot be got back: it has to be built
   * again.
   */
  isThere(artifact: Artifact, context: { readonly signal: AbortSignal }): Promise<boolean>;
  /** Removes an artifact that no release needs any more. */
  remove(artifact: Artifact): Promise<void>;
  /**
   * Removes what nobody uses, also while builds run: of what was there before `readUsed` is called,
   * all but what it names and unused caches. `building`: unfinished builds.
   */
  collect(readUsed: () => Promise<UsedArtifacts>): Promise<void>;
}

/** What must not be removed. */
export type UsedArtifacts = {
  readonly artifacts: readonly Artifact[];
  readonly building: readonly BuildId[];
};

/** Why a build failed, in a sentence for the app's owner. */
export class BuildFailed extends Error {
  override readonly name = "BuildFailed";
}
