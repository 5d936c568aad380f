// A delivery on its way: its row as far as sending needs it, and the right to send it. Outbox, dispatcher and sender pass
// these on.
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
  /** Of the answer that is delivered. */
  readonly statusCode: number;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** Attempts that have ended since it was made or replayed. */
  readonly scheduleAttempts: number;
};

/** One that this platform holds the lease of. */
export type HeldDelivery = { readonly delivery: Delivery; readonly epoch: number };

/** What a delivery's sealed secret is bound to. */
export function deliverySecretContext(id: DeliveryId): string {
  return `webhook-delivery:${id}`;
}
