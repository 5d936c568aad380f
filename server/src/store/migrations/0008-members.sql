-- Projects that end, and invitations to those that have not.

-- The row of a deleted project stays: the audit log, runs and the ledger name it for as long as they are kept.
alter table projects add column deleted_at timestamptz;

create index members_by_person on members (person_id);

-- A row is there until it is accepted or withdrawn, or its project is deleted.
create table invitations (
  id uuid primary key,
  project_id text not null references projects,
  email text not null check (email = lower(email)),
  role text not null check (role in ('owner', 'admin', 'member', 'billing')),
  -- SHA-256 of the secret of its link; the secret itself is random and kept nowhere.
  secret_hash bytea not null unique check (length(secret_hash) = 32),
  -- Who made it: the name, as people and tokens end.
  invited_by text,
  created_at timestamptz not null,
  expires_at timestamptz not null check (expires_at > created_at),
  -- Whoever is invited again gets a new link, and the old one ends.
  unique (project_id, email)
);

-- Whatever gives access to a project, or keeps one from being deleted, can only be added to one that is there. The lock
-- waits for a deletion that is under way, and a deletion for whoever holds it: a foreign key alone would let both through.
create function require_live_project() returns trigger language plpgsql as $$
begin
  perform from projects where id = new.project_id and deleted_at is null for key share;
  if not found then
    raise exception 'the project % is deleted or was never there', new.project_id
      using errcode = 'foreign_key_violation', constraint = 'live_project';
  end if;
  return new;
end $$;

create trigger live_project before insert on members for each row execute function require_live_project();
create trigger live_project before insert on invitations for each row execute function require_live_project();
create trigger live_project before insert on apps for each row execute function require_live_project();
create trigger live_project before insert on tokens for each row
  when (new.project_id is not null) execute function require_live_project();
