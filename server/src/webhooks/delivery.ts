// The forms of a delivery in memory: an answer to deliver, which `outbox.ts` stores; what sending
// needs of a stored delivery; and a delivery with its lease, which `dispatcher.ts` hands to
// `in-flight.ts`.
import type { AppKey, DeliveryId, EndpointId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";

/** An answer to deliver. */
export type NewDelivery = AppKey & {
  readonly runId: RunId;
  readonly url: string;
  /** The caller's X-Webhook-Secret. */
  readonly secret: Secret | null;
  /** The status code of the answer. */
  readonly statusCode: number;
  readonly contentType: string | null;
  /** Further header fields about the body, by their names in lower case; null: there are none. */
  readonly contentFields: Readonly<Record<string, string>> | null;
  /** Null: the body was too long, or memory was short. The delivery is only recorded, as failed. */
  readonly body: Buffer | null;
  /** The size of the answer's body, also when `body` is null. */
  readonly bodyBytes: number;
};

/** A delivery that can be sent. */
export type Delivery = Omit<NewDelivery, "appId" | "body" | "bodyBytes"> & {
  readonly id: DeliveryId;
  readonly endpointId: EndpointId;
  readonly body: Buffer;
  /** The number of attempts since the delivery was created or last replayed. */
  readonly scheduleAttempts: number;
};

/** A delivery that this platform has leased. `epoch`: the number of the lease. */
export type HeldDelivery = { readonly delivery: Delivery; readonly epoch: number };

/** The context for sealing a delivery's secret. */
export function deliverySecretContext(id: DeliveryId): string {
  return `webhook-delivery:${id}`;
}
