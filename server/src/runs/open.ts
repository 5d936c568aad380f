// Opens async runs, the records of plain calls, and the forwarding of plain calls' answers to
// webhooks.
import type { AppRoute, Routes } from "#apps/routes.ts";
import { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import type { OutwardGuard } from "#lib/outward-guard.ts";
import { Loop } from "#lib/loop.ts";
import { startRetention } from "#lib/retention.ts";
import { Secret } from "#lib/secret.ts";
import { AnswerDecoder } from "#proxy/answer-decoder.ts";
import type { ForwardedAnswer, Forwarding } from "#proxy/forwarding.ts";
import type { Proxy } from "#proxy/proxy.ts";
import type { Foundation } from "#store/foundation.ts";
import type { DaysOfProjects } from "#store/steps-by-app.ts";
import type { Webhooks } from "#webhooks/webhooks.ts";
import { callRecordWriter } from "./call-record-store.ts";
import { CallRecords, type CallRecordsOptions } from "./call-records.ts";
import { runRetention } from "./run-retention.ts";
import type { RunStep } from "./run-steps.ts";
import { FileRuns, settleBuiltRuns, type FileRunsOptions, type SettleParts } from "./file-runs.ts";
import { RunUseCases, type RunUseCasesOptions } from "./run-use-cases.ts";
import { Runs, type RunsOptions } from "./runs.ts";

export type RunSettings = {
  readonly asyncBodyBytesMax: number;
  /** The maximum size of an answer that is kept. */
  readonly resultBytesMax: number;
  readonly resultRetentionDays: number;
  readonly runRetentionDays: number;
  readonly callRetentionDays: number;
  /** How many runs of all apps this platform holds at most. */
  readonly runsAtOnce: number;
  /** The length of an app's call line. */
  readonly lineLength: number;
};

type Parts = Foundation & {
  readonly lines: SettleParts["lines"];
  readonly proxy: Proxy;
  readonly routes: Routes;
  readonly webhooks: Webhooks;
  readonly scheduler: RunsOptions["scheduler"];
  readonly builds: RunUseCasesOptions["builds"];
  /** Why calls of the app are refused now; null: they are not. */
  readonly refusalOf: (route: AppRoute) => Fault | null;
  readonly onStep: (step: RunStep) => void;
  readonly ownerKeyOf: RunsOptions["ownerKeyOf"];
  readonly storeRefusal: RunsOptions["storeRefusal"];
  /** How long records of plain calls are kept, by the plans of projects. */
  readonly callDaysOf: DaysOfProjects;
};

/**
 * How often runs whose build has ended are looked for, to start them. A notification comes sooner,
 * but the release may take calls only a moment after the notification.
 */
const builtEveryMs = 1_000;

/** The use cases of files that run once. */
export function openFileRuns(
  { asyncBodyBytesMax }: Pick<RunSettings, "asyncBodyBytesMax">,
  { uploadDeployments }: Pick<FileRunsOptions, "uploadDeployments">,
): FileRuns {
  return new FileRuns({ uploadDeployments, bodyBytesMax: asyncBodyBytesMax });
}

/** The use cases of runs for the API. */
export function openRunUseCases(
  { resultRetentionDays, resultBytesMax }: Pick<RunSettings, RunUseCaseSetting>,
  parts: Omit<RunUseCasesOptions, RunUseCaseSetting>,
): RunUseCases {
  return new RunUseCases({ ...parts, resultRetentionDays, resultBytesMax });
}

type RunUseCaseSetting = "resultRetentionDays" | "resultBytesMax";

type CallRecordsParts = Foundation & {
  /** How many successful plain calls of an app of the project are recorded per minute. */
  readonly callRecordsOf: CallRecordsOptions["successesOf"];
};

/** Opens the recording of plain calls. */
export function openCallRecords(
  { db, clock, log, lifecycle, callRecordsOf: successesOf }: CallRecordsParts,
  whyBrokenOff: CallRecordsOptions["whyBrokenOff"],
): CallRecords {
  const records = new CallRecords({
    ...callRecordWriter(db),
    whyBrokenOff,
    successesOf,
    clock,
    log,
  });
  lifecycle.onClose("records of calls", () => records.stop());
  return records;
}

type ForwardingParts = Pick<Foundation, "lifecycle"> &
  Pick<RunsOptions, "ownerKeyOf"> & { readonly webhooks: Webhooks; readonly guard: OutwardGuard };

/** Opens the forwarding of plain calls' answers to webhooks. */
export function forwardingTo(parts: ForwardingParts, bytesMax: number): Forwarding {
  const { webhooks, guard, lifecycle, ownerKeyOf } = parts;
  const decoder = new AnswerDecoder(bytesMax, ownerKeyOf);
  const decoding = new Set<Promise<void>>();
  const post = ({ secret, status, contentFields = null, ...answer }: ForwardedAnswer): void => {
    const masked = secret === null ? null : new Secret(secret);
    webhooks.outbox.post({ ...answer, contentFields, statusCode: status, secret: masked });
  };
  lifecycle.onClose("answers that are decoded", async () => {
    await Promise.all(decoding);
  });
  return {
    bytesMax,
    check(url) {
      const problem = guard.checkUrl(url);
      if (problem === null) return null;
      return new Fault("invalid", `webhookEndpoint cannot be called. ${problem}`);
    },
    forward(answer) {
      // The caller may have asked for a compressed answer, but the webhook has not.
      if (!decoder.isNeeded(answer)) return post(answer);
      const posted = decoder.readable(answer, answer.projectId).then((readable) => {
        decoding.delete(posted);
        post(readable);
      });
      decoding.add(posted);
    },
  };
}

/** Opens the runs, which the caller then prepares and starts, and their use cases for the API. */
export function openRuns(settings: RunSettings, parts: Parts) {
  const { db, notifications, clock, log, lifecycle, proxy, routes } = parts;
  const { resultBytesMax, lineLength, runsAtOnce } = settings;
  const runs = new Runs({
    db,
    notifications,
    sealer: parts.sealer,
    instanceId: parts.instanceId,
    proxy,
    calledApps: proxy.apps,
    routes,
    clock,
    log,
    onStep: parts.onStep,
    runsAtOnce,
    lineLength,
    outbox: parts.webhooks.outbox,
    bodyBytesMax: settings.asyncBodyBytesMax,
    ownerKeyOf: parts.ownerKeyOf,
    storeRefusal: parts.storeRefusal,
    answerBytesMax: resultBytesMax,
    isStopped: (appId) => {
      const route = routes.byAppId(appId);
      return route !== undefined && parts.refusalOf(route) !== null;
    },
    scheduler: parts.scheduler,
  });
  const { callDaysOf } = parts;
  const steps = () => runRetention({ db, clock, callDaysOf, ...settings });
  startRetention({ name: "run retention", steps, clock, log, lifecycle });
  new Loop({
    name: "runs of builds",
    intervalMs: builtEveryMs,
    clock,
    log,
    turn: () => settleBuiltRuns({ db, clock, routes, lines: parts.lines }),
    listen: (nudge) => notifications.listen("builds", nudge),
  }).startWithin(lifecycle);
  const onCancelled = (runId: RunId): void => runs.cancel(runId);
  return { runs, runUseCases: openRunUseCases(settings, { ...parts, onCancelled }) };
}
