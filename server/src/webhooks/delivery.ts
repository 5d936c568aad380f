// What is delivered: an answer on its way to a URL, as the parts of the platform hand it in, and as it is sent.
import type { AppId, DeliveryId, EndpointId, ProjectId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";

/** An answer to be delivered. */
export type NewDelivery = {
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly runId: RunId;
  readonly url: string;
  /** The caller's X-Webhook-Secret. */
  readonly secret: Secret | null;
  /** Of the answer. */
  readonly statusCode: number;
  readonly contentType: string | null;
  /** Null: longer than what may be delivered; then it is only recorded, as failed. */
  readonly body: Buffer | null;
  readonly bodyBytes: number;
};

/** A delivery that can be sent: its row as far as sending needs it. */
export type Delivery = {
  readonly id: DeliveryId;
  readonly endpointId: EndpointId;
  readonly projectId: ProjectId;
  readonly runId: RunId;
  readonly url: string;
  readonly secret: Secret | null;
  readonly statusCode: number;
  readonly contentType: string | null;
  readonly body: Buffer;
  /** Attempts that have ended since it was made or replayed. */
  readonly scheduleAttempts: number;
};

/** One that this platform holds the lease of. */
export type HeldDelivery = { readonly delivery: Delivery; readonly epoch: number };
