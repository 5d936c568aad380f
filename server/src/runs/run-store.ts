// The rows of async runs. A platform that works on a run names the epoch of its lease in every
// write, so that it changes nothing once it has lost the lease. All writes are batched: one
// statement for many runs.
import { sql, type RawBuilder } from "kysely";
import { finalStates, type FinalState } from "@slipway/contract/words.ts";
import { parseAddress } from "#drivers/address.ts";
import type { Address } from "#drivers/driver.ts";
import type { AppId, AppKey, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";
import { toJson } from "#store/json.ts";
import type { CollectedAnswer } from "#proxy/answer-collector.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { runStatesBefore } from "./run-states.ts";

/** A run that is about to be stored. It is accepted once it is stored. */
export type NewRun = AppKey & {
  readonly runId: RunId;
  readonly releaseId: ReleaseId;
  readonly method: string;
  /** The path for the replica, including the query. */
  readonly target: string;
  /** Header lines for the replica. */
  readonly lines: string;
  readonly body: Buffer;
  readonly clientAddress: string;
  /** How many times the run may be tried again after an attempt that counts. */
  readonly retriesMax: number;
  /** The URL to which the call asks that its answer is posted; null: the call names none. */
  readonly webhookEndpoint: string | null;
  /**
   * The secret that the call gives for signing the delivery of its answer, encrypted; null: the
   * call gives none.
   */
  readonly webhookSecretSealed: string | null;
  /** True if this platform processes the run at once, and so gets the run's lease. */
  readonly isHeld: boolean;
};

/** A run whose lease this platform has, at the lease's epoch. */
export type HeldRun = { readonly runId: RunId; readonly epoch: number };

/** A run with everything needed to process it. */
export type RunWork = HeldRun &
  Omit<NewRun, "releaseId" | "clientAddress" | "isHeld"> & {
    /** The number of attempts so far. */
    readonly attempt: number;
    /** The number of recorded starts. `attempt` does not count the starts that did not happen. */
    readonly starts: number;
    /**
     * The Unix time in milliseconds from which the run's wait for a replica counts. The store gives
     * the time of the run's acceptance; the runner replaces it with a later time if the app was
     * stopped, or no platform was running, after the acceptance.
     */
    readonly waitsSinceMs: number;
    /** The only release that may execute the run; null or absent: any release may. */
    readonly onlyReleaseId?: ReleaseId | null;
  };

/** A run that was running when its platform ended. */
export type OrphanRun = RunWork & {
  /** The replica that got the latest attempt, or was to get it; null: there was no attempt. */
  readonly replicaId: ReplicaId | null;
  readonly isCancelRequested: boolean;
};

/** An attempt that is about to be sent. */
export type RunStart = HeldRun & { readonly replicaId: ReplicaId; readonly releaseId: ReleaseId };

/** The end of a run. */
export type RunEnd = HeldRun & {
  readonly state: FinalState;
  /** The status that a plain caller would have got; null: the run was cancelled or interrupted. */
  readonly statusCode: number | null;
  /** Why the run did not succeed; null: it succeeded. */
  readonly reason: string | null;
  /** The answer to be stored; null: there is none. */
  readonly result: CollectedAnswer | null;
};

/** A run that is given back, to be retried after `delayMs`. */
export type RunReturn = HeldRun & {
  readonly delayMs: number;
  /**
   * The status and the reason of the attempt that failed; null: the status and the reason of an
   * earlier attempt stay.
   */
  readonly statusCode: number | null;
  readonly reason: string | null;
  /** The number of attempts that count so far. */
  readonly attempt: number;
};

export type RunStoreOptions = {
  readonly db: Db;
  /** The id of this instance: unique among running platforms, and the same after a restart. */
  readonly holder: string;
  /** How long a lease lasts. */
  readonly leaseMs: number;
};

/** The maximum number of apps that `appsWithWork` returns. */
const appsMax = 1_000;
/**
 * A body above this size is sent as a separate parameter. As an element of an array it would be
 * converted to text of twice its length, which blocks the event loop.
 */
const largeBytes = 32 * 1_024;

/** The rows, as written by one platform. */
export class RunStore {
  readonly #db: Db;
  readonly #holder: string;
  readonly #leaseMs: number;

  constructor({ db, holder, leaseMs }: RunStoreOptions) {
    this.#db = db;
    this.#holder = holder;
    this.#leaseMs = leaseMs;
  }

  /** Inserts new runs. They are accepted once this resolves, or once `tx` is committed. */
  async insert(runs: readonly NewRun[], tx: Db = this.#db): Promise<void> {
    const column = <Value>(pick: (run: NewRun) => Value): Value[] => runs.map(pick);
    const largeRuns = runs.filter(hasLargeBody);
    const largeRows = largeRuns.map((run) => sql`(${run.runId}::uuid, ${run.body}::bytea)`);
    // The list `values` must not be empty, so it begins with a row of nulls, which matches no run.
    const rowOfNulls = sql`(null::uuid, null::bytea)`;
    // A held run begins as queued, with a lease of epoch 1. Another run is pending: it has no
    // lease, and its epoch is 0.
    await sql`
      with large (id, body) as (
        values ${sql.join([rowOfNulls, ...largeRows])}
      ), given as (
        select * from unnest(
          ${column((run) => run.runId)}::uuid[], ${column((run) => run.projectId)}::text[],
          ${column((run) => run.appId)}::text[], ${column((run) => run.releaseId)}::uuid[],
          ${column((run) => run.method)}::text[], ${column((run) => run.target)}::text[],
          ${column((run) => run.lines)}::text[],
          ${column((run) => (hasLargeBody(run) ? null : run.body))}::bytea[],
          ${column((run) => run.clientAddress)}::text[], ${column((run) => run.retriesMax)}::smallint[],
          ${column((run) => run.webhookEndpoint)}::text[], ${column((run) => run.webhookSecretSealed)}::text[],
          ${column((run) => run.isHeld)}::boolean[]
        ) as given (id, project_id, app_id, release_id, method, target, lines, body, client_address, retries_max,
                    webhook_endpoint, webhook_secret_sealed, is_held)
      ), accepted as (
        insert into runs (id, project_id, app_id, release_id, state, method, path, client_address, retries_max,
                          webhook_endpoint, webhook_secret_sealed, accepted_at, due_at, queued_at, lease_holder, lease_epoch,
                          lease_until)
        select id, project_id, app_id, release_id, case when is_held then 'queued' else 'pending' end, method,
               split_part(target, '?', 1), client_address, retries_max, webhook_endpoint, webhook_secret_sealed,
               clock_timestamp(), clock_timestamp(), case when is_held then clock_timestamp() end, case when is_held then ${this.#holder} end,
               is_held::int, case when is_held then ${this.#leaseEnd()} end
          from given
      )
      insert into run_requests (run_id, target, lines, body) 
      select id, target, lines, coalesce(body, (select body from large where large.id = given.id)) from given`.execute(
      tx,
    );
    const appsWithPending = new Set(runs.filter((run) => !run.isHeld).map((run) => run.appId));
    for (const appId of appsWithPending) await notify(tx, "runs", appId);
  }

  /**
   * Records that attempts are about to be sent, and extends the leases of their runs. The answer is
   * false for a run that must not be sent, since its lease is lost or somebody has cancelled it.
   * May be called again for the same attempt with another replica, if the first replica has
   * received nothing.
   */
  async start(starts: readonly RunStart[]): Promise<boolean[]> {
    // Only the first call for an attempt finds the run in state `queued`, so only it counts.
    const { rows } = await sql<Written>`
      update runs set state = 'running', replica_id = given.replica_id, started_at = clock_timestamp(),
             attempt = attempt + (state = 'queued')::int, starts = starts + (state = 'queued')::int, lease_until = ${this.#leaseEnd()},
             started_release_ids[starts + (state = 'queued')::int] = given.release_id
        from unnest(${starts.map((one) => one.runId)}::uuid[], ${starts.map((one) => one.epoch)}::bigint[],
                    ${starts.map((one) => one.replicaId)}::text[], ${starts.map((one) => one.releaseId)}::uuid[])
               as given (id, epoch, replica_id, release_id)
       where runs.id = given.id and ${this.#hasLease()} and state in ('queued', 'running')
         and cancel_requested_at is null
      returning runs.id, lease_epoch as epoch`.execute(this.#db);
    return answersFor(starts, rows);
  }

  /**
   * Ends runs, within `tx`. The answer is false for a run whose lease is lost: nothing was written
   * for that run.
   */
  async finish(ends: readonly RunEnd[], tx: Db): Promise<boolean[]> {
    const { rows } = await sql<Written>`
      update runs set state = given.state, status_code = given.status_code, reason = given.reason,
             ended_at = clock_timestamp(), lease_holder = null, lease_until = null,
             webhook_secret_sealed = case when given.state in ('failure', 'timeout') then webhook_secret_sealed end
        from unnest(${ends.map((one) => one.runId)}::uuid[], ${ends.map((one) => one.epoch)}::bigint[],
                    ${ends.map((one) => one.state)}::text[], ${ends.map((one) => one.statusCode)}::smallint[],
                    ${ends.map((one) => one.reason)}::text[])
             as given (id, epoch, state, status_code, reason)
       where runs.id = given.id and ${this.#hasLease()} and ${mayBecomeGiven}
      returning runs.id, lease_epoch as epoch`.execute(tx);
    const answers = answersFor(ends, rows);
    const ended = ends.filter((_, index) => answers[index]);
    await this.#keepResults(ended, tx);
    // A run that failed or timed out keeps its request and its secret, so that it can be redriven.
    const neverRedriven = ended
      .filter(({ state }) => state === "success" || state === "cancelled")
      .map(({ runId }) => runId);
    if (neverRedriven.length > 0)
      await tx.deleteFrom("run_requests").where("run_id", "in", neverRedriven).execute();
    return answers;
  }

  /**
   * Gives runs back for a later retry, or ends those that somebody has cancelled. The answer is
   * false for a run whose lease is lost.
   */
  async giveBack(returns: readonly RunReturn[]): Promise<boolean[]> {
    const { rows } = await sql<Written>`
      with given_back as (
      update runs set ${pendingOrCancelled({ statusCode: sql`given.status_code`, reason: sql`given.reason` })},
             due_at = clock_timestamp() + given.delay_ms * interval '1 millisecond', attempt = given.attempt
        from unnest(${returns.map((one) => one.runId)}::uuid[], ${returns.map((one) => one.epoch)}::bigint[],
                    ${returns.map((one) => one.delayMs)}::float8[], ${returns.map((one) => one.statusCode)}::smallint[],
                    ${returns.map((one) => one.reason)}::text[], ${returns.map((one) => one.attempt)}::smallint[])
             as given (id, epoch, delay_ms, status_code, reason, attempt)
       where runs.id = given.id and ${this.#hasLease()} and state in ('queued', 'running')
      returning runs.id, lease_epoch as epoch, state
      ), ${requestDeletion(sql`given_back`)}
      select id, epoch from given_back`.execute(this.#db);
    return answersFor(returns, rows);
  }

  /** Gives back runs that were claimed but not begun; they are due again after `delayMs`. */
  async putOff(held: readonly HeldRun[], delayMs: number): Promise<void> {
    await sql`
      update runs set state = 'pending', due_at = clock_timestamp() + ${delayMs} * interval '1 millisecond',
             lease_holder = null, lease_until = null
        from unnest(${held.map((one) => one.runId)}::uuid[], ${held.map((one) => one.epoch)}::bigint[]) as given (id, epoch)
       where runs.id = given.id and ${this.#hasLease()} and state = 'queued'`.execute(this.#db);
  }

  /** This platform's runs with a cancel request. */
  async cancelRequested(): Promise<RunId[]> {
    const rows = await this.#db
      .selectFrom("runs")
      .select("id")
      // This condition only lets the database use the index of held runs.
      .where("lease_until", "is not", null)
      .where("lease_holder", "=", this.#holder)
      .where("cancel_requested_at", "is not", null)
      .execute();
    return rows.map((row) => row.id);
  }

  /** Up to 1,000 apps with pending runs, each with the milliseconds until its first run is due. */
  async appsWithWork(): Promise<{ readonly appId: AppId; readonly dueInMs: number }[]> {
    // The recursion looks up one row per app in the index. Grouping would read all pending runs.
    const { rows } = await sql<{ app_id: AppId; due_in_ms: number }>`
      with recursive waiting as (
        (select app_id, due_at from runs where state = 'pending' order by app_id, due_at limit 1)
        union all
        select later.app_id, later.due_at from waiting, lateral (
          select app_id, due_at from runs where state = 'pending' and app_id > waiting.app_id
           order by app_id, due_at limit 1) as later
      )
      select app_id, extract(epoch from due_at - clock_timestamp()) * 1000 as due_in_ms from waiting
       limit ${appsMax}`.execute(this.#db);
    return rows.map((row) => ({ appId: row.app_id, dueInMs: Number(row.due_in_ms) }));
  }

  /**
   * Everything needed to process claimed runs. Omits a run whose lease was lost meanwhile, even if
   * this platform has claimed the run again since: whoever made the second claim begins the run,
   * and it must not begin twice.
   */
  async read(held: readonly HeldRun[]): Promise<OrphanRun[]> {
    const epochs = new Map(held.map(({ runId, epoch }) => [runId, epoch]));
    const rows = await this.#db
      .selectFrom("runs")
      .innerJoin("run_requests", "run_requests.run_id", "runs.id")
      .select([
        "runs.id as runId",
        "runs.lease_epoch as epoch",
        "runs.project_id as projectId",
        "runs.app_id as appId",
      ])
      .select(["runs.method", "runs.attempt", "runs.starts", "runs.retries_max as retriesMax"])
      .select([
        "runs.webhook_endpoint as webhookEndpoint",
        "runs.webhook_secret_sealed as webhookSecretSealed",
      ])
      .select(["runs.replica_id as replicaId", "runs.accepted_at", "runs.cancel_requested_at"])
      .select(
        // A run with a build is a file run: only the release of that build may execute it.
        sql<ReleaseId | null>`case when runs.build_id is not null then runs.release_id end`.as(
          "onlyReleaseId",
        ),
      )
      .select(["run_requests.target", "run_requests.lines", "run_requests.body"])
      .where("runs.id", "in", [...epochs.keys()])
      .where("lease_holder", "=", this.#holder)
      .execute();
    const ours = rows.filter(({ runId, epoch }) => epochs.get(runId) === epoch);
    return ours.map(({ accepted_at, cancel_requested_at, ...run }) => ({
      ...run,
      waitsSinceMs: accepted_at.getTime(),
      isCancelRequested: cancel_requested_at !== null,
    }));
  }

  /** The body sizes of runs, in bytes. */
  async bodyBytes(held: readonly HeldRun[]): Promise<Map<RunId, number>> {
    const rows = await this.#db
      .selectFrom("run_requests")
      .select(["run_id", (select) => select.fn<number>("octet_length", ["body"]).as("bytes")])
      .where(
        "run_id",
        "in",
        held.map(({ runId }) => runId),
      )
      .execute();
    return new Map(rows.map((row) => [row.run_id, row.bytes]));
  }

  /**
   * Finds up to `limit` queued runs whose lease has expired, since their platform is gone. Makes
   * each pending again, or cancelled if somebody has asked to cancel it. Returns the number of
   * these runs.
   */
  async reapQueued(limit: number): Promise<number> {
    const { rows } = await sql<{ app_id: AppId }>`
      with lost as (
        select id from runs where lease_until < lease_clock() and state = 'queued'
         order by lease_until limit ${limit} for update skip locked
      ), reaped as (
      update runs set ${pendingOrCancelled({ statusCode: sql`null`, reason: sql`null` })}, lease_epoch = lease_epoch + 1
        from lost where runs.id = lost.id returning runs.id, app_id, state
      ), ${requestDeletion(sql`reaped`)}
      select app_id from reaped`.execute(this.#db);
    return rows.length;
  }

  /**
   * The runs that run in this platform's name, such as those from before its restart, each with the
   * replica that it was sent to.
   */
  async leftRunning(): Promise<
    { readonly runId: RunId; readonly appId: AppId; readonly replicaId: ReplicaId }[]
  > {
    const rows = await this.#db
      .selectFrom("runs")
      .select(["id", "app_id", "replica_id"])
      .where("state", "=", "running")
      .where("lease_holder", "=", this.#holder)
      .execute();
    return rows.flatMap(({ id, app_id: appId, replica_id: replicaId }) =>
      replicaId === null ? [] : [{ runId: id, appId, replicaId }],
    );
  }

  /**
   * What is stored of a replica. `address` is null if the replica has stopped, or has no address
   * yet. `isReclaimed` is true if the replica ends, or has ended, because it was reclaimed.
   */
  async replicaOf(
    replicaId: ReplicaId,
  ): Promise<{ readonly address: Address | null; readonly isReclaimed: boolean }> {
    const row = await this.#db
      .selectFrom("replicas")
      .select(["address", "stopped_at", "end_kind"])
      .where("id", "=", replicaId)
      .executeTakeFirst();
    const address = row?.stopped_at === null ? row.address : null;
    return {
      address: address === null ? null : parseAddress(address),
      isReclaimed: row?.end_kind === "reclaimed",
    };
  }

  async #keepResults(ended: readonly RunEnd[], tx: Db): Promise<void> {
    const values = ended.flatMap(({ runId, result }) =>
      result === null ? [] : rowOfResult(runId, result),
    );
    if (values.length > 0) await tx.insertInto("run_results").values(values).execute();
  }

  /** The SQL condition that this platform still has the lease of the `given` run. */
  #hasLease(): RawBuilder<boolean> {
    return sql<boolean>`(lease_epoch = given.epoch and lease_holder = ${this.#holder})`;
  }

  /** The SQL expression for the end of a lease that begins, or is extended, now. */
  #leaseEnd(): RawBuilder<unknown> {
    return sql`clock_timestamp() + ${this.#leaseMs} * interval '1 millisecond'`;
  }
}

/**
 * Selects the app's runs that are due, for `Leases.claim`: the run that is due first comes first,
 * and each claimed run becomes queued.
 */
export function dueRunsOf(appId: AppId) {
  return {
    where: sql`app_id = ${appId} and state = 'pending' and due_at <= clock_timestamp()`,
    order: sql`due_at, id`,
    set: sql`state = 'queued', queued_at = clock_timestamp()`,
  };
}

/**
 * Selects the running runs, for `Leases.claim`, which takes those whose lease has expired: the run
 * whose lease expired first comes first.
 */
export const interruptedRuns = { where: sql`state = 'running'`, order: sql`lease_until` };

/** Whether `run-states.ts` allows the run to move from its state to the given final state. */
const mayBecomeGiven = sql<boolean>`(${sql.join(finalStates.map(isMoveTo), sql` or `)})`;

/** Whether the run is given the state `to`, and may move to it. */
function isMoveTo(to: FinalState): RawBuilder<unknown> {
  const statesBefore = sql.join(runStatesBefore(to).map((from) => sql.lit(from)));
  return sql`(given.state = ${sql.lit(to)} and runs.state in (${statesBefore}))`;
}

/**
 * The assignments for a run that loses its holder: the run becomes pending again, or cancelled if
 * somebody has asked to cancel it. `failure` tells how its latest attempt failed; where it is null,
 * the row keeps what it says.
 */
function pendingOrCancelled(
  failure: Readonly<Record<"statusCode" | "reason", RawBuilder<unknown>>>,
): RawBuilder<unknown> {
  const unlessCancelled = (
    value: RawBuilder<unknown>,
    valueIfCancelled: RawBuilder<unknown>,
  ): RawBuilder<unknown> =>
    sql`case when cancel_requested_at is null then ${value} else ${valueIfCancelled} end`;
  return sql`
    state = ${unlessCancelled(sql`'pending'`, sql`'cancelled'`)},
    ended_at = ${unlessCancelled(sql`null`, sql`clock_timestamp()`)},
    status_code = ${unlessCancelled(sql`coalesce(${failure.statusCode}, runs.status_code)`, sql`null`)},
    reason = ${unlessCancelled(sql`coalesce(${failure.reason}, runs.reason)`, sql`'It was cancelled.'`)},
    webhook_secret_sealed = ${unlessCancelled(sql`webhook_secret_sealed`, sql`null`)},
    lease_holder = null, lease_until = null`;
}

/**
 * A part of a `with` that deletes the requests of cancelled runs. `changed` is the part whose rows
 * have the runs that were changed.
 */
function requestDeletion(changed: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    deleted as (delete from run_requests using ${changed} as gone where run_id = gone.id and gone.state = 'cancelled')`;
}

function rowOfResult(runId: RunId, result: NonNullable<RunEnd["result"]>) {
  const { contentFields } = result;
  return {
    run_id: runId,
    status_code: result.status,
    content_type: result.contentType,
    content_fields: contentFields ? toJson(contentFields) : null,
    body: result.body,
    body_bytes: result.bodyBytes,
    created_at: sql<Date>`clock_timestamp()`,
  };
}

function hasLargeBody({ body }: NewRun): boolean {
  return body.length > largeBytes;
}

type Written = { readonly id: RunId; readonly epoch: number };

/**
 * Whether each run is among the written rows, in the order of `runs`. Compares epochs too: one
 * batch may contain a run twice, with an old and a new lease of this process.
 */
function answersFor(runs: readonly HeldRun[], rows: readonly Written[]): boolean[] {
  const written = new Set(rows.map(({ id, epoch }) => `${id} ${epoch}`));
  return runs.map(({ runId, epoch }) => written.has(`${runId} ${epoch}`));
}
