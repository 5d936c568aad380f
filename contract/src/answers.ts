// The shapes of the answers of the management API. Tests validate real answers against them, and
// OpenAPI is generated from them. Times are RFC 3339 in UTC, never "". `nextPageToken` is absent on
// the last page.
import { z } from "zod";
import { settingOrigins } from "./app-settings.ts";
import {
  buildCauses,
  buildStates,
  deliveryStates,
  releaseStates,
  shownRunStates,
} from "./words.ts";

const time = z.iso.datetime();
const buildStatus = z.enum(buildStates);

/** The body of every error. */
export const faultAnswer = z.strictObject({ message: z.string().min(1) });

/** The answer to a change with nothing else to report. */
export const messageAnswer = z.strictObject({ message: z.string().min(1) });

/** Create app: exactly these eight fields. */
export const createdApp = z.strictObject({
  appId: z.string(),
  appUrl: z.url(),
  buildId: z.uuid(),
  dashboardUrl: z.url(),
  internalEndpoint: z.url(),
  logUrl: z.url(),
  projectId: z.string(),
  status: buildStatus,
});

export const projectList = z.array(z.strictObject({ id: z.string(), name: z.string() }));

const appStatus = z.enum(["ACTIVE", "PENDING", "BUILDING", "FAILED", "STOPPED"]);

export const appList = z.array(
  z.strictObject({
    id: z.string(),
    name: z.string(),
    status: appStatus,
    createdAt: time,
    updatedAt: time,
    /** Since when and why pushes are not deployed; null: they are, if gitAutoDeploy is true. */
    autoDeployPausedAt: time.nullable(),
    autoDeployPausedReason: z.string().nullable(),
    /** The status of the app's latest build, as in `appDetail`. */
    lastBuildStatus: buildStatus.nullable(),
    lastBuildReason: z.string().nullable(),
    lastBuildEndedAt: time.nullable(),
    latestBuildId: z.uuid().nullable(),
    liveRelease: z.int().min(1).nullable(),
    waitReason: z.string().nullable(),
  }),
);

/** Numbers are strings, because existing clients read them as such. */
export const appDetail = z.strictObject({
  id: z.string(),
  name: z.string(),
  projectId: z.string(),
  status: appStatus,
  createdAt: time,
  updatedAt: time,
  autoDeployPausedAt: time.nullable(),
  autoDeployPausedReason: z.string().nullable(),
  hardware: z.string(),
  cpu: z.string(),
  memory: z.string(),
  gpuCount: z.string(),
  cooldownPeriodSeconds: z.string(),
  minReplicaCount: z.string(),
  maxReplicaCount: z.string(),
  replicaConcurrency: z.string(),
  responseGracePeriodSeconds: z.string(),
  runtime: z.string(),
  disableAuth: z.boolean(),
  gitRepo: z.string().nullable(),
  gitBranch: z.string(),
  gitPath: z.string(),
  internalEndpoint: z.url(),
  /** Where a browser opens the app: null for functions, and for apps that take tokens. */
  pageUrl: z.url().nullable(),
  lastBuildStatus: buildStatus.nullable(),
  /**
   * Why the latest build ended as it did, or what it is waiting for; null when there is nothing to
   * report.
   */
  lastBuildReason: z.string().nullable(),
  /** Null: there is none, or it goes on. */
  lastBuildEndedAt: time.nullable(),
  /**
   * What calls of the live release are waiting for, or why they are refused; else why the app has
   * fewer replicas than are wanted, or what the replica of a build waits for; null when nothing
   * waits.
   */
  waitReason: z.string().nullable(),
  latestBuildId: z.uuid().nullable(),
  liveBuildId: z.uuid().nullable(),
  /** The number of the release that takes calls. */
  liveRelease: z.int().min(1).nullable(),
  /**
   * Every setting in effect by the name of its field, and where it comes from; `pending` is what a
   * release or a build still has to bring.
   */
  settings: z.record(
    z.string(),
    z.strictObject({
      value: z.unknown(),
      origin: z.enum(settingOrigins),
      pending: z.unknown().optional(),
    }),
  ),
});

/** What a change of settings took, or in a dry run would take. */
export const changedApp = z.strictObject({
  appId: z.string(),
  /** Null: everything is as it was sent already. */
  change: z.enum(["live", "replica", "build"]).nullable(),
  changed: z.array(z.string()),
  isDryRun: z.boolean(),
  /** The number of the release that is tried, for a change of `replica`. */
  release: z.int().min(1).nullable(),
  /** What was started, with its log. */
  buildId: z.uuid().nullable(),
  logUrl: z.url().nullable(),
  message: z.string().min(1),
});

export const build = z.strictObject({
  id: z.uuid(),
  appId: z.string(),
  number: z.int().min(1),
  cause: z.enum(buildCauses),
  status: buildStatus,
  reason: z.string().nullable(),
  commit: z.string().nullable(),
  /** Null until the commit is fetched, and for builds of earlier versions. */
  commitMessage: z.string().nullable(),
  commitAuthor: z.string().nullable(),
  /** The branch whose newest commit it is, or the tag; null when the commit was given. */
  branch: z.string().nullable(),
  createdAt: time,
  updatedAt: time,
  startedAt: time.nullable(),
  endedAt: time.nullable(),
});

export const buildList = z.array(build);

/** The answer when a build is accepted. */
export const receivedBuild = z.strictObject({
  buildId: z.uuid(),
  status: buildStatus,
  logUrl: z.url(),
});

export const release = z.strictObject({
  /** Within the app: v1, v2, … */
  number: z.int().min(1),
  id: z.uuid(),
  state: z.enum(releaseStates),
  /** Why it ended. */
  endReason: z.string().nullable(),
  /** The release's share of the app's new calls, as soon as it has the replicas for them. */
  trafficPercent: z.number().min(0).max(100),
  currentPercent: z.number().min(0).max(100).nullable().meta({
    description: "Its share of the app's calls now. Null: no replica of the app takes calls now.",
  }),
  /** It took calls and its files are kept: the app can go back to it. */
  isStartable: z.boolean(),
  cause: z.enum(buildCauses),
  /** Who or what made it; null for releases of earlier versions. */
  createdBy: z
    .strictObject({ type: z.string(), id: z.string().nullable(), name: z.string().nullable() })
    .nullable(),
  commit: z.string().nullable(),
  commitMessage: z.string().nullable(),
  commitAuthor: z.string().nullable(),
  branch: z.string().nullable(),
  buildId: z.uuid(),
  createdAt: time,
  /** When it first took calls. */
  promotedAt: time.nullable(),
  endedAt: time.nullable(),
});

export const releasePage = z.strictObject({
  items: z.array(release),
  nextToken: z.string().optional(),
});

/** With all its settings, as they were resolved for it. */
export const oneRelease = release.extend({ settings: z.record(z.string(), z.unknown()) });

/** One line; also the data of a server-sent event of the live log. */
export const buildLogLine = z.strictObject({
  id: z.string(),
  createdAt: time,
  log: z.string(),
  stage: z.string(),
  stream: z.enum(["platform", "stdout", "stderr"]),
  lineNumber: z.int(),
});

export const buildLogPage = z.strictObject({
  logs: z.array(buildLogLine),
  status: buildStatus,
  hasMore: z.boolean(),
  nextPageToken: z.string().optional(),
});

export const appLogPage = z.strictObject({
  logs: z.array(
    z.strictObject({
      appId: z.string(),
      projectId: z.string(),
      runId: z.string().nullable(),
      containerId: z.string(),
      containerName: z.string(),
      logId: z.string(),
      lineNumber: z.int(),
      logLine: z.string(),
      stream: z.enum(["stdout", "stderr"]),
      timestamp: time,
    }),
  ),
  hasMore: z.boolean(),
  nextPageToken: z.string().optional(),
});

const runStatus = z.enum(shownRunStates);

/**
 * An async run, or a plain call that has ended. The fields up to `totalResponseTimeMs` are those
 * that existing clients read; the rest is ours. Durations of an unfinished run are those so far.
 */
export const run = z.strictObject({
  async: z.boolean(),
  completedAt: time.nullable(),
  containerId: z.string().nullable(),
  containerStartedAt: time.nullable(),
  createdAt: time,
  functionName: z.string(),
  id: z.uuid(),
  ip: z.string(),
  method: z.string(),
  modelId: z.string(),
  projectId: z.string(),
  queueProxyReceivedAt: time,
  queueProxyWaitStartedAt: time.nullable(),
  queueProxyWaitEndedAt: time.nullable(),
  queueTimeMs: z.number().min(0),
  region: z.string().nullable(),
  responseTimeMs: z.number().min(0),
  runtimeMs: z.number().min(0),
  status: runStatus,
  statusCode: z.int().nullable(),
  updatedAt: time,
  webhookEndpoint: z.string().nullable(),
  websocket: z.boolean(),
  activatorQueueTimeMs: z.int().min(0),
  containerQueueTimeMs: z.int().min(0),
  totalQueueTimeMs: z.int().min(0),
  executionTimeMs: z.int().min(0),
  totalResponseTimeMs: z.int().min(0),
  /** How often the run was started. */
  attempts: z.int().min(0),
  /**
   * The number of the release that ran each start, in order. A retry may run on another release.
   */
  releases: z.array(z.int()),
  /** Why the run ended as it did, why its latest attempt failed, or what it is waiting for. */
  reason: z.string().nullable(),
  acceptedAt: time,
  queuedAt: time.nullable(),
  startedAt: time.nullable(),
  endedAt: time.nullable(),
  cancelRequestedAt: time.nullable(),
  /** The run that was created from this one. */
  redrivenAs: z.uuid().nullable(),
});

const listedRun = run.extend({
  isAsync: z.boolean().optional().meta({
    description:
      "The same as async, under the name that clients with X-CLI-Version 1.… read; for them only.",
  }),
});

/**
 * `callsLeftOut`: plain calls in the page's time range that were not recorded: of successful ones,
 * only a sample is.
 */
export const runAndCallPage = z.strictObject({
  items: z.array(listedRun),
  callsLeftOut: z.int().min(0),
  nextToken: z.string().optional(),
});

export const runPage = z.strictObject({ items: z.array(run), nextToken: z.string().optional() });

export const oneRun = z.strictObject({ item: run });

export const redrivenRun = z.strictObject({ runId: z.uuid() });

/**
 * `hasMore`: the time or the limit was reached before all runs were processed; send the request
 * again.
 */
export const redrivenRuns = z.strictObject({ redriven: z.int().min(0), hasMore: z.boolean() });

export const purgedRuns = z.strictObject({ purged: z.int().min(0), hasMore: z.boolean() });

/** The app's answer, byte for byte. */
export const bytes = z.string();

export const newWebhookSecret = z.strictObject({
  id: z.uuid(),
  createdAt: time,
  expiresAt: time.nullable(),
  secret: z.string().startsWith("whsec_"),
});

/** Null: the caller may not manage webhooks. */
export const webhookSecretList = z.array(
  newWebhookSecret.extend({ secret: newWebhookSecret.shape.secret.nullable() }),
);

export const webhookDelivery = z.strictObject({
  id: z.uuid(),
  appId: z.string(),
  runId: z.uuid(),
  endpointId: z.uuid(),
  url: z.string(),
  /** The status of the delivered answer. */
  statusCode: z.int(),
  contentType: z.string().nullable(),
  bodyBytes: z.int().min(0),
  isReplayable: z.boolean(),
  state: z.enum(deliveryStates),
  reason: z.string().nullable(),
  attempts: z.int().min(0),
  createdAt: time,
  /** The time of the next attempt. */
  dueAt: time.nullable(),
  endedAt: time.nullable(),
});

export const webhookDeliveryPage = z.strictObject({
  items: z.array(webhookDelivery),
  nextToken: z.string().optional(),
});

export const oneWebhookDelivery = z.strictObject({
  item: webhookDelivery,
  attempts: z.array(
    z.strictObject({
      number: z.int().min(1),
      startedAt: time,
      durationMs: z.number().min(0),
      statusCode: z.int().nullable(),
      reason: z.string().nullable(),
      /** The start of the receiver's answer, at most one KiB. */
      answer: z.string().nullable(),
    }),
  ),
});

export const replayedWebhookDelivery = z.strictObject({ item: webhookDelivery });

/** `hasMore`: the limit of one request was reached; send it again. */
export const replayedWebhookDeliveries = z.strictObject({
  replayed: z.int().min(0),
  hasMore: z.boolean(),
});

export const webhookEndpoint = z.strictObject({
  id: z.uuid(),
  /** The URL without its query. */
  url: z.string(),
  createdAt: time,
  lastSuccessAt: time.nullable(),
  lastFailureAt: time.nullable(),
  lastFailure: z.string().nullable(),
  failingSince: time.nullable(),
  pausedAt: time.nullable(),
  /** Waiting deliveries, counted up to 10,000. */
  waiting: z.int().min(0),
});

export const webhookEndpointPage = z.strictObject({
  items: z.array(webhookEndpoint),
  nextToken: z.string().optional(),
});

export const oneWebhookEndpoint = z.strictObject({ item: webhookEndpoint });

export const webhookSchedule = z.strictObject({ schedule: z.enum(["standard", "short"]) });

/** Secrets, as a map from names to values. */
export const secretMap = z.record(z.string(), z.string());

export const credentialList = z.array(
  z.strictObject({
    host: z.string(),
    kind: z.enum(["token", "ssh_key"]),
    username: z.string().nullable(),
    createdAt: time,
    updatedAt: time,
  }),
);

export const credential = credentialList.element;

export const health = z.strictObject({ status: z.literal("ok") });

export const keySet = z.object({ keys: z.array(z.record(z.string(), z.unknown())) });

export const anyObject = z.record(z.string(), z.unknown());
