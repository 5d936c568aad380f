// A build queue on real parts for tests: database, git server, the process driver's builder. Only
// the trial is faked, since the scheduler's own tests cover it.
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { BuildQueue } from "#deploy/queue.ts";
import { platformActor } from "#audit/record.ts";
import type { ReceivedBuild } from "#apps/build-receiver.ts";
import { receiveBuild } from "#deploy/receive.ts";
import { AnySource } from "#deploy/sources/any-source.ts";
import { giveUpUploads } from "#deploy/upload-store.ts";
import { GitSource } from "#deploy/sources/git.ts";
import { cpuSecondsFor, Git } from "#deploy/sources/git-command.ts";
import type { TrialOutcome, TrialStarter } from "#deploy/trial.ts";
import type { Capabilities, Driver } from "#drivers/driver.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { appIdOf, newProjectId, type AppId, type BuildId, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { BuildLogs } from "#logs/build-log.ts";
import type { Db } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { Notifications } from "#store/notify.ts";
import { givePip } from "./give-pip.ts";
import { until } from "./until.ts";
import { toolEnvironmentOf } from "#config.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { widePlacement } from "./wide-placement.ts";
import { processBuilder } from "./process-builder.ts";

const processCapabilities: Capabilities = {
  dockerfile: false,
  baseImage: false,
  aptPackages: false,
  condaPackages: false,
  memoryLimit: true,
  cpuLimit: true,
  egress: { canLimit: false, reason: "as a test" },
  storagePaths: true,
  containerRuntimes: null,
};

export type QueueGiven = {
  readonly db: Db;
  readonly url: Secret;
  readonly urlTemplate: string;
  readonly folder: string;
  readonly trial: TrialStarter;
  /** Zips of uploads; by default a folder below `folder`. */
  readonly uploadsDir?: string;
  readonly buildsAtOnce?: number;
  readonly leaseMs?: number;
  readonly releasesKept?: number;
  readonly buildTimeoutMs?: number;
  readonly refreshed?: AppId[];
  /** By default none, and a driver whose capabilities alone matter. */
  readonly sandbox?: Sandbox;
  readonly driver?: Pick<Driver, "name" | "capabilities">;
  readonly runtimeDir?: string;
  readonly refreshRoute?: (appId: AppId) => Promise<void>;
  readonly secretsOf?: (appId: AppId) => Readonly<Record<string, Secret>>;
  /** The clock of the queue and its builds, not of the programs that they run. */
  readonly clock?: Clock;
};

/** The variables of this process's environment that build programs may see. */
export const toolEnvironment = toolEnvironmentOf(process.env);

/** Starts a queue; `stop` stops it and everything that belongs to it. */
export async function openQueue(
  given: QueueGiven,
): Promise<{ queue: BuildQueue; stop(): Promise<void> }> {
  const { db, folder, clock = systemClock } = given;
  givePip(join(folder, "builds"));
  const notifications = new Notifications({ clock: systemClock, url: given.url, log: silentLog });
  await notifications.start();
  const logs = new BuildLogs({ db, notifications, clock: systemClock, log: silentLog });
  const git = new Git({ toolEnvironment, cpuSecondsMax: cpuSecondsFor(50_000_000) });
  const queue = new BuildQueue({
    db,
    instanceId: randomUUID(),
    notifications,
    logs,
    clock,
    log: silentLog,
    source: new AnySource({
      sourcesDir: join(folder, "sources"),
      uploadsDir: given.uploadsDir ?? join(folder, "uploads"),
      uploadBytesMax: 50_000_000,
      readKeptUploads: () => giveUpUploads(db),
      git: new GitSource({
        git,
        hosts: { defaultUrl: given.urlTemplate, otherUrls: [] },
        clock: systemClock,
        log: silentLog,
        timeoutMs: 30_000,
        bytesMax: 50_000_000,
        sourcesDir: join(folder, "sources"),
        findCredential: () => Promise.resolve(null),
        guard: new OutwardGuard({ allow: [] }),
      }),
    }),
    builder: processBuilder(folder, {
      pythons: new PythonFinder({ environment: toolEnvironment }),
      toolEnvironment,
      commandTimeoutMs: 60_000,
      runtimeDir: given.runtimeDir ?? null,
      sandbox: given.sandbox ?? { kind: "none", reason: "not what is tested" },
    }),
    registryAuthOf: () => Promise.resolve(null),
    secretsOf: (appId) => Promise.resolve(given.secretsOf?.(appId) ?? {}),
    driver: {
      name: "process",
      capabilities: processCapabilities,
      pools: widePlacement(),
      ...given.driver,
      collectStorage: () => Promise.resolve(),
    },
    trial: given.trial,
    refreshRoute: (appId) => {
      given.refreshed?.push(appId);
      return given.refreshRoute?.(appId) ?? Promise.resolve();
    },
    providers: ["local"],
    buildTimeoutMs: given.buildTimeoutMs ?? 60_000,
    buildsAtOnce: given.buildsAtOnce ?? 2,
    leaseMs: given.leaseMs ?? 15_000,
    releasesKept: given.releasesKept ?? 3,
  });
  await queue.start();
  const stop = async (): Promise<void> => {
    await queue.stop();
    await logs.flush();
    await notifications.stop();
  };
  return { queue, stop };
}

/** Like `openQueue`, stopped after the test. */
export async function startQueue(
  t: TestContext,
  given: QueueGiven,
): Promise<{ stop(): Promise<void> }> {
  const { stop } = await openQueue(given);
  let stopped: Promise<void> | undefined;
  const once = (): Promise<void> => (stopped ??= stop());
  t.after(once);
  return { stop: once };
}

/** A trial whose outcome the test sets; it ends as cancelled when its signal is aborted. */
export function playedTrial(
  play: (call: Parameters<TrialStarter["tryRelease"]>) => TrialOutcome | Promise<TrialOutcome>,
): TrialStarter & { readonly calls: Parameters<TrialStarter["tryRelease"]>[] } {
  const calls: Parameters<TrialStarter["tryRelease"]>[] = [];
  return {
    calls,
    async tryRelease(...call) {
      calls.push(call);
      const aborted = new Promise<TrialOutcome>((resolve) => {
        call[1].signal.addEventListener(
          "abort",
          () => resolve({ ok: false, kind: "failed", reason: "cancelled" }),
          {
            once: true,
          },
        );
      });
      return await Promise.race([play(call), aborted]);
    },
  };
}

/** A project with an app. */
export async function createApp(
  db: Db,
  given: { name?: string; projectId?: ProjectId; request?: Record<string, unknown> } = {},
): Promise<{ projectId: ProjectId; appId: AppId; request: Record<string, unknown> }> {
  const projectId = given.projectId ?? newProjectId();
  const name = given.name ?? "app";
  const appId = appIdOf(projectId, name);
  const request = { name, gitRepo: "acme/app", ...given.request };
  if (given.projectId === undefined)
    await db.insertInto("projects").values({ id: projectId, name: "Test" }).execute();
  await db
    .insertInto("apps")
    .values({
      id: appId,
      project_id: projectId,
      name,
      request: toJson(request),
      config_toml: null,
      docker_auth_sealed: null,
      live_release_id: null,
    })
    .execute();
  return { projectId, appId, request };
}

/** Requests a build as the API does. */
export async function requestBuild(
  db: Db,
  app: { projectId: ProjectId; appId: AppId; request: Record<string, unknown> },
): Promise<ReceivedBuild> {
  return await db
    .transaction()
    .execute((tx) => receiveBuild(tx, { ...app, cause: "create", by: platformActor }));
}

/** The build's row and log, once it has one of the states; by default any final one. */
export async function buildInState(
  db: Db,
  buildId: BuildId,
  states?: readonly string[],
  deadlineMs = 120_000,
) {
  const row = await until(
    `build is ${states?.join(" or ") ?? "ended"}`,
    async () => {
      const found = await db
        .selectFrom("builds")
        .selectAll()
        .where("id", "=", buildId)
        .executeTakeFirstOrThrow();
      if (states === undefined ? found.ended_at !== null : states.includes(found.status))
        return found;
      if (found.ended_at !== null) throw new Error(`it ended as ${found.status}: ${found.reason}`);
      return null;
    },
    { deadlineMs },
  );
  return { row, log: await buildLog(db, buildId) };
}

/** The lines of a build, in order. */
export async function buildLog(db: Db, buildId: BuildId): Promise<string[]> {
  const lines = await db
    .selectFrom("build_logs")
    .select("line")
    .where("build_id", "=", buildId)
    .orderBy("line_number")
    .execute();
  return lines.map(({ line }) => line);
}
