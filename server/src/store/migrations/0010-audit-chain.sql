-- The audit log's hash chain: each entry becomes a link of its project's chain when its transaction commits, and nothing
-- of it is ever changed. Retention removes the oldest links and leaves a signed stub. See docs/decisions/0019.

-- Each chain that there is. `chain`: the project's id, or 'platform' for entries of no project.
create table audit_chains (
  chain text primary key
);

create table audit_links (
  chain text not null,
  -- From 1 on, without gaps.
  number bigint not null,
  entry_id bigint not null unique,
  hash bytea not null check (length(hash) = 32),
  primary key (chain, number)
);

-- What the platform signed when a chain had reached a number.
create table audit_checkpoints (
  chain text not null,
  number bigint not null,
  hash bytea not null check (length(hash) = 32),
  -- The number of the checkpoint before it, or 0: none can be taken out unnoticed.
  previous bigint not null,
  -- To the millisecond.
  at timestamptz not null,
  key_id text not null,
  jws text not null,
  primary key (chain, number),
  unique (chain, previous),
  check (previous >= 0 and previous < number)
);

-- The last link that retention removed from a chain, signed.
create table audit_stubs (
  chain text primary key,
  number bigint not null,
  hash bytea not null check (length(hash) = 32),
  -- All that was removed is older.
  before timestamptz not null,
  at timestamptz not null,
  key_id text not null,
  jws text not null
);

-- The text of a link that is hashed: all that readers see of an entry. server/src/audit/export-format.ts has the same.
create function audit_link_text(entry audit_log, number bigint) returns text language sql stable as $$
  select jsonb_build_object(
    'project', entry.project_id,
    'number', number,
    'entry', jsonb_build_object(
      'id', entry.id::text,
      'timestamp', to_char(entry.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
      'action', entry.action,
      'actor', jsonb_build_object('type', entry.actor_type, 'id', entry.actor_id, 'name', entry.actor_name),
      'outcome', entry.outcome,
      'resource', case when entry.resource_type is not null then jsonb_build_object(
        'type', entry.resource_type, 'id', nullif(entry.resource_id, ''), 'name', entry.resource_name) end,
      'requestId', entry.request_id,
      'address', entry.address,
      'userAgent', entry.user_agent,
      'changes', entry.changes,
      'reason', entry.reason
    )
  )::text
$$;

create function audit_link_hash(previous bytea, entry audit_log, number bigint) returns bytea language sql stable as $$
  select sha256(previous || convert_to(audit_link_text(entry, number), 'UTF8'))
$$;

-- Remembers the chains that a transaction adds to, so that it locks them in one order: two transactions with entries of
-- the same projects cannot wait for each other. The condition does it by itself, which costs less than calling a function;
-- it is never true.
create trigger audit_log_note before insert on audit_log for each row
  when (case when strpos(coalesce(current_setting('slipway.audit_chains', true), ''),
                         ' ' || coalesce(new.project_id, 'platform') || ' ') = 0
             then set_config('slipway.audit_chains',
                             coalesce(nullif(current_setting('slipway.audit_chains', true), ''), ' ')
                             || coalesce(new.project_id, 'platform') || ' ', true) is null
             else false end)
  execute function refuse_change();

-- Runs at the end of the transaction: the lock on a chain is the last that is taken, and is held for the commit only. It
-- runs with the rights of who made the tables, since the platform's own connections may not write here.
create function link_audit_entry() returns trigger language plpgsql security definer as $$
declare
  chain_name text := coalesce(new.project_id, 'platform');
  chains text := current_setting('slipway.audit_chains', true);
  lock_key bigint;
  locked text;
  last audit_stubs;
begin
  if chains = ' ' || chain_name || ' ' then
    locked := pg_advisory_xact_lock(hashtextextended(chain_name, 0))::text;
  elsif current_setting('slipway.audit_chains_locked', true) is distinct from chains then
    for lock_key in select hashtextextended(name, 0) from string_to_table(trim(chains), ' ') as name order by 1 loop
      perform pg_advisory_xact_lock(lock_key);
    end loop;
    perform set_config('slipway.audit_chains_locked', chains, true);
  end if;
  -- A statement of its own: it sees what the one that held the lock before has committed.
  insert into audit_links (chain, number, entry_id, hash)
  select chain_name, number + 1, new.id, audit_link_hash(hash, new, number + 1)
    from audit_links where chain = chain_name order by number desc limit 1;
  if not found then
    select * into last from audit_stubs where chain = chain_name;
    if not found then
      insert into audit_chains (chain) values (chain_name);
      last.number := 0;
      last.hash := decode(repeat('00', 32), 'hex');
    end if;
    insert into audit_links (chain, number, entry_id, hash)
    values (chain_name, last.number + 1, new.id, audit_link_hash(last.hash, new, last.number + 1));
  end if;
  return null;
end $$;
create constraint trigger audit_log_link after insert on audit_log
  deferrable initially deferred for each row execute function link_audit_entry();

-- Entries of before: in the order of time. Making the triggers has locked out whoever would add some now.
create aggregate audit_chain_hash(entry audit_log, number bigint) (
  sfunc = audit_link_hash, stype = bytea,
  initcond = '\x0000000000000000000000000000000000000000000000000000000000000000'
);
insert into audit_links (chain, number, entry_id, hash)
select chain, number, (entry).id, audit_chain_hash(entry, number) over (partition by chain order by number)
  from (select coalesce(project_id, 'platform') as chain,
               row_number() over (partition by project_id order by at, id) as number,
               audit_log as entry
          from audit_log) as old;
drop aggregate audit_chain_hash(audit_log, bigint);
insert into audit_chains (chain) select distinct chain from audit_links;

-- Nothing is changed, and only what a stub covers is removed, whoever asks for it.
create trigger audit_log_stay before update or truncate on audit_log
  for each statement execute function refuse_change();
create trigger audit_links_stay before update or truncate on audit_links
  for each statement execute function refuse_change();
create trigger audit_checkpoints_stay before update or truncate on audit_checkpoints
  for each statement execute function refuse_change();
create trigger audit_chains_stay before update or delete or truncate on audit_chains
  for each statement execute function refuse_change();
create trigger audit_stubs_stay before delete or truncate on audit_stubs
  for each statement execute function refuse_change();
create trigger audit_stubs_grow before update on audit_stubs for each row
  when (new.chain <> old.chain or new.number <= old.number) execute function refuse_change();

create function keep_audit_entries() returns trigger language plpgsql as $$
begin
  if exists (select from gone where not exists (
       select from audit_links link join audit_stubs stub on stub.chain = link.chain and link.number <= stub.number
        where link.entry_id = gone.id)) then
    raise exception 'entries of the audit log are removed by retention only' using errcode = 'integrity_constraint_violation';
  end if;
  return null;
end $$;
create trigger audit_log_keep after delete on audit_log referencing old table as gone
  for each statement execute function keep_audit_entries();

create function keep_audit_chain() returns trigger language plpgsql as $$
begin
  if exists (select from gone where not exists (
       select from audit_stubs stub where stub.chain = gone.chain and gone.number <= stub.number)) then
    raise exception 'rows of % are removed by retention only', tg_table_name using errcode = 'integrity_constraint_violation';
  end if;
  return null;
end $$;
create trigger audit_links_keep after delete on audit_links referencing old table as gone
  for each statement execute function keep_audit_chain();
create trigger audit_checkpoints_keep after delete on audit_checkpoints referencing old table as gone
  for each statement execute function keep_audit_chain();

-- Removes the entries of a chain up to the link `through`, which must all be older than `before`, and that older than a
-- day; leaves the stub. Returns how many there were: 0 when they were removed already.
create function remove_audit_entries(
  chain_name text, through bigint, older_than timestamptz, removed_at timestamptz, signed_with text, signature text
) returns integer language plpgsql security definer as $$
declare
  last_hash bytea;
  removed integer;
begin
  select hash into last_hash from audit_links where chain = chain_name and number = through;
  if not found then
    return 0;
  end if;
  if older_than > now() - interval '23 hours' or exists (
       select from audit_links link join audit_log entry on entry.id = link.entry_id
        where link.chain = chain_name and link.number <= through and entry.at >= older_than) then
    raise exception 'entries up to % of % are too young to be removed', through, chain_name
      using errcode = 'integrity_constraint_violation';
  end if;
  -- Who does the same at the same time waits here, and then finds it done.
  insert into audit_stubs as stub (chain, number, hash, before, at, key_id, jws)
  values (chain_name, through, last_hash, older_than, removed_at, signed_with, signature)
      on conflict (chain) do update
     set number = excluded.number, hash = excluded.hash, before = excluded.before, at = excluded.at,
         key_id = excluded.key_id, jws = excluded.jws
   where stub.number < excluded.number;
  if not found then
    return 0;
  end if;
  delete from audit_log where id in (select entry_id from audit_links where chain = chain_name and number <= through);
  get diagnostics removed = row_count;
  delete from audit_checkpoints where chain = chain_name and number <= through;
  delete from audit_links where chain = chain_name and number <= through;
  return removed;
end $$;
revoke execute on function remove_audit_entries from public;

-- Names in functions that run with the rights of their maker are those of this schema, whatever a session sets.
do $$
begin
  execute format('alter function link_audit_entry() set search_path = %I, pg_temp', current_schema());
  execute format('alter function remove_audit_entries set search_path = %I, pg_temp', current_schema());
end $$;
