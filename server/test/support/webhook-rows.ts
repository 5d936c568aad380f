// Creates rows of webhook deliveries and endpoints for tests of the API that lists and changes
// them.
import {
  newDeliveryId,
  newRunId,
  type AppId,
  type DeliveryId,
  type EndpointId,
  type ProjectId,
  type RunId,
} from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { endpointOf } from "#webhooks/endpoint.ts";

type Place = { readonly db: Db; readonly projectId: ProjectId; readonly appId: AppId };

/** Overrides. */
export type DeliveryWish = {
  readonly url?: string;
  readonly state?: "pending" | "delivered" | "failed";
  readonly runId?: RunId;
  readonly createdAt?: Date;
  readonly body?: Buffer | null;
};

/** A delivery with one attempt, and its endpoint. */
export async function insertDelivery(
  place: Place,
  wish: DeliveryWish = {},
): Promise<{ readonly id: DeliveryId; readonly endpointId: EndpointId }> {
  const { db, projectId, appId } = place;
  const {
    url = "https://example.org/hook?key=1",
    state = "failed",
    runId = newRunId(),
    body = Buffer.from("{}"),
  } = wish;
  const id = newDeliveryId();
  const { id: endpointId, url: bareUrl } = endpointOf(projectId, url);
  await db
    .insertInto("webhook_endpoints")
    .values({ id: endpointId, project_id: projectId, url: bareUrl })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await db
    .insertInto("webhook_deliveries")
    .values({
      id,
      project_id: projectId,
      app_id: appId,
      run_id: runId,
      endpoint_id: endpointId,
      url,
      status_code: 200,
      content_type: "application/json",
      body,
      body_bytes: body?.length ?? 0,
      state,
      attempts: 1,
      reason: state === "failed" ? "The receiver answered 500." : null,
      ended_at: state === "pending" ? null : new Date(),
      created_at: wish.createdAt ?? new Date(),
    })
    .execute();
  await db
    .insertInto("webhook_attempts")
    .values({
      delivery_id: id,
      number: 1,
      started_at: new Date(),
      duration_ms: 12.5,
      status_code: 500,
      reason: "The receiver answered 500.",
      answer: Buffer.from("oh no"),
    })
    .execute();
  return { id, endpointId };
}
