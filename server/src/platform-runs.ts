// The part of the assembly that makes async runs and webhooks; see platform.ts.
import type { AppRoute, Routes } from "#apps/routes.ts";
import type { MeterStep } from "#billing/usage/meter-step.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { steadyClock } from "#lib/steady-clock.ts";
import { Fault } from "#lib/fault.ts";
import type { Lifecycle } from "#lib/lifecycle.ts";
import type { Log } from "#lib/log.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { startRetention } from "#lib/retention.ts";
import type { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import type { Forwarding } from "#proxy/forwarding.ts";
import type { Proxy } from "#proxy/proxy.ts";
import type { Scheduler } from "#scheduler/scheduler.ts";
import type { RunStep } from "#runs/run-steps.ts";
import { Runs } from "#runs/runs.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import type { WebhookStep } from "#webhooks/webhook-step.ts";
import { webhookRetention } from "#webhooks/retention.ts";
import { Webhooks } from "#webhooks/webhooks.ts";
import type { Config } from "./config.ts";

/** Told of each durable step of a run, a delivery or of metering. */
export type OnStep = (step: RunStep | WebhookStep | MeterStep) => void;

const clock = steadyClock;
const postgresPort = 5432;

type Parts = {
  readonly db: Db;
  readonly notifications: Notifications;
  readonly sealer: Sealer;
  readonly instanceId: string;
  readonly log: Log;
  readonly onStep: OnStep;
};

/** Webhooks, and the guard that every outward call goes by. */
export function openWebhooks(
  config: Config,
  parts: Parts & { readonly lifecycle: Lifecycle },
): { readonly webhooks: Webhooks; readonly guard: OutwardGuard } {
  const { db, notifications, sealer, instanceId, log, lifecycle, onStep } = parts;
  const guard = openGuard(config);
  const client = new OutwardClient({ guard, clock, userAgent: "Slipway", totalMax: config.webhooksAtOnce });
  lifecycle.onClose("calls to webhooks", () => client.close());
  const webhooks = new Webhooks({
    ...{ db, notifications, sealer, instanceId, client, clock, log, onStep },
    atOnce: config.webhooksAtOnce,
  });
  lifecycle.onClose("webhooks", () => webhooks.stop());
  const { runRetentionDays: days, resultRetentionDays } = config;
  const steps = () => webhookRetention({ db, days, bodyDays: Math.min(days, resultRetentionDays) });
  startRetention({ name: "webhook retention", steps, clock, log, lifecycle });
  return { webhooks, guard };
}

function openGuard({ webhookAllow, databaseUrl }: Config): OutwardGuard {
  try {
    return new OutwardGuard({
      allow: webhookAllow,
      ownListeners: databaseUrl === null ? [] : databasePlaces(databaseUrl),
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CannotStart(`SLIPWAY_WEBHOOK_ALLOW cannot be used: ${why}`, { cause: error });
  }
}

/** Where the database is; a webhook must not reach it. */
function databasePlaces(url: Secret): { readonly host: string; readonly port: number }[] {
  const { hostname, port } = new URL(url.reveal());
  return hostname === "" ? [] : [{ host: hostname, port: Number(port === "" ? postgresPort : port) }];
}

/** Answers of plain calls on their way to a webhook. */
export function forwardingTo(webhooks: Webhooks, guard: OutwardGuard, bytesMax: number): Forwarding {
  return {
    bytesMax,
    check(url) {
      const problem = guard.checkUrl(url);
      return problem === null ? null : new Fault("invalid", `webhookEndpoint cannot be called. ${problem}`);
    },
    forward({ secret, status, ...answer }) {
      webhooks.outbox.post({ ...answer, statusCode: status, secret: secret === null ? null : new Secret(secret) });
    },
  };
}

/** Async runs. */
export function openRuns(
  config: Config,
  parts: Parts & {
    readonly proxy: Proxy;
    readonly routes: Routes;
    readonly webhooks: Webhooks;
    readonly scheduler: Pick<Scheduler, "endStuck">;
    readonly refusalOf: (route: AppRoute) => Fault | null;
  },
): Runs {
  const { db, notifications, sealer, instanceId, log, proxy, routes, webhooks, scheduler, refusalOf, onStep } = parts;
  return new Runs({
    ...{ db, notifications, sealer, instanceId, proxy, routes, clock, log, onStep },
    outbox: webhooks.outbox,
    bodyBytesMax: config.asyncBodyBytesMax,
    answerBytesMax: config.resultBytesMax,
    runsAtOnce: config.runsAtOnce,
    lineLength: config.lineLength,
    isStopped: (appId) => {
      const route = routes.byAppId(appId);
      return route !== undefined && refusalOf(route) !== null;
    },
    endReplica: (replicaId) => scheduler.endStuck(replicaId),
  });
}
