// Executes one build, stage by stage: source, plan, the driver's builder, release, trial start,
// promotion. A retry starts from the first stage. Every write checks the lease, and every outcome
// ends in a state with a reason.
import { logLevels, type LogLevel } from "@slipway/contract/app-choices.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { settingNames, type AppSettings } from "@slipway/contract/app-settings.ts";
import type { BuildState } from "@slipway/contract/words.ts";
import { isAppStopped, lockApp } from "#apps/app-store.ts";
import { shown } from "#apps/refusal.ts";
import {
  requestedSource,
  resolveSettings,
  type ReleaseSettings,
  type ResolvedSettings,
} from "#apps/settings.ts";
import { releaseSettings } from "#apps/stored-settings.ts";
import type { Builder } from "#drivers/builder.ts";
import { BuildFailed } from "#drivers/builder.ts";
import type { Artifact, Driver } from "#drivers/driver.ts";
import { Fault } from "#lib/fault.ts";
import { newReleaseId, type AppId, type ReleaseId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Lease, Leases } from "#store/lease.ts";
import { appFiles, readAppToml, type AppFiles } from "./app-files.ts";
import { readBuildSecrets, type SecretsOf } from "./build-secrets.ts";
import { BuildStopped, endingOf, lastLines } from "./build-ending.ts";
import { BuildOutput, type BuildLogSink } from "./build-output.ts";
import { fingerprintOf, planBuild, type Fingerprint } from "./build-plan.ts";
import { takesMax, type BuildEnd } from "./build-states.ts";
import {
  moveBuild,
  readBuild,
  recordProgress,
  type BuildRecord,
  type IntermediateResults,
} from "./build-store.ts";
import { promote } from "./promote.ts";
import { putRelease, reuseArtifact } from "./release-store.ts";
import { makeSettingsRelease, type SettingsRelease } from "./settings-release.ts";
import type { Source } from "./source.ts";
import { runTrial, type CandidateRelease, type TrialStarter } from "./trial.ts";

export type BuildParts = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly leases: Leases<"builds">;
  readonly logs: BuildLogSink;
  readonly source: Source;
  readonly builder: Builder;
  /** Credentials for the registry of an app's base image. */
  readonly registryAuthOf: (appId: AppId) => Promise<Secret | null>;
  /** The secrets of an app and its project. */
  readonly secretsOf: SecretsOf;
  readonly driver: Pick<Driver, "name" | "capabilities" | "pools" | "collectStorage">;
  readonly trial: TrialStarter;
  /** Resolves when the proxy of this process knows the app's live release. */
  readonly refreshRoute: (appId: AppId) => Promise<void>;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  /** Timeout from the start of the build until the trial start. */
  readonly buildTimeoutMs: number;
};

/** A claimed build, and the signals between its work and the queue. */
export type BuildTask = {
  readonly lease: Lease<"builds">;
  /** Aborted with `BuildStopped`. */
  readonly stop: AbortSignal;
  /**
   * Called when the build is complete and only the start of the app is left, which may take long or
   * wait for a machine.
   */
  readonly onBuilt: () => void;
};

/**
 * Works on the claimed build until it ends, is put back, or belongs to another worker. Returns its
 * final state; null in the other cases. Never rejects.
 */
export async function workOnBuild(parts: BuildParts, task: BuildTask): Promise<BuildEnd | null> {
  const { log } = parts;
  const { lease } = task;
  try {
    const record = await readBuild(parts.db, lease.id);
    if (record === undefined) return null;
    const work = new BuildWork(parts, task, record);
    return await work.run();
  } catch (error) {
    // The final state could not be stored: the lease expires, and the build is retried.
    log.error({ err: error, buildId: lease.id }, "the work on a build broke off");
    return null;
  }
}

class BuildWork {
  readonly #parts: BuildParts;
  readonly #task: BuildTask;
  readonly #record: BuildRecord;
  readonly #output: BuildOutput;

  constructor(parts: BuildParts, task: BuildTask, record: BuildRecord) {
    this.#parts = parts;
    this.#task = task;
    this.#record = record;
    const { logs: sink, clock } = parts;
    this.#output = new BuildOutput({
      sink,
      buildId: record.buildId,
      clock,
      level: levelOf(record),
    });
  }

  get #held() {
    return this.#parts.leases.held(this.#task.lease);
  }

  async run(): Promise<BuildEnd | null> {
    const { appName, number, buildId, request } = this.#record;
    if (!(await this.#move("building", null))) {
      // Either cancelled since the claim, or already claimed by another worker: only the first can
      // be written.
      return (await this.#move("cancelled", "Cancelled.")) ? "cancelled" : null;
    }
    const { epoch, isTakenOver } = this.#task.lease;
    this.#output.say(
      "source",
      `Build ${number} of ${appName}${clientNote(request["cliVersion"])}.`,
    );
    if (isTakenOver) {
      this.#output.say(
        "source",
        `The platform was stopped during this build; it starts again (${epoch} of ${takesMax}).`,
      );
    }
    try {
      const taken = this.#record.keepsArtifact ? await this.#takeRelease() : undefined;
      const release = taken?.candidate ?? (await this.#makeRelease());
      this.#task.onBuilt();
      await this.#start(release, taken?.over);
      return "success";
    } catch (error) {
      return await this.#endBy(this.#task.stop.aborted ? this.#task.stop.reason : error);
    } finally {
      await this.#parts.source.remove(buildId);
    }
  }

  /** Everything up to the release, within the build's timeout. */
  async #makeRelease(): Promise<CandidateRelease> {
    const { clock, buildTimeoutMs, log } = this.#parts;
    const timeout = new AbortController();
    const cancelTimeout = clock.after(buildTimeoutMs, () =>
      timeout.abort(new BuildStopped("timeout")),
    );
    const signal = AbortSignal.any([this.#task.stop, timeout.signal]);
    const startMs = clock.monotonicMs();
    try {
      const { decided, artifact } = await this.#makeArtifact(signal);
      this.#output.say("release", `App built in ${secondsText(clock.monotonicMs() - startMs)}`);
      return await this.#release(decided, artifact);
    } catch (error) {
      if (timeout.signal.aborted && !this.#task.stop.aborted) {
        log.debug({ err: error, buildId: this.#record.buildId }, "a build ran out of time");
        throw timeout.signal.reason;
      }
      throw error;
    } finally {
      cancelTimeout();
    }
  }

  async #makeArtifact(
    signal: AbortSignal,
  ): Promise<{ decided: ReleaseSettings; artifact: Artifact }> {
    const { source, builder, registryAuthOf, secretsOf, providers, driver } = this.#parts;
    const {
      buildId,
      projectId,
      appId,
      commit,
      uploadId,
      request,
      configToml,
      usualBranch,
      hasDockerAuth,
    } = this.#record;
    const settled = this.#record.settings === null ? null : releaseSettings(this.#record.settings);
    const isBranchUsual = settled === null && (request["gitBranch"] ?? null) === null;
    const branch = this.#record.branch ?? (isBranchUsual ? usualBranch : null);
    const wanted = {
      ...(settled ?? requestedSource(request)),
      ...(branch === null ? {} : { gitBranch: branch }),
    };
    const isBranchGiven = !isBranchUsual || this.#record.branch !== null;
    const { log } = this.#output;
    const isClean = (settled === null ? request["partialUpload"] : settled.partialUpload) === false;
    const checkoutOf = isClean ? null : appId;
    const resolve = (files: AppFiles): ResolvedSettings => {
      const repositoryToml = readAppToml(files.readText);
      return resolveSettings({ body: request, configToml, repositoryToml, settled, providers });
    };
    const fetchesOf = (appDir: string) => wantedFetches(() => resolve(appFiles(appDir)).settings);
    const from = { settings: wanted, isBranchGiven, checkoutOf, commit, uploadId, fetchesOf };
    const fetched = await source.fetch({ ...from, projectId, buildId, log, signal });
    await this.#keep({ source: fetched });
    const files = appFiles(fetched.appDir);
    const resolved = resolve(files);
    const gitBranch =
      (isBranchUsual ? (fetched.defaultBranch ?? usualBranch) : null) ??
      resolved.settings.gitBranch;
    const decided = { ...resolved, settings: { ...resolved.settings, gitBranch } };
    await this.#keep({ settings: decided.settings });
    const planned = planBuild({
      buildId,
      projectId,
      appId,
      files,
      isRebuild: this.#record.cause === "rebuild",
      settings: decided.settings,
      isPythonVersionGiven: decided.isPythonVersionGiven,
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
    if (uploadId !== null && (decided.settings.gitSubmodules || decided.settings.gitLfs))
      this.#output.say(
        "plan",
        "Warning: submodules and lfs below [slipway.git] have no effect on uploaded files.",
      );
    signal.throwIfAborted();
    const { gitPath } = decided.settings;
    const secrets = await readBuildSecrets(plan.secretNames, () => secretsOf(appId));
    this.#output.hide(secrets);
    const fingerprint = fingerprintOf({
      content: fetched.content,
      gitPath,
      driver: driver.name,
      plan,
    });
    const reused = await this.#reuse(fingerprint, { isClean, signal });
    if (reused !== null) return { decided, artifact: reused };
    const artifact = await this.#buildMetered((metering) =>
      builder.build(plan, {
        sourceDir: fetched.appDir,
        log,
        signal,
        secrets,
        ...metering,
        registryAuth: () => registryAuthOf(appId),
      }),
    );
    signal.throwIfAborted();
    return { decided, artifact };
  }

  /** Instead of `#makeRelease`, where only settings have changed. */
  async #takeRelease(): Promise<SettingsRelease> {
    const { db, providers } = this.#parts;
    const made = await makeSettingsRelease(db, {
      record: this.#record,
      held: this.#held,
      providers,
    });
    if (made === null) throw await this.#whyNotMine();
    this.#output.say(
      "release",
      `Release ${made.number} has other settings and the same files: nothing is built.`,
    );
    this.#output.say("start", "Checking that it starts correctly...");
    return made;
  }

  /**
   * The artifact of an earlier build of the same; null: there is none, a person asked to build it
   * again, or it starts clean.
   */
  async #reuse(
    { text: fingerprint, isLasting }: Fingerprint,
    { isClean, signal }: { readonly isClean: boolean; readonly signal: AbortSignal },
  ): Promise<Artifact | null> {
    const { appId, cause } = this.#record;
    const { db, builder } = this.#parts;
    const wanted = { appId, fingerprint, isLasting, held: this.#held };
    const found = cause === "rebuild" || isClean ? undefined : await reuseArtifact(db, wanted);
    const same = "Nothing changed since build";
    if (found !== undefined && (await builder.isThere(found.artifact, { signal }))) {
      this.#output.say("release", `${same} ${found.buildNumber}: its result is used again.`);
      return found.artifact;
    }
    if (found !== undefined)
      this.#output.say(
        "release",
        `${same} ${found.buildNumber}, but its result was removed: building it again.`,
      );
    await this.#keep({ fingerprint });
    return null;
  }

  /**
   * Records the time spent creating an environment, whatever the outcome: builds are billed for it.
   */
  async #buildMetered(
    build: (metering: {
      readonly onEnvironment: () => void;
      readonly onAgain: () => void;
    }) => Promise<Artifact>,
  ): Promise<Artifact> {
    const { clock, db } = this.#parts;
    const starts: { readonly ms: number; readonly startedAt: Date }[] = [];
    try {
      return await build({
        onEnvironment: () =>
          starts.push({ ms: clock.monotonicMs(), startedAt: new Date(clock.now()) }),
        onAgain: () => (starts.length = 0),
      });
    } finally {
      for (const { ms, startedAt } of starts.slice(0, 1)) {
        const endedAt = new Date(startedAt.getTime() + clock.monotonicMs() - ms);
        await recordProgress(db, this.#held, { environment: { startedAt, endedAt } });
      }
    }
  }

  /** Writes the release and the move to `initializing` in one transaction. */
  async #release(
    { settings, origins, files }: ReleaseSettings,
    artifact: Artifact,
  ): Promise<CandidateRelease> {
    const { db } = this.#parts;
    const { buildId, projectId, appId } = this.#record;
    const move = { buildId, held: this.#held, to: "initializing", reason: null } as const;
    const candidate = { releaseId: newReleaseId(), projectId, appId, buildId, settings, artifact };
    const releaseId = await db.transaction().execute(async (tx) => {
      await lockApp(tx, appId);
      const isMoved = await moveBuild(tx, { ...move, artifact });
      return isMoved ? (await putRelease(tx, { ...candidate, origins, files })).id : null;
    });
    if (releaseId === null) throw await this.#whyNotMine();
    this.#output.say("start", "App created. Checking that it starts correctly...");
    return { ...candidate, releaseId };
  }

  async #start(release: CandidateRelease, over: ReleaseId | undefined): Promise<void> {
    const { db, clock, refreshRoute } = this.#parts;
    if (await isAppStopped(db, release.appId)) this.#output.say("start", notTried);
    else await this.#try(release);
    await this.#output.flush();
    const isPromoted = await promote(
      { db, clock, refreshRoute },
      { release, over, held: this.#held },
    );
    if (!isPromoted) throw await this.#whyNotMine();
  }

  async #try(release: CandidateRelease): Promise<void> {
    const { trial, clock } = this.#parts;
    const tookMs = await runTrial({
      starter: trial,
      release,
      clock,
      signal: this.#task.stop,
      onLine: ({ stream, text }) => this.#output.log("start", stream, text),
      onWait: async (reason) => {
        this.#output.say("start", `Waiting: ${reason}`);
        await this.#keep({ reason });
      },
    });
    this.#output.say("start", `App initialized in ${secondsText(tookMs)}`);
  }

  async #endBy(error: unknown): Promise<BuildEnd | null> {
    const { log, buildTimeoutMs } = this.#parts;
    const ending = endingOf(error, buildTimeoutMs);
    const { buildId } = this.#record;
    if (ending.kind === "leave") {
      log.warn({ buildId }, "a build was left to whoever has it now");
      return null;
    }
    if (ending.kind === "put_back") {
      this.#output.say("release", "The platform is stopping; the build continues when it is back.");
      await this.#output.flush();
      await this.#move("pending", null);
      return null;
    }
    if (ending.isUnexpected) log.error({ err: error, buildId }, "a build failed unexpectedly");
    const reason = this.#output.masked(ending.reason);
    for (const line of lastLines(ending.to, reason)) this.#output.say("release", line);
    await this.#output.flush();
    return (await this.#move(ending.to, reason)) ? ending.to : null;
  }

  async #move(to: BuildState, reason: string | null): Promise<boolean> {
    const move = { buildId: this.#record.buildId, held: this.#held, to, reason };
    return await this.#parts.db.transaction().execute((tx) => moveBuild(tx, move));
  }

  async #keep(found: IntermediateResults): Promise<void> {
    if (!(await recordProgress(this.#parts.db, this.#held, found)))
      throw new BuildStopped("lease_lost");
  }

  /** Why a step was refused: the build was just cancelled, or the lease is lost. */
  async #whyNotMine(): Promise<BuildStopped> {
    const isHeld = await recordProgress(this.#parts.db, this.#held, {});
    return new BuildStopped(isHeld ? "cancelled" : "lease_lost");
  }
}

const notTried =
  "The app is stopped, so the release is not tried now. It takes the calls when somebody starts the app.";

/** Settings that cannot be read are refused later, when the commit is stored. */
function wantedFetches(read: () => AppSettings): Pick<AppSettings, "gitSubmodules" | "gitLfs"> {
  try {
    const { gitSubmodules, gitLfs } = read();
    return { gitSubmodules, gitLfs };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { gitSubmodules: false, gitLfs: false };
  }
}

/** It can only be set through the API. */
function levelOf({ request }: BuildRecord): LogLevel {
  return logLevels.find((level) => level === request["logLevel"]) ?? appFields.logLevel.default;
}

/** Which client asked for the app's deployment, as far as it says so. */
function clientNote(version: unknown): string {
  return typeof version === "string" ? `, as its client (version ${version}) asked` : "";
}

function settingLines({
  settings,
  origins,
}: Pick<ResolvedSettings, "settings" | "origins">): string[] {
  const given = settingNames.filter((name) => origins[name] !== "default");
  return given.map((name) => `Setting ${name} is ${shown(settings[name])} (${origins[name]}).`);
}

function secondsText(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : `${Math.round(ms / 1000)}s`;
}
