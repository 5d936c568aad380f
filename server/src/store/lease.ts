// Rows as a queue: a worker claims a row for a lease time, renews the lease while it works, and
// then releases it. When a worker dies its lease expires and another may claim the row. Each claim
// raises the row's epoch, and every write names the epoch that the worker holds, so a worker that
// lost its lease can no longer change anything. For the times see database-time.ts.
import { sql, type RawBuilder } from "kysely";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import { changeOne, changeRows, type Db } from "./database.ts";
import type { Tables } from "./tables.ts";

/** Tables with the columns id, lease_holder, lease_epoch and lease_until. */
export type LeasedTable = {
  [Name in keyof Tables]: Tables[Name] extends { id: unknown; lease_epoch: unknown } ? Name : never;
}[keyof Tables];

type IdOf<Name extends LeasedTable> = Tables[Name] extends { id: infer Id } ? Id : never;

/** The right to work on one row. */
export type Lease<Name extends LeasedTable> = {
  readonly id: IdOf<Name>;
  readonly epoch: number;
  /** True when the previous worker's lease had expired. */
  readonly isTakenOver: boolean;
};

/** Why the signal of a kept lease is aborted: somebody else has the row, or may have it by now. */
class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** A lease that is renewed until `stop()`. */
export type KeptLease = {
  /** Aborted with `LeaseLost` when the work must end because somebody else may have the row. */
  readonly signal: AbortSignal;
  stop(): Promise<void>;
};

export type LeaseOptions<Name extends LeasedTable> = {
  readonly db: Db;
  readonly table: Name;
  /** The name of the claiming platform; unique among running platforms. */
  readonly holder: string;
  /** How long a lease lasts after it was claimed or renewed. */
  readonly leaseMs: number;
  readonly log: Log;
  readonly clock: Clock;
};

/** One holder's leases on the rows of one table. */
export class Leases<Name extends LeasedTable> {
  readonly #options: LeaseOptions<Name>;
  readonly #clock: Clock;

  constructor(options: LeaseOptions<Name>) {
    this.#options = options;
    this.#clock = options.clock;
  }

  /**
   * Claims up to `limit` unheld rows that match `where`, in `order`. Skips rows locked by other
   * transactions. `set` names further columns that change with the claim.
   */
  async claim(claim: {
    where: RawBuilder<unknown>;
    order: RawBuilder<unknown>;
    limit: number;
    set?: RawBuilder<unknown>;
  }): Promise<Lease<Name>[]> {
    const { db, table, holder, leaseMs } = this.#options;
    const furtherColumns = claim.set === undefined ? sql`` : sql`, ${claim.set}`;
    const { rows } = await sql<{ id: IdOf<Name>; epoch: number; taken: boolean }>`
      with free as (
        select id, lease_holder is not null as taken from ${sql.table(table)}
         where (${claim.where}) and (lease_until is null or lease_until < lease_clock())
         order by ${claim.order} limit ${claim.limit} for update skip locked
      )
      update ${sql.table(table)} as claimed
         set lease_holder = ${holder}, lease_epoch = lease_epoch + 1, lease_until = ${untilTime(leaseMs)}${furtherColumns}
        from free where claimed.id = free.id
      returning claimed.id as id, claimed.lease_epoch as epoch, free.taken as taken`.execute(db);
    return rows.map(({ id, epoch, taken }) => ({ id, epoch, isTakenOver: taken }));
  }

  /**
   * A condition for the worker's updates: true only while it holds the row. Use it in every update,
   * and check the row count.
   */
  held(lease: Lease<Name>): RawBuilder<boolean> {
    const { holder } = this.#options;
    return sql<boolean>`(id = ${lease.id} and lease_epoch = ${lease.epoch} and lease_holder = ${holder})`;
  }

  /**
   * Extends the lease from now; false when somebody else has it. An expired lease that nobody took
   * is also extended.
   */
  async renew(lease: Lease<Name>): Promise<boolean> {
    const { db, table, leaseMs } = this.#options;
    return await changeOne(db)`
      update ${sql.table(table)} set lease_until = ${untilTime(leaseMs)} where ${this.held(lease)}`;
  }

  /**
   * Extends many leases at once; returns those that this holder still has. Skips rows that a
   * transaction has locked, since waiting could deadlock with a transaction that ends several of
   * them: such leases are extended next time.
   */
  async renewAll(leases: readonly Lease<Name>[]): Promise<Set<IdOf<Name>>> {
    const { db, table, holder, leaseMs } = this.#options;
    const ids = leases.map((lease) => String(lease.id));
    const epochs = leases.map((lease) => lease.epoch);
    const isHeld = sql`known.id = given.id and known.lease_epoch = given.epoch and known.lease_holder = ${holder}`;
    const { rows } = await sql<{ id: IdOf<Name> }>`
      with given as (
        select id, epoch from unnest(${ids}::uuid[], ${epochs}::bigint[]) as given (id, epoch)
      ), free as (
        select known.id from ${sql.table(table)} as known, given where ${isHeld} for no key update of known skip locked
      ), renewed as (
        update ${sql.table(table)} as extended set lease_until = ${untilTime(leaseMs)} from free where extended.id = free.id
      )
      select known.id from ${sql.table(table)} as known, given where ${isHeld}`.execute(db);
    return new Set(rows.map((row) => row.id));
  }

  /** Releases the lease, in `tx` if given; false when the lease was already lost. */
  async release(lease: Lease<Name>, tx: Db = this.#options.db): Promise<boolean> {
    return await changeOne(tx)`
      update ${sql.table(this.#options.table)} set lease_holder = null, lease_until = null
       where ${this.held(lease)}`;
  }

  /**
   * Ends the leases that an earlier process held under this holder's name, so that nobody waits for
   * them. Call it only for a holder whose name is certainly unique. Returns the number of leases
   * that it ended.
   */
  async endEarlier(): Promise<number> {
    const { db, table, holder } = this.#options;
    return await changeRows(db)`
      update ${sql.table(table)} set lease_until = lease_clock() - interval '1 microsecond'
       where lease_holder = ${holder} and lease_until >= lease_clock()`;
  }

  /**
   * Clears up to `limit` expired leases, oldest first, so that nobody holds the rows; returns the
   * rows' ids.
   */
  async reap(limit: number): Promise<IdOf<Name>[]> {
    const { db, table } = this.#options;
    const { rows } = await sql<{ id: IdOf<Name> }>`
      with lost as (
        select id from ${sql.table(table)} where lease_until < lease_clock()
         order by lease_until limit ${limit} for update skip locked
      )
      update ${sql.table(table)} as reaped
         set lease_holder = null, lease_until = null, lease_epoch = lease_epoch + 1
        from lost where reaped.id = lost.id returning reaped.id as id`.execute(db);
    return rows.map((row) => row.id);
  }

  /** Extends the lease four times per lease time until `stop()`, which does not release it. */
  keep(lease: Lease<Name>): KeptLease {
    const lost = new AbortController();
    const stopping = new AbortController();
    const running = this.#keepRenewing(lease, { lost, stopping: stopping.signal });
    return {
      signal: lost.signal,
      async stop() {
        stopping.abort(new Error("the work is done"));
        await running;
      },
    };
  }

  async #keepRenewing(
    lease: Lease<Name>,
    control: { lost: AbortController; stopping: AbortSignal },
  ): Promise<void> {
    const { leaseMs, log, table } = this.#options;
    // The last quarter of the time is left for the worker to end its work.
    const quarterMs = leaseMs / 4;
    const renewableMs = leaseMs - quarterMs;
    let endMs = this.#clock.monotonicMs() + renewableMs;
    const remainingMs = (): number => endMs - this.#clock.monotonicMs();
    // A timer has whole milliseconds, so there is no pause of less than one.
    while (remainingMs() > 1) {
      const pauseMs = Math.min(quarterMs, remainingMs());
      const dueMs = this.#clock.monotonicMs() + pauseMs;
      if (!(await this.#pause(pauseMs, control.stopping))) return;
      const requestedMs = this.#clock.monotonicMs();
      // The pause took much longer than planned if the process stood still, together with its work.
      // It then tries once more: perhaps nobody has taken the row meanwhile.
      const lateMs = requestedMs - dueMs;
      if (lateMs > quarterMs / 2) endMs = Math.max(endMs, requestedMs + quarterMs);
      // The database may take longer than the lease lasts; its answer is then useless.
      const answerWaitMs = Math.max(0, remainingMs());
      try {
        const isHeld = await withDeadline(this.#clock, answerWaitMs, this.renew(lease));
        // A lost lease ends the loop: `requestedMs` has passed.
        endMs = isHeld ? requestedMs + renewableMs : requestedMs;
      } catch (error) {
        log.warn({ err: error, table, id: lease.id }, "a lease could not be extended");
      }
    }
    if (!control.stopping.aborted)
      control.lost.abort(new LeaseLost(`the lease of ${table} ${String(lease.id)} was lost`));
  }

  /** Sleeps for a time; false when stopped meanwhile. */
  async #pause(ms: number, signal: AbortSignal): Promise<boolean> {
    await this.#clock.sleep(ms, signal).catch(() => undefined);
    return !signal.aborted;
  }
}

function untilTime(leaseMs: number): RawBuilder<unknown> {
  return sql`clock_timestamp() + ${leaseMs} * interval '1 millisecond'`;
}
