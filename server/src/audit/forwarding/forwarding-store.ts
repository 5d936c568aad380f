// Rows of forwardings: where entries are sent, and up to which number each receiver has them. A
// sender holds the row's lease, and each of its writes names the lease.
import { sql, type RawBuilder, type Selectable } from "kysely";
import type { ProjectId } from "#lib/ids.ts";
import { changeOne, readRow, readRows, type Db, type Tx } from "#store/database.ts";
import type { Tables } from "#store/tables.ts";

/** A forwarding's id: a UUID. */
export type ForwardingId = string;

/**
 * A row without its lease. `url` null: the operator's settings have the URL. `position` is the
 * number up to which the receiver has the entries; `sending_through` is the last number of the
 * batch that is being sent, or null.
 */
export type ForwardingRow = Readonly<
  Omit<Selectable<Tables["audit_forwardings"]>, "lease_holder" | "lease_epoch" | "lease_until">
>;

/** A condition that selects the row only while its lease is held; see `store/lease.ts`. */
export type Held = RawBuilder<boolean>;

const columns = sql`
  id, scope, chain, url, secret_sealed, created_at, position, sending_through, failures, failing_since, due_at,
  paused_at, reason, delivered_at`;

/**
 * The forwarding of a project, undefined when it has none. With `lock`, locks the row until the
 * transaction ends.
 */
export async function readProjectForwarding(
  db: Db,
  projectId: ProjectId,
  options: { readonly lock?: boolean } = {},
): Promise<ForwardingRow | undefined> {
  const lock = options.lock === true ? sql`for update` : sql``;
  return await readRow<ForwardingRow>(db)`
    select ${columns} from audit_forwardings where scope = 'project' and chain = ${projectId} ${lock}`;
}

/**
 * Selects the forwardings of one scope that are due and have entries to send, for `Leases.claim`.
 * Those that have waited longest come first.
 */
export function dueForwardings(scope: ForwardingRow["scope"]) {
  return {
    where: sql`
      scope = ${scope} and paused_at is null and due_at <= clock_timestamp()
      and exists (select from audit_links as link
                   where link.chain = audit_forwardings.chain and link.number > audit_forwardings.position)`,
    order: sql`coalesce(delivered_at, created_at), id`,
  };
}

/** The forwardings with these ids. No locks. */
export async function readForwardings(
  db: Db,
  ids: readonly ForwardingId[],
): Promise<ForwardingRow[]> {
  return await readRows<ForwardingRow>(db)`
    select ${columns} from audit_forwardings where id = any(${[...ids]}::uuid[])`;
}

/** Adds a project's forwarding. It sends the entries after `position`. */
export async function insertProjectForwarding(
  tx: Tx,
  row: Pick<ForwardingRow, "id" | "chain" | "url" | "secret_sealed" | "position">,
): Promise<void> {
  await tx
    .insertInto("audit_forwardings")
    .values({ ...row, scope: "project", due_at: sql<Date>`clock_timestamp()` })
    .execute();
}

/**
 * Changes the receiver of a project's forwarding, or resumes it after a pause. A current sender
 * loses the lease, so that its writes no longer count.
 */
export async function changeProjectForwarding(
  tx: Tx,
  { id, url, secret_sealed: sealed }: Pick<ForwardingRow, "id" | "url" | "secret_sealed">,
): Promise<void> {
  await sql`
    update audit_forwardings
       set url = ${url}, secret_sealed = ${sealed}, sending_through = null, failures = 0, failing_since = null,
           due_at = clock_timestamp(), paused_at = null, reason = null,
           lease_holder = null, lease_until = null, lease_epoch = lease_epoch + 1
     where id = ${id}`.execute(tx);
}

/** Removes a project's forwarding; false when it had none. */
export async function deleteProjectForwarding(tx: Tx, projectId: ProjectId): Promise<boolean> {
  return await changeOne(tx)`
    delete from audit_forwardings where scope = 'project' and chain = ${projectId}`;
}

/** Records which batch is sent from now on; false when the lease is lost. */
export async function beginBatch(db: Db, held: Held, through: number): Promise<boolean> {
  return await changeOne(
    db,
  )`update audit_forwardings set sending_through = ${through} where ${held}`;
}

/** Records that the receiver has all entries up to `through`; false when the lease is lost. */
export async function endBatch(db: Db, held: Held, through: number): Promise<boolean> {
  return await changeOne(db)`
    update audit_forwardings
       set position = ${through}, sending_through = null, failures = 0, failing_since = null, reason = null,
           delivered_at = clock_timestamp()
     where ${held}`;
}

/** Schedules the batch for a retry and ends the lease. False when the lease was lost. */
export async function postpone(
  db: Db,
  held: Held,
  { waitMs, reason }: { readonly waitMs: number; readonly reason: string },
): Promise<boolean> {
  return await changeOne(db)`
    update audit_forwardings
       set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()), reason = ${reason},
           due_at = clock_timestamp() + ${waitMs} * interval '1 millisecond', lease_holder = null, lease_until = null
     where ${held}`;
}

/**
 * Stops sending until the forwarding is set again, and ends the lease. False when the lease was
 * lost.
 */
export async function pause(tx: Tx, held: Held, reason: string): Promise<boolean> {
  return await changeOne(tx)`
    update audit_forwardings
       set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()), reason = ${reason},
           paused_at = clock_timestamp(), lease_holder = null, lease_until = null
     where ${held}`;
}

/**
 * Skips the entries to send next, which retention has removed. False when the lease is lost.
 */
export async function skipRemoved(db: Db, held: Held): Promise<boolean> {
  return await changeOne(db)`
    update audit_forwardings as stuck
       set position = greatest(position, (select number from audit_stubs where chain = stuck.chain)), sending_through = null
     where ${held}`;
}

/**
 * Adds a forwarding to the operator's receiver for each chain without one. Chains that are older
 * than the receiver start at their present end, later chains at their first entry. Waits for no
 * locks.
 */
export async function followChains(db: Db): Promise<void> {
  await sql`
    insert into audit_forwardings (id, scope, chain, due_at, position)
    select gen_random_uuid(), 'platform', chain, clock_timestamp(),
           case when exists (select from audit_forwardings where scope = 'platform') then 0
                else coalesce((select max(number) from audit_links where audit_links.chain = audit_chains.chain),
                              (select number from audit_stubs where audit_stubs.chain = audit_chains.chain), 0) end
      from audit_chains
     where not exists (
           select from audit_forwardings as known where known.scope = 'platform' and known.chain = audit_chains.chain)
        on conflict do nothing`.execute(db);
}

/** Removes the forwardings to the operator's receiver, so that a later receiver starts afresh. */
export async function forgetChains(db: Db): Promise<void> {
  await db.deleteFrom("audit_forwardings").where("scope", "=", "platform").execute();
}

/** Removes the forwardings of deleted projects once they have sent everything or are paused. */
export async function forgetDeletedProjects(db: Db): Promise<void> {
  await sql`
    delete from audit_forwardings as known using projects
     where known.scope = 'project' and projects.id = known.chain and projects.deleted_at is not null
       and known.lease_holder is null
       and (known.paused_at is not null or not exists (
           select from audit_links as link where link.chain = known.chain and link.number > known.position))`.execute(
    db,
  );
}
