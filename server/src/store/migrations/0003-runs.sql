-- Async runs: accepted with 202, worked off by whoever holds the lease of the row, kept with their result for a while.
-- A run's request stands apart from its row, because the row changes several times and the request never. Plain calls
-- are recorded in a table of their own: they are never worked on, and there are many more of them.

create table runs (
  id uuid primary key,
  project_id text not null,
  app_id text not null,
  state text not null check (state in ('pending', 'queued', 'running', 'success', 'failure', 'cancelled', 'timeout')),
  method text not null,
  -- Without the query, which stands with the request.
  path text not null,
  client_address text not null,
  release_id uuid,
  replica_id text,
  -- Of the latest attempt; 0: none has begun.
  attempt smallint not null default 0,
  -- How often it may be tried again after the first attempt.
  retries_max smallint not null check (retries_max between 0 and 10),
  status_code smallint,
  -- Why it ended as it did, or why its latest attempt failed; a sentence for the app's owner.
  reason text,
  webhook_endpoint text,
  -- The caller's X-Webhook-Secret, encrypted; kept with failed runs as their request is.
  webhook_secret_sealed text,
  accepted_at timestamptz not null default clock_timestamp(),
  -- Before this time a pending run is not tried.
  due_at timestamptz not null default clock_timestamp(),
  queued_at timestamptz,
  started_at timestamptz,
  ended_at timestamptz,
  cancel_requested_at timestamptz,
  -- Another run was made from this one, which may be done once.
  redriven_as uuid,
  -- When the kept request of a failed run was deleted, so that it cannot be redriven any more.
  request_deleted_at timestamptz,
  lease_holder text,
  lease_epoch bigint not null default 0,
  lease_until timestamptz,
  check ((ended_at is null) = (state in ('pending', 'queued', 'running'))),
  check ((lease_holder is not null) = (state in ('queued', 'running')))
);
create index runs_by_app on runs (app_id, accepted_at desc, id desc);
create index runs_live on runs (app_id, state, accepted_at desc, id desc) where ended_at is null;
create index runs_due on runs (app_id, due_at, id) where state = 'pending';
create index runs_held on runs (lease_until) where lease_until is not null;
create index runs_not_successful on runs (app_id, state, accepted_at desc, id desc)
  where state in ('failure', 'cancelled', 'timeout');
-- Dead runs: they failed, their request is kept, and they were not redriven.
create index runs_dead on runs (app_id, accepted_at desc, id desc)
  where state in ('failure', 'timeout') and redriven_as is null and request_deleted_at is null;
create index runs_dead_by_end on runs (ended_at)
  where state in ('failure', 'timeout') and redriven_as is null and request_deleted_at is null;
-- Which keys sealed anything is asked at each start.
create index runs_sealed on runs (split_part(webhook_secret_sealed, '.', 2)) where webhook_secret_sealed is not null;
create index runs_by_end on runs using brin (ended_at);

-- Deleted when the run has succeeded or was cancelled; kept with failed ones, so that they can be run again.
create table run_requests (
  run_id uuid primary key references runs (id) on delete cascade,
  -- What the replica is asked for, query included.
  target text not null,
  -- Header lines as the replica gets them, one character for each byte.
  lines text not null,
  body bytea not null
);

create table run_results (
  run_id uuid primary key references runs (id) on delete cascade,
  status_code smallint not null,
  content_type text,
  -- Null: it was longer than results may be; `body_bytes` is how long then.
  body bytea,
  body_bytes bigint not null,
  created_at timestamptz not null default clock_timestamp()
);
create index run_results_by_time on run_results using brin (created_at);

-- Idempotency-Key → the run that it was first used for.
create table run_keys (
  app_id text not null,
  key text not null,
  -- SHA-256 of method, target and body.
  request_hash bytea not null,
  run_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (app_id, key)
);
create index run_keys_by_time on run_keys using brin (created_at);

-- Plain calls and WebSockets that have ended.
create table calls (
  id uuid primary key,
  project_id text not null,
  app_id text not null,
  state text not null check (state in ('success', 'failure', 'cancelled', 'timeout')),
  method text not null,
  path text not null,
  client_address text not null,
  release_id uuid,
  replica_id text,
  status_code smallint,
  is_websocket boolean not null,
  webhook_endpoint text,
  received_at timestamptz not null,
  ended_at timestamptz not null,
  line_ms real not null,
  total_ms real not null
);
create index calls_by_app on calls (app_id, received_at desc, id desc);
create index calls_not_successful on calls (app_id, state, received_at desc, id desc) where state <> 'success';
create index calls_by_time on calls using brin (ended_at);
