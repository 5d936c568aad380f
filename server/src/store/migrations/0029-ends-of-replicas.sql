-- Why the platform ends a replica that drains (its reason is `reason`), and until when its calls may go on, for a platform that
-- starts again meanwhile.

alter table replicas
  -- Null: the platform does not end it, or an earlier version does.
  add column end_kind text check (end_kind in ('wanted', 'timeout', 'unhealthy', 'stuck', 'reclaimed')),
  add column grace_ends_at timestamptz;
