// Executes one build, stage by stage: artifact, release, trial start, promotion. A retry starts
// from the first stage. Every write checks the lease, and every outcome ends in a state with a
// reason.
import { logLevels, type LogLevel } from "@slipway/contract/app-choices.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { isAppStopped, lockApp } from "#apps/app-store.ts";
import { newReleaseId, type AppId, type ReleaseId } from "#lib/ids.ts";
import type { Foundation } from "#store/foundation.ts";
import type { Lease, Leases } from "#store/lease.ts";
import { BuildStopped, endingOf, lastLines } from "./build-ending.ts";
import { BuildOutput, type BuildLogSink } from "./build-output.ts";
import { takesMax, type BuildEnd } from "./build-states.ts";
import { moveBuild, readBuild, type BuildRecord } from "./build-store.ts";
import { ClaimedBuild } from "./claimed-build.ts";
import { makeArtifact, type ArtifactParts, type MadeArtifact } from "./make-artifact.ts";
import { promote } from "./promote.ts";
import { putRelease } from "./release-store.ts";
import { makeSettingsRelease, type SettingsRelease } from "./settings-release.ts";
import { runTrial, type CandidateRelease, type TrialStarter } from "./trial.ts";

export type BuildParts = ArtifactParts &
  Pick<Foundation, "log"> & {
    readonly leases: Leases<"builds">;
    readonly logs: BuildLogSink;
    readonly trial: TrialStarter;
    /** Resolves when the proxy of this process knows the app's live release. */
    readonly refreshRoute: (appId: AppId) => Promise<void>;
    /** Timeout from the start of the build until the trial start. */
    readonly buildTimeoutMs: number;
  };

/** A claimed build, and the signals between its work and the queue. */
export type BuildTask = {
  readonly lease: Lease<"builds">;
  /** Ends the build when it is aborted, with `BuildStopped` as the reason. */
  readonly stop: AbortSignal;
  /** Called when only the start of the app remains, which may take long or wait for a machine. */
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
  readonly #build: ClaimedBuild;
  readonly #output: BuildOutput;

  constructor(parts: BuildParts, task: BuildTask, record: BuildRecord) {
    const { db, leases, logs: sink, clock } = parts;
    const { buildId } = record;
    this.#parts = parts;
    this.#task = task;
    this.#build = new ClaimedBuild(db, record, leases.held(task.lease));
    this.#output = new BuildOutput({ sink, buildId, clock, level: levelOf(record) });
  }

  async run(): Promise<BuildEnd | null> {
    const { appName, number, buildId, request, keepsArtifact } = this.#build.record;
    if (!(await this.#build.move("building", null))) {
      // The build was cancelled since the claim, or another worker has claimed it: only a
      // cancellation can be written.
      return (await this.#build.move("cancelled", "Cancelled.")) ? "cancelled" : null;
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
      const settingsRelease = keepsArtifact ? await this.#makeSettingsRelease() : undefined;
      // A build that keeps an artifact has its release by now.
      const release = settingsRelease?.candidate ?? (await this.#makeRelease());
      this.#task.onBuilt();
      await this.#startAndPromote(release, settingsRelease?.over);
      return "success";
    } catch (error) {
      // After a stop, the error is only a consequence of the stop.
      return await this.#endWith(this.#task.stop.aborted ? this.#task.stop.reason : error);
    } finally {
      await this.#parts.source.remove(buildId);
    }
  }

  /** Fetches the files, builds the artifact and stores its release, within the build's timeout. */
  async #makeRelease(): Promise<CandidateRelease> {
    const { clock, buildTimeoutMs, log } = this.#parts;
    const timeout = new AbortController();
    const cancelTimeout = clock.after(buildTimeoutMs, () =>
      timeout.abort(new BuildStopped("timeout")),
    );
    const signal = AbortSignal.any([this.#task.stop, timeout.signal]);
    const startMs = clock.monotonicMs();
    try {
      const artifact = await makeArtifact(this.#parts, {
        build: this.#build,
        output: this.#output,
        signal,
      });
      this.#output.say("release", `App built in ${secondsText(clock.monotonicMs() - startMs)}`);
      return await this.#storeRelease(artifact);
    } catch (error) {
      if (timeout.signal.aborted && !this.#task.stop.aborted) {
        log.debug({ err: error, buildId: this.#build.record.buildId }, "a build ran out of time");
        throw timeout.signal.reason;
      }
      throw error;
    } finally {
      cancelTimeout();
    }
  }

  /** Replaces `#makeRelease` where only settings have changed. */
  async #makeSettingsRelease(): Promise<SettingsRelease> {
    const { db, providers } = this.#parts;
    const { record, held } = this.#build;
    const settingsRelease = await makeSettingsRelease(db, { record, held, providers });
    if (settingsRelease === null) throw await this.#build.whyRefused();
    this.#output.say(
      "release",
      `Release ${settingsRelease.number} has other settings and the same files: nothing is built.`,
    );
    this.#output.say("start", "Checking that it starts correctly...");
    return settingsRelease;
  }

  /** Stores the release, and moves the build to `initializing`, in one transaction. */
  async #storeRelease({ decided, artifact }: MadeArtifact): Promise<CandidateRelease> {
    const { db } = this.#parts;
    const { record, held } = this.#build;
    const { buildId, projectId, appId } = record;
    const { settings, origins, files } = decided;
    const move = { buildId, held, to: "initializing", reason: null } as const;
    const candidate = { releaseId: newReleaseId(), projectId, appId, buildId, settings, artifact };
    const releaseId = await db.transaction().execute(async (tx) => {
      await lockApp(tx, appId);
      const isMoved = await moveBuild(tx, { ...move, artifact });
      return isMoved ? (await putRelease(tx, { ...candidate, origins, files })).id : null;
    });
    if (releaseId === null) throw await this.#build.whyRefused();
    this.#output.say("start", "App created. Checking that it starts correctly...");
    return { ...candidate, releaseId };
  }

  /**
   * Tries the release, and promotes it. `over`: the release that it is to replace and whose
   * artifact it has; undefined: it has an artifact of its own.
   */
  async #startAndPromote(release: CandidateRelease, over: ReleaseId | undefined): Promise<void> {
    const { db, clock, refreshRoute } = this.#parts;
    if (await isAppStopped(db, release.appId)) this.#output.say("start", notTried);
    else await this.#tryToStart(release);
    await this.#output.flush();
    const isPromoted = await promote(
      { db, clock, refreshRoute },
      { release, over, held: this.#build.held },
    );
    if (!isPromoted) throw await this.#build.whyRefused();
  }

  async #tryToStart(release: CandidateRelease): Promise<void> {
    const { trial, clock } = this.#parts;
    const tookMs = await runTrial({
      starter: trial,
      release,
      clock,
      signal: this.#task.stop,
      onLine: ({ stream, text }) => this.#output.log("start", stream, text),
      onWait: async (reason) => {
        this.#output.say("start", `Waiting: ${reason}`);
        await this.#build.keep({ reason });
      },
    });
    this.#output.say("start", `App initialized in ${secondsText(tookMs)}`);
  }

  async #endWith(error: unknown): Promise<BuildEnd | null> {
    const { log, buildTimeoutMs } = this.#parts;
    const ending = endingOf(error, buildTimeoutMs);
    const { buildId } = this.#build.record;
    if (ending.kind === "leave") {
      log.warn({ buildId }, "a build was left to whoever has it now");
      return null;
    }
    if (ending.kind === "put_back") {
      this.#output.say("release", "The platform is stopping; the build continues when it is back.");
      await this.#output.flush();
      await this.#build.move("pending", null);
      return null;
    }
    if (ending.isUnexpected) log.error({ err: error, buildId }, "a build failed unexpectedly");
    const reason = this.#output.masked(ending.reason);
    for (const line of lastLines(ending.to, reason)) this.#output.say("release", line);
    await this.#output.flush();
    return (await this.#build.move(ending.to, reason)) ? ending.to : null;
  }
}

const notTried =
  "The app is stopped, so the release is not tried now. It takes the calls when somebody starts the app.";

/** The app's log level, which can only be set through the API. */
function levelOf({ request }: BuildRecord): LogLevel {
  return logLevels.find((level) => level === request["logLevel"]) ?? appFields.logLevel.default;
}

/** Names the version of the client that asked for the build; "" when the request has none. */
function clientNote(version: unknown): string {
  return typeof version === "string" ? `, as its client (version ${version}) asked` : "";
}

function secondsText(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)}s` : `${Math.round(ms / 1000)}s`;
}
