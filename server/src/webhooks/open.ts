// Opens webhooks, and the guard for every outgoing request.
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import { errorMessage } from "#lib/error-message.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { startRetention } from "#lib/retention.ts";
import type { Secret } from "#lib/secret.ts";
import type { Foundation } from "#store/foundation.ts";
import { webhookRetention } from "./retention.ts";
import type { WebhookStep } from "./webhook-step.ts";
import { Webhooks } from "./webhooks.ts";

export type WebhookSettings = {
  /** Addresses and ranges of private networks that outgoing requests may reach. */
  readonly webhookAllow: readonly string[];
  /** Outgoing requests must not reach this server. Null: the embedded one, which has no port. */
  readonly databaseUrl: Secret | null;
  readonly webhooksAtOnce: number;
  readonly runRetentionDays: number;
  readonly resultRetentionDays: number;
};

export type OpenedWebhooks = { readonly webhooks: Webhooks; readonly guard: OutwardGuard };

/** The port of a database whose URL names none. */
const postgresPort = 5432;

/**
 * Opens webhooks; sending begins once they are started. Throws `CannotStart` for an invalid
 * `SLIPWAY_WEBHOOK_ALLOW`.
 */
export function openWebhooks(
  settings: WebhookSettings,
  parts: Foundation & {
    readonly ownerKeyOf: OwnerKeyOf;
    readonly onStep: (step: WebhookStep) => void;
  },
): OpenedWebhooks {
  const { db, notifications, sealer, instanceId, log, clock, lifecycle, onStep } = parts;
  const guard = openGuard(settings);
  const { webhooksAtOnce: atOnce, runRetentionDays: days, resultRetentionDays } = settings;
  const client = new OutwardClient({ guard, clock, userAgent: "Slipway", totalMax: atOnce });
  lifecycle.onClose("calls to webhooks", () => client.close());
  const webhooks = new Webhooks({
    db,
    notifications,
    sealer,
    instanceId,
    client,
    clock,
    log,
    onStep,
    ownerKeyOf: parts.ownerKeyOf,
    atOnce,
  });
  lifecycle.onClose("webhooks", () => webhooks.stop());
  const steps = () => webhookRetention({ db, days, bodyDays: Math.min(days, resultRetentionDays) });
  startRetention({ name: "webhook retention", steps, clock, log, lifecycle });
  return { webhooks, guard };
}

function openGuard({ webhookAllow: allow, databaseUrl }: WebhookSettings): OutwardGuard {
  try {
    return new OutwardGuard({
      allow,
      ownListeners: databaseUrl === null ? [] : listenerOf(databaseUrl),
    });
  } catch (error) {
    const why = errorMessage(error);
    throw new CannotStart(`SLIPWAY_WEBHOOK_ALLOW cannot be used: ${why}`, { cause: error });
  }
}

/**
 * The host and the port of a database. Empty: the URL has no host, since it leads to a socket in
 * the file system, which has no port.
 */
function listenerOf(url: Secret): { readonly host: string; readonly port: number }[] {
  const { hostname, port } = new URL(url.reveal());
  return hostname === ""
    ? []
    : [{ host: hostname, port: Number(port === "" ? postgresPort : port) }];
}
