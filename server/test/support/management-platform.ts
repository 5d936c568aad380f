// What is behind the management API, opened as the platform does, on a fresh database and a driver
// that runs nothing. Its loops do not run: a test that needs a turn takes it itself.
import { mkdirSync } from "node:fs";
import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";
import { computeTypes } from "@slipway/contract/app-choices.ts";
import type { ApiParts } from "#api/parts.ts";
import type { Urls } from "#api/urls.ts";
import { requestCancel } from "#deploy/end-builds.ts";
import type { Builder } from "#drivers/builder.ts";
import type { SharedDisk } from "#drivers/opened-driver.ts";
import type { ChosenDriver } from "#platform-driver.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { dataPaths, readConfig, toolEnvironmentOf, type Config } from "#config.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog, type Log } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { openManagement, type OpenedManagement, type Settings } from "#platform-management.ts";
import { openRunUseCases } from "#runs/open.ts";
import type { RunUseCasesOptions } from "#runs/run-use-cases.ts";
import { UsageSampler } from "#scheduler/usage-sampler.ts";
import { UseHistory } from "#scheduler/use-history.ts";
import type { Foundation } from "#store/foundation.ts";
import { Notifications } from "#store/notify.ts";
import { cleanLast } from "./clean-last.ts";
import { noConditions } from "./conditions.ts";
import { testDatabase, type TestDatabase } from "./database.ts";
import { FakeDriver } from "./fake-driver.ts";
import { temporaryFolder } from "./folder.ts";
import { templateSecretKey } from "./test-server.ts";
import { connect } from "./connect.ts";

/** Options. */
export type ManagementOptions = {
  /** A database that a platform already uses, with its secret key; by default a fresh one. */
  readonly fixture?: { readonly url: Secret; readonly secretKey: string };
  readonly clock?: Clock;
  /** By default, nothing is logged. */
  readonly log?: Log;
  /** Instead of those of `testSettings`. */
  readonly settings?: Partial<Config>;
  /** By default, nothing that was built was removed. */
  readonly isThere?: Builder["isThere"];
  /** What ends runs, of which there are none here. */
  readonly runs?: Partial<Pick<RunUseCasesOptions, "onCancelled" | "cancelWaitMs">>;
};

/** What a volume may hold, as settings. */
export function volumesOf(storageBytes: number): Partial<Config> {
  return { disk: { storageBytes, replicaBytes: null, reserveBytes: null } };
}

/** What is open, and where it is. */
export type ManagementPlatform = OpenedManagement & {
  readonly settings: Settings;
  readonly foundation: Foundation;
  readonly url: Secret;
  readonly secretKey: string;
  /** For the API: what the scheduler, the proxy and runs say, which are not here. */
  readonly calls: CallParts;
};

type CallParts = Pick<
  ApiParts,
  | "runs"
  | "useHistory"
  | "replicaUses"
  | "waitReason"
  | "buildWaitReason"
  | "conditionsOf"
  | "shareNow"
  | "execs"
  | "health"
  | "certificateFiles"
>;

/**
 * The settings of a platform without a configuration, with limits that no test reaches by chance.
 */
function testSettings(dataDir: string, changes: Partial<Config>): Settings {
  const environment = { ...toolEnvironmentOf(process.env), SLIPWAY_DATA_DIR: dataDir };
  return {
    ...readConfig(environment),
    providers: ["aws", "local"],
    deploysPerMinute: 1000,
    requestsPerMinute: 1_000_000,
    failedTokensPerMinute: Number.POSITIVE_INFINITY,
    uploadSizeBytes: 1_000_000,
    asyncBodyBytesMax: 1_000_000,
    resultBytesMax: 1_000_000,
    gitSizeBytes: 100_000_000,
    webhookAllow: ["127.0.0.0/8"],
    ...changes,
    paths: dataPaths(dataDir),
  };
}

/** Opens it; closed after the test. `urls` is asked later. */
export async function openManagementPlatform(
  t: TestContext,
  options: ManagementOptions,
  urls: (settings: Settings) => Urls,
): Promise<ManagementPlatform> {
  const settings = testSettings(temporaryFolder(t, "management"), options.settings ?? {});
  const { url, secretKey, ...foundation } = await openFoundation(t, options);
  const management = await openManagement(settings, {
    ...foundation,
    urls: () => urls(settings),
    openDriver: () => Promise.resolve(openTestDriver(settings, foundation, options)),
    onUnused: () => undefined,
    onStep: () => undefined,
  });
  const calls = callsOf(settings, foundation, options);
  return { ...management, settings, foundation, url, secretKey, calls };
}

async function openFoundation(
  t: TestContext,
  { clock = systemClock, log = silentLog, fixture }: ManagementOptions,
): Promise<Foundation & { readonly url: Secret; readonly secretKey: string }> {
  const { db, url } =
    fixture === undefined
      ? await testDatabase(t, { hasKey: true })
      : await openOther(t, fixture.url);
  const secretKey = fixture?.secretKey ?? templateSecretKey;
  const lifecycle = new Lifecycle({ log, clock: systemClock });
  t.after(() => lifecycle.close());
  const notifications = new Notifications({ clock: systemClock, url, log });
  await notifications.start();
  lifecycle.onClose("notifications", () => notifications.stop());
  const sealer = new Sealer([secretKey]);
  const instanceId = randomUUID();
  const ids = { installationId: instanceId, instanceId };
  return { db, url, secretKey, sealer, notifications, ...ids, lifecycle, clock, log };
}

async function openOther(t: TestContext, url: Secret): Promise<TestDatabase> {
  const db = await connect(url, 4);
  cleanLast(t, () => db.destroy());
  return { db, url };
}

const disk: SharedDisk = {
  freeSpace: { bytes: 1e9, reserveBytes: 0 },
  buildRefusal: () => null,
  storeRefusal: () => null,
  limitStorage: () => undefined,
  endReplicas: () => undefined,
};

/** With more of every hardware than any test asks for. */
function openTestDriver(
  { paths }: Settings,
  { clock }: Foundation,
  { isThere = () => Promise.resolve(true) }: ManagementOptions,
): ChosenDriver {
  const builder: Builder = {
    build: () => Promise.reject(new Error("nothing is built here")),
    isThere,
    remove: () => Promise.resolve(),
    collect: () => Promise.resolve(),
  };
  const { storageDir } = paths;
  mkdirSync(storageDir);
  return {
    driver: new FakeDriver({ clock, compute: computeTypes }),
    builder,
    disk,
    files: new StorageFiles({ storageDir, userOf: () => null, isUserOwned: false }),
    onListening: () => Promise.resolve(),
  };
}

function callsOf(settings: Settings, foundation: Foundation, { runs }: ManagementOptions) {
  const builds = { requestCancel };
  const driver = { usage: () => Promise.resolve(new Map()) };
  return {
    runs: openRunUseCases(settings, {
      ...foundation,
      builds,
      onCancelled: () => undefined,
      ...runs,
    }),
    useHistory: new UseHistory({
      ...foundation,
      replicas: () => [],
      calls: () => [],
      sampler: new UsageSampler({ driver, clock: foundation.clock }),
    }),
    replicaUses: () => Promise.resolve(new Map()),
    waitReason: () => undefined,
    buildWaitReason: () => undefined,
    conditionsOf: noConditions,
    shareNow: () => null,
    execs: { open: () => Promise.reject(new Error("no replica runs here")) },
    certificateFiles: () => [],
    health: { notServing: () => null, notReady: () => Promise.resolve(null) },
  } satisfies CallParts;
}
