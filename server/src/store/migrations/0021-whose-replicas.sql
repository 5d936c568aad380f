-- Whose replica a row tells of, and what the scheduler knows of apps beyond the end of its process.

-- Platforms on their data folders, by the id in that folder. One at a time holds the lock on the database.
create table instances (
  id text primary key,
  host text not null,
  pid integer not null,
  data_dir text not null,
  -- The process id of the database's side of the connection that holds, or held, the lock.
  connection_pid integer not null,
  locked_at timestamptz not null
);

alter table replicas
  -- Null: from before instances were noted, or of one that was removed; the next start of a platform takes it over.
  add column instance_id text references instances (id) on delete set null,
  add column is_trial boolean not null default false;

-- What the scheduler has found out about an app that scales or fails to start; others have no row.
create table app_scaling (
  app_id text primary key references apps (id),
  -- How many replicas were recommended, and until when, highest first; the last one still is.
  counts integer[] not null,
  held_until timestamptz[] not null,
  -- Failed starts of late, of this release.
  release_id uuid,
  failures integer,
  failed_at timestamptz,
  retry_at timestamptz,
  reason text,
  is_shown boolean,
  constraint app_scaling_counts check (cardinality(counts) = cardinality(held_until)),
  constraint app_scaling_failures check (num_nulls(release_id, failures, failed_at, retry_at, reason, is_shown) in (0, 6))
);
