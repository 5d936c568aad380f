// The stages of a build up to its artifact: fetches the files, resolves the settings, plans, and
// has the driver's builder make the artifact, unless an earlier build has made the same one. Called
// by `build.ts`.
import { settingNames, type AppSettings } from "@slipway/contract/app-settings.ts";
import { shown } from "#apps/refusal.ts";
import {
  requestedSource,
  resolveSettings,
  type ReleaseSettings,
  type ResolvedSettings,
} from "#apps/settings.ts";
import { releaseSettings } from "#apps/stored-settings.ts";
import type { BuildSecrets } from "#drivers/build-secrets.ts";
import { BuildFailed, type Builder, type BuildPlan, type BuildSource } from "#drivers/builder.ts";
import type { Artifact, Driver } from "#drivers/driver.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import { appFiles, readAppToml, type AppFiles } from "./app-files.ts";
import type { BuildOutput } from "./build-output.ts";
import { fingerprintOf, planBuild, type Fingerprint } from "./build-plan.ts";
import { readBuildSecrets, type SecretsOf } from "./build-secrets.ts";
import { recordProgress } from "./build-store.ts";
import type { ClaimedBuild } from "./claimed-build.ts";
import { reuseArtifact } from "./release-store.ts";
import type { FetchedSource, Source } from "./source.ts";

export type ArtifactParts = Pick<Foundation, "db" | "clock"> & {
  readonly source: Source;
  readonly builder: Builder;
  /** Credentials for the registry of an app's base image. */
  readonly registryAuthOf: (appId: AppId) => Promise<Secret | null>;
  /** The secrets of an app and its project. */
  readonly secretsOf: SecretsOf;
  readonly driver: Pick<Driver, "name" | "capabilities" | "pools">;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
};

type BuildContext = {
  readonly build: ClaimedBuild;
  readonly output: BuildOutput;
  readonly signal: AbortSignal;
};

/** An artifact, and the settings that it was made with. */
export type MadeArtifact = { readonly decided: ReleaseSettings; readonly artifact: Artifact };

/**
 * Makes the artifact of a build. Rejects with `BuildFailed`, with a `Fault` for settings that are
 * not allowed, with `BuildStopped` when the lease is lost, or with the reason of `signal`.
 */
export async function makeArtifact(
  parts: ArtifactParts,
  context: BuildContext,
): Promise<MadeArtifact> {
  return await new ArtifactWork(parts, context).run();
}

/** The fetched files of the app, and the settings that follow from them. */
type FetchedApp = { readonly fetched: FetchedSource; readonly decided: ResolvedSettings };

/** The work for one artifact. */
class ArtifactWork {
  readonly #parts: ArtifactParts;
  readonly #build: ClaimedBuild;
  readonly #output: BuildOutput;
  readonly #signal: AbortSignal;
  /**
   * The settings that an earlier attempt at this build arrived at, or the build that this one
   * repeats; null: there are none yet.
   */
  readonly #settled: AppSettings | null;

  constructor(parts: ArtifactParts, { build, output, signal }: BuildContext) {
    const { settings } = build.record;
    this.#parts = parts;
    this.#build = build;
    this.#output = output;
    this.#signal = signal;
    this.#settled = settings === null ? null : releaseSettings(settings);
  }

  async run(): Promise<MadeArtifact> {
    const { secretsOf, driver } = this.#parts;
    const { appId } = this.#build.record;
    const { fetched, decided } = await this.#fetch();
    const plan = this.#plan(decided, appFiles(fetched.appDir));
    this.#signal.throwIfAborted();
    const secrets = await readBuildSecrets(plan.secretNames, () => secretsOf(appId));
    this.#output.hide(secrets);
    const fingerprint = fingerprintOf({
      content: fetched.content,
      gitPath: decided.settings.gitPath,
      driver: driver.name,
      plan,
    });
    const reused = await this.#reuse(fingerprint);
    if (reused !== null) return { decided, artifact: reused };
    const artifact = await this.#makeNew(plan, folderSource(fetched.appDir), secrets);
    this.#signal.throwIfAborted();
    return { decided, artifact };
  }

  /** True when the settings want a build that uses nothing of earlier checkouts and builds. */
  get #isClean(): boolean {
    if (this.#settled !== null) return !this.#settled.partialUpload;
    return this.#build.record.request["partialUpload"] === false;
  }

  /**
   * Fetches the files, resolves the settings (they depend on the files), and stores facts about
   * both.
   */
  async #fetch(): Promise<FetchedApp> {
    const { source } = this.#parts;
    const { record } = this.#build;
    const { buildId, projectId, appId, commit, uploadId, request, usualBranch } = record;
    // When no setting names a branch, the usual one counts: that of the live release, or else the
    // repository's default branch.
    const requestedBranch = request["gitBranch"] ?? null;
    const isBranchUsual = this.#settled === null && requestedBranch === null;
    const fallbackBranch = isBranchUsual ? usualBranch : null;
    const branch = record.branch ?? fallbackBranch;
    const sourceSettings = this.#settled ?? requestedSource(request);
    const fetched = await source.fetch({
      projectId,
      buildId,
      settings: branch === null ? sourceSettings : { ...sourceSettings, gitBranch: branch },
      checkoutOf: this.#isClean ? null : appId,
      isBranchGiven: !isBranchUsual || record.branch !== null,
      commit,
      uploadId,
      fetchesOf: (appDir) => wantedFetches(() => this.#resolve(appFiles(appDir)).settings),
      log: this.#output.log,
      signal: this.#signal,
    });
    await this.#build.keep({ source: fetched });
    const resolved = this.#resolve(appFiles(fetched.appDir));
    // A branch that only this build was asked to fetch does not become a setting.
    const usual = isBranchUsual ? (fetched.defaultBranch ?? usualBranch) : null;
    const settings = {
      ...resolved.settings,
      gitBranch: usual ?? resolved.settings.gitBranch,
    };
    await this.#build.keep({ settings });
    return { fetched, decided: { ...resolved, settings } };
  }

  #resolve(files: AppFiles): ResolvedSettings {
    const { request: body, configToml } = this.#build.record;
    const { providers } = this.#parts;
    const repositoryToml = readAppToml(files.readText);
    return resolveSettings({ body, configToml, repositoryToml, settled: this.#settled, providers });
  }

  /** Plans the build, and logs the decisions. */
  #plan(decided: ResolvedSettings, files: AppFiles): BuildPlan {
    const { driver } = this.#parts;
    const { buildId, projectId, appId, uploadId, cause, hasDockerAuth } = this.#build.record;
    const { settings, isPythonVersionGiven } = decided;
    const planned = planBuild({
      buildId,
      projectId,
      appId,
      files,
      isRebuild: cause === "rebuild",
      settings,
      isPythonVersionGiven,
      hasDockerAuth,
      capabilities: driver.capabilities,
      pools: driver.pools.all,
      driver: driver.name,
    });
    if (!planned.ok) throw new BuildFailed(planned.reason);
    const { plan, notes, warnings } = planned.value;
    for (const line of settingLines(decided)) this.#output.say("plan", line, "DEBUG");
    for (const warning of [...decided.warnings, ...warnings])
      this.#output.say("plan", `Warning: ${warning}`);
    for (const note of notes) this.#output.say("plan", note);
    const usesGitOptions = settings.gitSubmodules || settings.gitLfs;
    if (uploadId !== null && usesGitOptions)
      this.#output.say(
        "plan",
        "Warning: submodules and lfs below [slipway.git] have no effect on uploaded files.",
      );
    return plan;
  }

  /**
   * The artifact of an earlier build with the same fingerprint; null: there is none, a person asked
   * to build again, or the build starts clean.
   */
  async #reuse({ text: fingerprint, isLasting }: Fingerprint): Promise<Artifact | null> {
    const { db, builder } = this.#parts;
    const { record, held } = this.#build;
    const { appId, cause } = record;
    const request = { appId, fingerprint, isLasting, held };
    const mayReuse = cause !== "rebuild" && !this.#isClean;
    const earlier = mayReuse ? await reuseArtifact(db, request) : undefined;
    if (earlier !== undefined) {
      const { artifact, buildNumber } = earlier;
      const unchanged = `Nothing changed since build ${buildNumber}`;
      if (await builder.isThere(artifact, { signal: this.#signal })) {
        this.#output.say("release", `${unchanged}: its result is used again.`);
        return artifact;
      }
      this.#output.say("release", `${unchanged}, but its result was removed: building it again.`);
    }
    await this.#build.keep({ fingerprint });
    return null;
  }

  /**
   * Builds the artifact. Records the time from the beginning of its environment to the end,
   * whatever the outcome: builds are billed for this time.
   */
  async #makeNew(plan: BuildPlan, source: BuildSource, secrets: BuildSecrets): Promise<Artifact> {
    const { clock, db, builder, registryAuthOf } = this.#parts;
    const { record, held } = this.#build;
    // The metered time begins with the first of these.
    const starts: { readonly ms: number; readonly startedAt: Date }[] = [];
    try {
      return await builder.build(plan, {
        source,
        log: this.#output.log,
        signal: this.#signal,
        secrets,
        registryAuth: () => registryAuthOf(record.appId),
        onEnvironment: () =>
          starts.push({ ms: clock.monotonicMs(), startedAt: new Date(clock.now()) }),
        // The time until another try is not billed.
        onAgain: () => {
          starts.length = 0;
        },
      });
    } finally {
      const [first] = starts;
      if (first !== undefined) {
        const { ms, startedAt } = first;
        const endedAt = new Date(startedAt.getTime() + clock.monotonicMs() - ms);
        await recordProgress(db, held, { environment: { startedAt, endedAt } });
      }
    }
  }
}

/**
 * Returns whether to fetch submodules and LFS files too. For settings that cannot be read, neither
 * is fetched: the build refuses such settings later, after it has stored the commit.
 */
function wantedFetches(read: () => AppSettings): Pick<AppSettings, "gitSubmodules" | "gitLfs"> {
  try {
    const { gitSubmodules, gitLfs } = read();
    return { gitSubmodules, gitLfs };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { gitSubmodules: false, gitLfs: false };
  }
}

/** One line for each setting that somebody gave: its value, and where it was given. */
function settingLines({
  settings,
  origins,
}: Pick<ResolvedSettings, "settings" | "origins">): string[] {
  const names = settingNames.filter((name) => origins[name] !== "default");
  return names.map((name) => `Setting ${name} is ${shown(settings[name])} (${origins[name]}).`);
}
