-- The name of a deleted app is free at once, while its rows are still being removed: the next app of the name gets another id,
-- its own with `~2` and so on. What callers see is always `{project_id}-{name}`.

alter table apps
  -- Nothing is left of the deleted app but this row, which keeps its id for another day: so long it is not given again.
  add column removed_at timestamptz,
  drop constraint apps_project_id_name_key,
  drop constraint apps_check,
  add constraint apps_id check (id = project_id || '-' || name or id ~ ('^' || project_id || '-' || name || '~[0-9]+$')),
  add constraint apps_removed check (removed_at is null or deleting_at is not null);
create unique index apps_by_name on apps (project_id, name) where deleting_at is null;
create index apps_deleting on apps (deleting_at) where deleting_at is not null;
