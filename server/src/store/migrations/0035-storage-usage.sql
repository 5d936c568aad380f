-- What volumes hold over time, for metering: a row for each time in which the volume of a project held the same.

create table volume_uses (
  id text primary key,
  project_id text not null references projects (id),
  -- Thousandths of a GB, of which usage is counted.
  size_mb bigint not null check (size_mb > 0),
  began_at timestamptz not null,
  -- When it was last counted: it held that up to here.
  seen_at timestamptz not null,
  -- Null: it holds that still, as far as is known.
  ended_at timestamptz,
  -- How far slices of usage have been made; never after seen_at or ended_at.
  metered_until timestamptz,
  is_metered boolean not null default false
);
create unique index volume_uses_open on volume_uses (project_id) where ended_at is null;
create index volume_uses_to_meter on volume_uses (project_id, id) where not is_metered;
create trigger live_project before insert on volume_uses for each row execute function require_live_project();

-- Of storage, memory_gb and gb_ms are what the volume held; it belongs to no app, so app_id is ''.
alter table usage_slices
  alter column memory_gb type numeric(12, 3),
  drop constraint usage_slices_kind_check,
  add check (kind in ('run', 'build', 'storage'));
alter table usage_days
  drop constraint usage_days_kind_check,
  add check (kind in ('run', 'build', 'storage'));
alter table usage_months
  drop constraint usage_months_kind_check,
  add check (kind in ('run', 'build', 'storage'));
alter table usage_project_days
  drop constraint usage_project_days_kind_check,
  add check (kind in ('run', 'build', 'storage'));
