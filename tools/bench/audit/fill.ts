// Fills an audit log with millions of entries of many projects in minutes, chained as the database
// chains them: in large statements, without triggers, and with indexes built at the end. Entries
// are in time order, with those of all projects interleaved, as on a real platform.
import type { Client } from "pg";
import { actionTable } from "@slipway/contract/words.ts";

export type Fill = { readonly projects: readonly string[]; readonly rows: number };

/** The batch size of one statement on one connection, which must fit into its memory. */
const rowsAtOnce = 100_000;
/** The entries cover this many days before now. */
const days = 350;

/**
 * Creates projects and drops the indexes that `finishFill` builds again; returns their definitions.
 */
export async function prepareFill(client: Client, { projects }: Fill): Promise<string[]> {
  await client.query(
    "insert into projects (id, name) select id, id from unnest($1::text[]) as id",
    [projects],
  );
  await client.query("insert into audit_chains select unnest($1::text[])", [projects]);
  await client.query(`
    create function bench_step(previous bytea, link bytea, begin bytea) returns bytea
      language plpgsql immutable as 'begin return sha256(coalesce(previous, begin) || link); end';
    create aggregate bench_chain(link bytea, begin bytea) (sfunc = bench_step, stype = bytea);
    create unlogged table bench_heads (chain text primary key, number bigint not null, hash bytea not null);`);
  await client.query(
    "insert into bench_heads select unnest($1::text[]), 0, decode(repeat('00', 32), 'hex')",
    [projects],
  );
  const { rows } = await client.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
      where indrelid = 'audit_log'::regclass and not indisprimary`,
  );
  for (const { name } of rows) await client.query(`drop index ${name}`);
  return rows.map(({ definition }) => definition);
}

/**
 * Adds the entries of some projects; several connections may do so concurrently. `after`: called
 * after each statement.
 */
export async function fillProjects(
  client: Client,
  given: Fill,
  after: () => Promise<void>,
): Promise<void> {
  // Disables triggers and foreign keys.
  await client.query(
    "set session_replication_role = replica; set synchronous_commit = off; set work_mem = '256MB'",
  );
  const { projects, rows } = given;
  for (let done = 0; done < rows; done += rowsAtOnce) {
    const last = Math.min(rows, done + rowsAtOnce);
    await client.query(fillStatement, [
      projects,
      Object.keys(actionTable),
      done,
      last,
      (days * 86_400) / rows,
    ]);
    await after();
  }
}

/**
 * $1: projects; $2: actions, frequent ones first; $3, $4: exclusive first and inclusive last row;
 * $5: seconds between rows.
 */
const fillStatement = `
  with made as (
    insert into audit_log (project_id, at, action, outcome, actor_type, actor_id, actor_name, resource_type, resource_id,
                           resource_name, request_id, address, user_agent, changes, reason)
    select project, now() - interval '${days} days' + i * $5::float8 * interval '1 second',
           ($2::text[])[1 + floor(power(random(), 3) * cardinality($2::text[]))::int],
           case when is_failure then 'failure' else 'success' end,
           case when actor % 4 = 0 then 'person' else 'service_account' end,
           md5(project || actor), 'actor ' || actor, 'app', project || '-app-' || i % 20, 'app-' || i % 20,
           gen_random_uuid()::text, '10.0.' || actor || '.7', 'slipway/0.1.0 (linux x64)',
           case when i % 3 > 0 then jsonb_build_object(
             'cpu', jsonb_build_object('old', i % 8, 'new', (i % 16)::float8 / 2),
             'description', jsonb_build_object('old', null, 'new', 'of row ' || i)) end,
           case when is_failure then 'The token lacks the permission for this.' end
      from (select i, ($1::text[])[1 + i % cardinality($1::text[])] as project,
                   floor(power(random(), 2) * 200)::int as actor, random() < 0.03 as is_failure
              from generate_series($3::int + 1, $4::int) as i) as chosen
     order by i
    returning audit_log as entry, id, project_id),
  numbered as (
    select made.*, head.hash as begin,
           head.number + row_number() over (partition by project_id order by id) as number
      from made join bench_heads as head on head.chain = project_id),
  links as (
    select project_id as chain, number, id,
           bench_chain(convert_to(audit_link_text(entry, number), 'UTF8'), begin)
             over (partition by project_id order by number) as hash
      from numbered),
  stored as (
    insert into audit_links (chain, number, entry_id, hash) select * from links order by id returning chain, number, hash)
  update bench_heads as head set number = last.number, hash = last.hash
    from (select distinct on (chain) * from stored order by chain, number desc) as last
   where last.chain = head.chain`;

/** Builds the indexes. */
export async function finishFill(client: Client, definitions: readonly string[]): Promise<void> {
  await client.query("set maintenance_work_mem = '1GB'; set max_parallel_maintenance_workers = 2");
  for (const definition of definitions) await client.query(definition);
  await client.query("drop table bench_heads; drop aggregate bench_chain(bytea, bytea)");
  await client.query("drop function bench_step");
  await client.query("vacuum analyze audit_log, audit_links, audit_checkpoints");
  await client.query("checkpoint");
}
