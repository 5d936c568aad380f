// What a project's people do with webhooks: secrets, deliveries, endpoints, the schedule. Called by the API; each change
// and its audit row are one transaction.
import type { By } from "#audit/actor.ts";
import type { AppId, DeliveryId, EndpointId, ProjectId, RunId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import type { ScheduleName } from "./schedule.ts";

/** A secret as it is listed; its value is shown once, when it is made. */
export type WebhookSecret = {
  readonly id: string;
  readonly createdAt: Date;
  /** Null: the newest one, valid until another is made or it is deleted. */
  readonly expiresAt: Date | null;
};
export type NewWebhookSecret = WebhookSecret & { readonly secret: Secret };

export type DeliveryState = "pending" | "delivered" | "failed";

export type DeliveryItem = {
  readonly id: DeliveryId;
  readonly appId: AppId;
  readonly runId: RunId;
  readonly endpointId: EndpointId;
  readonly url: string;
  readonly statusCode: number;
  readonly contentType: string | null;
  readonly bodyBytes: number;
  /** The body is still there, so it can be replayed. */
  readonly isReplayable: boolean;
  readonly state: DeliveryState;
  readonly reason: string | null;
  readonly attempts: number;
  readonly createdAt: Date;
  /** When it is tried next; null when it has ended, or waits for its endpoint to be resumed. */
  readonly dueAt: Date | null;
  readonly endedAt: Date | null;
};

export type AttemptItem = {
  readonly number: number;
  readonly startedAt: Date;
  readonly durationMs: number;
  /** Null: there was no answer. */
  readonly statusCode: number | null;
  /** Null: it was a success. */
  readonly reason: string | null;
  /** The beginning of the answer as text, at most a KiB. */
  readonly answer: string | null;
};

export type EndpointItem = {
  readonly id: EndpointId;
  /** Without query. */
  readonly url: string;
  readonly createdAt: Date;
  readonly lastSuccessAt: Date | null;
  readonly lastFailureAt: Date | null;
  readonly lastFailure: string | null;
  readonly failingSince: Date | null;
  readonly pausedAt: Date | null;
  /** Deliveries that wait, counted up to 10,000. */
  readonly waiting: number;
};

/** A page, newest first; `nextToken` null: the last one. */
export type WebhookPage<Item> = { readonly items: readonly Item[]; readonly nextToken: string | null };
export type PageQuery = { readonly pageSize?: number | undefined; readonly nextToken?: string | undefined };
export type DeliveryQuery = PageQuery & {
  readonly state?: DeliveryState | undefined;
  readonly endpointId?: EndpointId | undefined;
  readonly runId?: RunId | undefined;
};
/** Which ended deliveries to send again. Times: `from` included, `to` not. */
export type ReplayRange = {
  readonly from: Date;
  readonly to: Date;
  /** Default: those that failed. */
  readonly state?: "delivered" | "failed" | undefined;
  readonly endpointId?: EndpointId | undefined;
};
/** `hasMore`: ask again, there is a bound on what one request replays. */
export type Replayed = { readonly replayed: number; readonly hasMore: boolean };

/** The use cases. Throws `Fault("not_found" | "invalid" | "conflict")`. */
export interface WebhookDesk {
  listSecrets(projectId: ProjectId): Promise<readonly WebhookSecret[]>;
  /** The value is shown this once. The one before stays valid for `overlapHours` (0 to 720, default 24); an older one ends. */
  createSecret(
    projectId: ProjectId,
    wish: { readonly overlapHours?: number | undefined },
    by: By,
  ): Promise<NewWebhookSecret>;
  deleteSecret(projectId: ProjectId, id: string, by: By): Promise<void>;
  listDeliveries(projectId: ProjectId, query: DeliveryQuery): Promise<WebhookPage<DeliveryItem>>;
  readDelivery(
    projectId: ProjectId,
    id: DeliveryId,
  ): Promise<{ readonly delivery: DeliveryItem; readonly attempts: readonly AttemptItem[] }>;
  /** Sends an ended one again, under the same webhook-id. */
  replay(projectId: ProjectId, id: DeliveryId, by: By): Promise<DeliveryItem>;
  replayRange(projectId: ProjectId, range: ReplayRange, by: By): Promise<Replayed>;
  listEndpoints(projectId: ProjectId, query: PageQuery): Promise<WebhookPage<EndpointItem>>;
  pauseEndpoint(projectId: ProjectId, id: EndpointId, by: By): Promise<EndpointItem>;
  /** What waits is sent. */
  resumeEndpoint(projectId: ProjectId, id: EndpointId, by: By): Promise<EndpointItem>;
  readSchedule(projectId: ProjectId): Promise<ScheduleName>;
  setSchedule(projectId: ProjectId, schedule: ScheduleName, by: By): Promise<void>;
}
