// Webhooks of one platform: takes deliveries in, sends them, and is what the API asks about them.
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import type { Notifications } from "#store/notify.ts";
import type { WebhookDesk } from "./desk.ts";
import type { Outbox } from "./outbox.ts";

/** What one attempt sends. */
export type PostRequest = {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly timeoutMs: number;
  readonly answerBytesMax: number;
};

export type WebhooksOptions = {
  readonly db: Db;
  readonly notifications: Pick<Notifications, "listen">;
  readonly sealer: Sealer;
  /** Of the data folder, which one process has at a time; absent: what an earlier process was sending is sent again when its leases run out. */
  readonly instanceId?: string;
  /** The platform's way to call out: `OutwardClient`. */
  readonly client: {
    post(url: string, request: PostRequest): Promise<unknown>;
  };
  /** The most deliveries under way. */
  readonly atOnce: number;
  /** How long deliveries are listed. */
  readonly retentionDays: number;
  /** How long bodies of ended ones are kept, so that they can be replayed. */
  readonly bodyRetentionDays: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Called right after the commit of each durable step with its name; see `webhookSteps`. */
  readonly onStep?: (name: WebhookStep) => void;
};

/** Every durable step of a delivery. */
export const webhookSteps = ["added", "claimed", "sent", "written", "paused", "resumed", "replayed"] as const;
export type WebhookStep = (typeof webhookSteps)[number];

/** `start()` once. `stop()` lets attempts that are under way end, within a bound. */
export interface Webhooks {
  readonly outbox: Outbox;
  readonly desk: WebhookDesk;
  start(): Promise<void>;
  stop(): Promise<void>;
}
