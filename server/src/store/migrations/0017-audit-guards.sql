-- What a second look at the audit log found: checkpoints are of links that there are, trigger functions mean the tables of
-- this schema whatever a session has made or set, and what a withdrawn key has signed can be told from what it has not.

-- Its public half, sealed: only the platform can have written it. Null for keys that were withdrawn before.
alter table signing_keys add column withdrawn_public_sealed text;

-- A checkpoint of a place that the chain has not come to would keep all others from being made. What another platform or
-- retention was faster with is left out.
create function check_audit_checkpoint() returns trigger language plpgsql as $$
begin
  if new.number <= (select number from audit_stubs where chain = new.chain)
     or new.previous is distinct from coalesce((select max(number) from audit_checkpoints where chain = new.chain), 0) then
    return null;
  end if;
  if not exists (select from audit_links where chain = new.chain and number = new.number and hash = new.hash) then
    raise exception 'the chain % has no such entry %', new.chain, new.number using errcode = 'integrity_constraint_violation';
  end if;
  return new;
end $$;
create trigger audit_checkpoints_check before insert on audit_checkpoints
  for each row execute function check_audit_checkpoint();

do $$
declare
  guard regprocedure;
begin
  for guard in
    select oid::regprocedure from pg_proc
     where pronamespace = current_schema()::regnamespace and prorettype = 'trigger'::regtype
       and proconfig is null and proname <> 'refuse_change'
  loop
    execute format('alter function %s set search_path = %I, pg_temp', guard, current_schema());
  end loop;
end $$;
