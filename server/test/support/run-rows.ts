// Creates rows of runs and calls, as the platform itself writes them, for tests of listing,
// cancelling, redriving and deleting.
import type { RunState } from "@slipway/contract/words.ts";
import { newRunId, type AppId, type ProjectId, type ReplicaId, type RunId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";

/** The project and app of the rows. */
export type RowsAddress = { readonly db: Db; readonly projectId: ProjectId; readonly appId: AppId };

/** Overrides. */
export type RunWish = {
  readonly id?: RunId;
  readonly state?: RunState;
  readonly acceptedAt?: Date;
  readonly endedAt?: Date;
  readonly reason?: string;
  readonly statusCode?: number;
  readonly attempt?: number;
  readonly path?: string;
  readonly webhookEndpoint?: string;
  readonly replicaId?: ReplicaId;
  readonly body?: Buffer;
  /** The stored request; null: too long to be stored. */
  readonly result?: {
    readonly body: Buffer | null;
    readonly contentType?: string | null;
    readonly createdAt?: Date;
  };
};

const requestIsKept = new Set<RunState>(["pending", "queued", "running", "failure", "timeout"]);

/** An async run with its request (if runs in its state have one) and, if requested, its result. */
export async function insertRun(place: RowsAddress, wish: RunWish = {}): Promise<RunId> {
  const { db, projectId, appId } = place;
  const {
    id = newRunId(),
    state = "pending",
    acceptedAt = new Date(),
    path = "/predict",
    attempt = 0,
  } = wish;
  const isEnded = !["pending", "queued", "running"].includes(state);
  const isHeld = state === "queued" || state === "running";
  const endedAt = isEnded ? (wish.endedAt ?? new Date(acceptedAt.getTime() + 1_000)) : null;
  await db
    .insertInto("runs")
    .values({
      id,
      project_id: projectId,
      app_id: appId,
      state,
      method: "POST",
      path,
      client_address: "203.0.113.9",
      attempt,
      retries_max: 2,
      status_code: wish.statusCode ?? null,
      reason: wish.reason ?? null,
      webhook_endpoint: wish.webhookEndpoint ?? null,
      replica_id: wish.replicaId ?? null,
      accepted_at: acceptedAt,
      queued_at: state === "pending" ? null : new Date(acceptedAt.getTime() + 100),
      started_at:
        state === "pending" || state === "queued" ? null : new Date(acceptedAt.getTime() + 350),
      ended_at: endedAt,
      ...(isHeld
        ? { lease_holder: "test", lease_until: new Date(Date.now() + 60_000), lease_epoch: 1 }
        : {}),
    })
    .execute();
  if (requestIsKept.has(state)) {
    const body = wish.body ?? Buffer.from('{"n":1}');
    await db
      .insertInto("run_requests")
      .values({
        run_id: id,
        target: `${path}?a=1`,
        lines: "Content-Type: application/json\r\n",
        body,
      })
      .execute();
  }
  if (wish.result !== undefined) await insertResult(db, id, wish.result, wish.statusCode ?? 200);
  return id;
}

async function insertResult(
  db: Db,
  id: RunId,
  result: NonNullable<RunWish["result"]>,
  status: number,
): Promise<void> {
  const { body, contentType = "application/json", createdAt } = result;
  await db
    .insertInto("run_results")
    .values({
      run_id: id,
      status_code: status,
      content_type: contentType,
      body,
      body_bytes: body?.length ?? 20_000_000,
      ...(createdAt === undefined ? {} : { created_at: createdAt }),
    })
    .execute();
}

/** A plain call that has ended. */
export async function insertCall(
  place: RowsAddress,
  wish: {
    id?: RunId;
    state?: "success" | "failure";
    receivedAt?: Date;
    endedAt?: Date;
    isWebSocket?: boolean;
  } = {},
): Promise<RunId> {
  const { id = newRunId(), state = "success", receivedAt = new Date() } = wish;
  await place.db
    .insertInto("calls")
    .values({
      id,
      project_id: place.projectId,
      app_id: place.appId,
      state,
      method: "GET",
      path: "/predict/deep",
      client_address: "203.0.113.8",
      status_code: state === "success" ? 200 : 500,
      line_ms: 12.5,
      total_ms: 40.25,
      is_websocket: wish.isWebSocket ?? false,
      received_at: receivedAt,
      replica_id: "my-app-0000" as ReplicaId,
      ended_at: wish.endedAt ?? new Date(receivedAt.getTime() + 40),
    })
    .execute();
  return id;
}
