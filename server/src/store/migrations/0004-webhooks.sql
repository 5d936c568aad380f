-- Webhooks: answers of runs and calls that are posted to a URL of the caller's choice. A delivery is a leased row; what
-- was tried stands in rows of its own. An endpoint is where deliveries go (URL without its query), so that it is seen
-- which ones fail; it bears no lease and no foreign key, because it changes while many deliveries of it come in.

create table webhook_endpoints (
  -- Made of the project and the URL, so that whoever has a delivery knows it without asking.
  id uuid primary key,
  project_id text not null,
  -- Without the query, which often differs from call to call and may hold a token.
  url text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Written once a minute at most while all goes well.
  last_success_at timestamptz,
  last_failure_at timestamptz,
  -- Of the latest attempt that failed; a sentence for the project's owner.
  last_failure text,
  -- The first failed attempt since the last one that succeeded.
  failing_since timestamptz,
  -- Its deliveries wait until it is resumed.
  paused_at timestamptz
);
create index webhook_endpoints_by_project on webhook_endpoints (project_id, created_at desc, id desc);
create index webhook_endpoints_failing on webhook_endpoints (failing_since)
  where failing_since is not null and paused_at is null;

create table webhook_deliveries (
  -- The webhook-id of all its attempts.
  id uuid primary key,
  -- The order of lists.
  number bigint not null generated always as identity,
  project_id text not null,
  app_id text not null,
  run_id uuid not null,
  endpoint_id uuid not null,
  url text not null,
  -- The caller's X-Webhook-Secret, encrypted.
  secret_sealed text,
  -- Of the answer that is delivered.
  status_code smallint not null,
  content_type text,
  -- Null: it was longer than what is delivered, or is not kept any more.
  body bytea,
  body_bytes bigint not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  -- Why it failed, or why its latest attempt did; a sentence for the project's owner.
  reason text,
  -- All that have ended, and those since it was made or replayed: the schedule counts the latter.
  attempts integer not null default 0,
  schedule_attempts integer not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  -- Before this time it is not tried.
  due_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  lease_holder text,
  lease_epoch bigint not null default 0,
  lease_until timestamptz,
  check ((ended_at is null) = (state = 'pending')),
  check (lease_holder is null or state = 'pending'),
  check ((lease_holder is null) = (lease_until is null))
);
-- Answers are mostly JSON or compressed already, and each is read once or twice.
alter table webhook_deliveries alter column body set storage external;
-- Each row changes twice at least: what is dead must not fill the index that waiting ones are found by.
alter table webhook_deliveries set (autovacuum_vacuum_scale_factor = 0.02);
create index webhook_deliveries_waiting on webhook_deliveries (endpoint_id, due_at, id)
  where state = 'pending' and lease_holder is null;
create index webhook_deliveries_held on webhook_deliveries (lease_until) where lease_until is not null;
create index webhook_deliveries_by_project on webhook_deliveries (project_id, number);
create index webhook_deliveries_not_delivered on webhook_deliveries (project_id, state, number)
  where state <> 'delivered';
create index webhook_deliveries_by_endpoint on webhook_deliveries (endpoint_id, number);
create index webhook_deliveries_by_run on webhook_deliveries (run_id);
create index webhook_deliveries_by_time on webhook_deliveries using brin (created_at);
-- What retention looks for: ended ones, and those of them that still have a body.
create index webhook_deliveries_ended on webhook_deliveries (ended_at) where ended_at is not null;
create index webhook_deliveries_kept on webhook_deliveries (ended_at) where ended_at is not null and body is not null;
-- Which keys sealed anything is asked at each start.
create index webhook_deliveries_sealed on webhook_deliveries (split_part(secret_sealed, '.', 2))
  where secret_sealed is not null;

create table webhook_attempts (
  delivery_id uuid not null references webhook_deliveries (id) on delete cascade,
  number integer not null,
  started_at timestamptz not null,
  duration_ms real not null,
  -- Null: there was no answer.
  status_code smallint,
  -- Why it was no success.
  reason text,
  -- The beginning of the answer, at most a KiB.
  answer bytea,
  primary key (delivery_id, number)
);

-- What signs the deliveries of a project: at most two at a time, so that receivers can be changed over one by one.
create table webhook_secrets (
  id uuid primary key,
  project_id text not null references projects,
  secret_sealed text not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Null: the newest one, valid until another is made.
  expires_at timestamptz
);
create index webhook_secrets_by_project on webhook_secrets (project_id, created_at desc);
create unique index webhook_secrets_newest on webhook_secrets (project_id) where expires_at is null;

-- Projects that chose another schedule than the standard one.
create table webhook_schedules (
  project_id text primary key references projects,
  schedule text not null check (schedule in ('standard', 'short'))
);
