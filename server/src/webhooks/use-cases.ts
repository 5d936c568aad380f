// Use cases for a project's webhooks: deliveries and their attempts, endpoints, the schedule;
// `secret-use-cases.ts` has the secrets. Called by the API; each change and its audit row are one
// transaction, and every list is bounded.
import { lockProject } from "#accounts/project-store.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import {
  shownAppId,
  uuidForm,
  type DeliveryId,
  type EndpointId,
  type ProjectId,
} from "#lib/ids.ts";
import { numberTokens, pageOf, PageTokens, type Page } from "#lib/page-token.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { tellWaiting } from "./delivery-store.ts";
import * as store from "./list-store.ts";
import type { WebhookSecretUseCases } from "./secret-use-cases.ts";
import type { ScheduleName } from "./schedule.ts";
import { putSchedule, readSchedule } from "./secret-store.ts";
import type { WebhookStep } from "./webhook-step.ts";

export type DeliveryItem = Omit<store.DeliveryRow, "number" | "hasBody" | "dueAt" | "isPaused"> & {
  /** True when the delivery has ended and its body is still kept. */
  readonly isReplayable: boolean;
  /**
   * The time of the next attempt; null when the delivery has ended, or waits for its endpoint to be
   * resumed.
   */
  readonly dueAt: Date | null;
};

export type EndpointItem = Omit<store.EndpointRow, "projectId" | "createdMicros">;

export type PageQuery = { readonly pageSize: number; readonly nextToken: string | null };
export type DeliveryQuery = PageQuery &
  Pick<store.DeliveryFilter, "state" | "endpointId" | "runId">;
/**
 * Selects ended deliveries to send again, by the time of their creation. `from` is inclusive, `to`
 * exclusive.
 */
export type ReplayRange = Pick<store.ReplayFilter, "endpointId"> & {
  readonly from: Date;
  readonly to: Date;
  readonly state: "delivered" | "failed";
};
/**
 * The number of replayed deliveries. `hasMore`: the limit of one request was reached, so there may
 * be more; repeat the request.
 */
export type Replayed = { readonly replayed: number; readonly hasMore: boolean };

/**
 * How many attempts of a delivery are shown at most: the latest ones. The standard schedule makes
 * ten, and each replay restarts it.
 */
const attemptsShownMax = 100;
/** The maximum number of deliveries that one request replays. */
const replayMax = 10_000;

const deliveryTokens = numberTokens("deliveries");
const endpointTokens = new PageTokens<{ readonly createdMicros: number; readonly id: EndpointId }>({
  list: "endpoints",
  cursor: { createdMicros: "number", id: "uuid" },
  next: "nextToken",
});

/** The use cases of webhooks. They throw `Fault("not_found" | "invalid" | "conflict")`. */
export class WebhookUseCases {
  readonly #db: Db;
  readonly secrets: WebhookSecretUseCases;
  readonly #onStep: (name: WebhookStep) => void;

  constructor(parts: {
    readonly db: Db;
    readonly secrets: WebhookSecretUseCases;
    readonly onStep: (name: WebhookStep) => void;
  }) {
    this.#db = parts.db;
    this.secrets = parts.secrets;
    this.#onStep = parts.onStep;
  }

  /** The deliveries of a project, newest first. */
  async listDeliveries(projectId: ProjectId, query: DeliveryQuery): Promise<Page<DeliveryItem>> {
    const { state, endpointId, runId, pageSize: size, nextToken: token } = query;
    // A page token is valid only for the query that it was made for.
    const scope = [projectId, state, endpointId, runId];
    const before = deliveryTokens.read(scope, token)?.number;
    const filter = { projectId, state, endpointId, runId, limit: size + 1 };
    const rows = await store.listDeliveryRows(this.#db, { ...filter, before });
    const { items, nextToken } = pageOf(rows, size, (last) => deliveryTokens.make(scope, last));
    return { items: items.map(deliveryItem), nextToken };
  }

  async readDelivery(
    projectId: ProjectId,
    id: DeliveryId,
  ): Promise<{ readonly delivery: DeliveryItem; readonly attempts: readonly store.AttemptItem[] }> {
    const delivery = await this.#requireDelivery(projectId, id);
    const attempts = await store.listAttemptRows(this.#db, id, attemptsShownMax);
    // Invalid UTF-8, or a truncated character, becomes a replacement character.
    const shown = attempts.map((row) => ({ ...row, answer: row.answer?.toString("utf8") ?? null }));
    return { delivery: deliveryItem(delivery), attempts: shown };
  }

  /** Sends an ended delivery again, with the same webhook-id and a restarted schedule. */
  async replay(projectId: ProjectId, id: DeliveryId, by: By): Promise<DeliveryItem> {
    const delivery = await this.#requireDelivery(projectId, id);
    if (delivery.state === "pending")
      throw new Fault("conflict", `The delivery ${id} has not ended; it is still being retried.`);
    if (!delivery.hasBody) {
      throw new Fault(
        "conflict",
        `The delivery ${id} cannot be replayed: its body is no longer kept.`,
      );
    }
    const replayed = await this.#db.transaction().execute(async (tx) => {
      const endpointIds = await store.replayRows(tx, { projectId, id, limit: 1 });
      // Nothing was replayed, since another transaction has locked or changed the row meanwhile.
      if (endpointIds.length === 0)
        throw new Fault("conflict", `The delivery ${id} is being changed; try again.`);
      const resource = { type: "webhook_delivery", id };
      await record(tx, { projectId, action: "webhook_deliveries.replay", by, resource });
      await tellWaiting(tx, endpointIds);
      // Read within the transaction: the next attempt may begin as soon as it is committed.
      return await this.#requireDelivery(projectId, id, tx);
    });
    this.#onStep("replayed");
    return deliveryItem(replayed);
  }

  /** Sends ended deliveries again, oldest first, up to 10,000 per request. */
  async replayRange(projectId: ProjectId, range: ReplayRange, by: By): Promise<Replayed> {
    const { from, to, endpointId, state } = range;
    if (!(from < to)) {
      const times = `from is ${from.toISOString()} and to is ${to.toISOString()}`;
      throw new Fault("invalid", `${times}, but from must be earlier than to.`);
    }
    const replayed = await this.#db.transaction().execute(async (tx) => {
      // The endpoint of each replayed delivery, so the same endpoint may be there several times.
      const endpointIds = await store.replayRows(tx, {
        projectId,
        state,
        from,
        to,
        endpointId,
        limit: replayMax,
      });
      const changes = {
        from: { new: from },
        to: { new: to },
        state: { new: state },
        count: { new: endpointIds.length },
      };
      const resource =
        endpointId === undefined
          ? { type: "project", id: projectId }
          : endpointResource(endpointId);
      await record(tx, { projectId, action: "webhook_deliveries.replay", by, resource, changes });
      await tellWaiting(tx, [...new Set(endpointIds)]);
      return endpointIds.length;
    });
    this.#onStep("replayed");
    return { replayed, hasMore: replayed === replayMax };
  }

  /** The endpoints of a project, newest first. */
  async listEndpoints(
    projectId: ProjectId,
    { pageSize: size, nextToken: token }: PageQuery,
  ): Promise<Page<EndpointItem>> {
    const before = endpointTokens.read([projectId], token) ?? undefined;
    const rows = await store.listEndpointRows(this.#db, { projectId, before, limit: size + 1 });
    const { items, nextToken } = pageOf(rows, size, (last) =>
      endpointTokens.make([projectId], last),
    );
    return { items: items.map(endpointItem), nextToken };
  }

  /** Pauses an endpoint: its deliveries wait, including new ones, until it is resumed. */
  async pauseEndpoint(projectId: ProjectId, id: EndpointId, by: By): Promise<EndpointItem> {
    await this.#requireEndpoint(projectId, id);
    await this.#db.transaction().execute(async (tx) => {
      if (!(await store.pauseRow(tx, projectId, id)))
        throw new Fault("conflict", `The endpoint ${id} is already paused.`);
      await record(tx, {
        projectId,
        action: "webhook_endpoints.pause",
        by,
        resource: endpointResource(id),
      });
    });
    this.#onStep("paused");
    return endpointItem(await this.#requireEndpoint(projectId, id));
  }

  /** Resumes an endpoint, and sends its waiting deliveries. */
  async resumeEndpoint(projectId: ProjectId, id: EndpointId, by: By): Promise<EndpointItem> {
    await this.#requireEndpoint(projectId, id);
    await this.#db.transaction().execute(async (tx) => {
      if (!(await store.resumeRow(tx, projectId, id)))
        throw new Fault("conflict", `The endpoint ${id} is not paused.`);
      await record(tx, {
        projectId,
        action: "webhook_endpoints.resume",
        by,
        resource: endpointResource(id),
      });
      await tellWaiting(tx, [id]);
    });
    this.#onStep("resumed");
    return endpointItem(await this.#requireEndpoint(projectId, id));
  }

  async readSchedule(projectId: ProjectId): Promise<ScheduleName> {
    return await readSchedule(this.#db, projectId);
  }

  /** Sets the schedule, which applies from the next attempt on to all deliveries of the project. */
  async setSchedule(projectId: ProjectId, schedule: ScheduleName, by: By): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      const old = await readSchedule(tx, projectId);
      await putSchedule(tx, projectId, schedule);
      const changes = { schedule: { old, new: schedule } };
      const resource = { type: "project", id: projectId };
      await record(tx, { projectId, action: "webhook_schedule.update", by, resource, changes });
      // The cache of signing keys has the schedules too, and listens on this channel.
      await notify(tx, "webhook_secrets", projectId);
    });
  }

  async #requireDelivery(
    projectId: ProjectId,
    id: DeliveryId,
    db: Db = this.#db,
  ): Promise<store.DeliveryRow> {
    // PostgreSQL fails for a text that is no id.
    const row = uuidForm.test(id) ? await store.readDeliveryRow(db, projectId, id) : undefined;
    if (row === undefined)
      throw new Fault("not_found", `There is no webhook delivery ${id} in this project.`);
    return row;
  }

  async #requireEndpoint(projectId: ProjectId, id: EndpointId): Promise<store.EndpointRow> {
    // For the form see `#requireDelivery`.
    const row = uuidForm.test(id)
      ? await store.readEndpointRow(this.#db, projectId, id)
      : undefined;
    if (row === undefined)
      throw new Fault("not_found", `There is no webhook endpoint ${id} in this project.`);
    return row;
  }
}

function deliveryItem(row: store.DeliveryRow): DeliveryItem {
  const {
    id,
    runId,
    endpointId,
    url,
    statusCode,
    contentType,
    bodyBytes,
    state,
    reason,
    attempts,
  } = row;
  const isPending = state === "pending";
  return {
    id,
    appId: shownAppId(row.appId),
    runId,
    endpointId,
    url,
    statusCode,
    contentType,
    bodyBytes,
    isReplayable: !isPending && row.hasBody,
    state,
    reason,
    attempts,
    createdAt: row.createdAt,
    dueAt: isPending && !row.isPaused ? row.dueAt : null,
    endedAt: row.endedAt,
  };
}

function endpointItem(row: store.EndpointRow): EndpointItem {
  const {
    id,
    url,
    createdAt,
    lastSuccessAt,
    lastFailureAt,
    lastFailure,
    failingSince,
    pausedAt,
    waiting,
  } = row;
  return {
    id,
    url,
    createdAt,
    lastSuccessAt,
    lastFailureAt,
    lastFailure,
    failingSince,
    pausedAt,
    waiting,
  };
}

function endpointResource(id: EndpointId): { readonly type: string; readonly id: string } {
  return { type: "webhook_endpoint", id };
}
