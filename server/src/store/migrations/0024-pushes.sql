-- Pushes: the hook address of an app, what arrived there or was found by polling, and the newest commits of branches.

create table git_hooks (
  app_id text primary key references apps (id) on delete cascade,
  -- The part of the address that nobody can guess.
  address text not null unique,
  secret_sealed text not null,
  created_at timestamptz not null default clock_timestamp(),
  rotated_at timestamptz,
  -- When the last delivery with a right signature arrived; null: none yet, so that the branch is polled.
  received_at timestamptz
);

create table git_heads (
  app_id text primary key references apps (id) on delete cascade,
  branch text not null,
  -- The newest commit of the branch that was judged.
  seen_sha text not null,
  -- The newest one whose files in the app's folder are those of the app's latest build.
  same_sha text
);

create table git_deliveries (
  id uuid primary key,
  number bigint generated always as identity unique,
  app_id text not null references apps (id) on delete cascade,
  -- Null: found by polling.
  host text check (host in ('github', 'gitea', 'gitlab', 'bitbucket')),
  event text not null,
  -- The host's id of it; null: refused, found by polling, or a replay.
  delivery_key text,
  replay_of uuid,
  -- The actor who replayed it.
  replayed_by jsonb,
  received_at timestamptz not null default clock_timestamp(),
  ref text,
  before_sha text,
  commit_sha text,
  message text,
  author text,
  -- Whether a file of the app's folder is among those that the host lists; null: git has to be asked.
  is_touched boolean,
  verdict text not null check (verdict in ('waiting', 'built', 'ignored', 'refused', 'failed')),
  reason text not null,
  decided_at timestamptz,
  build_id uuid references builds (id) on delete set null,
  -- The status of the commit that its host was told, and when to try again; no time: there is nothing more to tell.
  reported text check (reported in ('pending', 'success', 'failure', 'cancelled')),
  report_failure text,
  report_tries integer not null default 0,
  report_at timestamptz,
  unique (app_id, delivery_key),
  constraint git_deliveries_decided check ((decided_at is null) = (verdict = 'waiting'))
);
create index git_deliveries_by_app on git_deliveries (app_id, number);
create index git_deliveries_by_build on git_deliveries (build_id) where build_id is not null;
create index git_deliveries_waiting on git_deliveries (app_id) where verdict = 'waiting';
create index git_deliveries_to_report on git_deliveries (report_at) where report_at is not null;
