// A delivery in progress: the part of its row that sending needs, and its lease. Outbox, dispatcher and sender pass these on.
import type { DeliveryId, EndpointId, ProjectId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";

/** A delivery that can be sent. */
export type Delivery = {
  readonly id: DeliveryId;
  readonly endpointId: EndpointId;
  readonly projectId: ProjectId;
  readonly runId: RunId;
  readonly url: string;
  /** The caller's X-Webhook-Secret. */
  readonly secret: Secret | null;
  /** Of the delivered answer. */
  readonly statusCode: number;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** Attempts since it was created or replayed. */
  readonly scheduleAttempts: number;
};

/** A delivery that this platform has leased. */
export type HeldDelivery = { readonly delivery: Delivery; readonly epoch: number };

/** The context that seals a delivery's secret. */
export function deliverySecretContext(id: DeliveryId): string {
  return `webhook-delivery:${id}`;
}
