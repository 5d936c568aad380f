-- Projects, people, tokens; apps, builds, releases, replicas; logs; the audit log; secrets.
-- Times are timestamptz. Ids are made by the platform (see lib/ids.ts). `*_sealed` columns hold text of lib/seal.ts.

create table projects (
  id text primary key check (id ~ '^(dev-)?p-[0-9a-f]{8}$'),
  name text not null,
  created_at timestamptz not null default now()
);

create table people (
  id uuid primary key,
  email text not null check (email = lower(email)) unique,
  name text not null,
  password_hash text not null,
  created_at timestamptz not null default now()
);

create table members (
  project_id text not null references projects,
  person_id uuid not null references people,
  role text not null check (role in ('owner', 'admin', 'member', 'billing')),
  created_at timestamptz not null default now(),
  primary key (project_id, person_id)
);

-- Keys that sign tokens. A retired key still verifies what it signed.
create table signing_keys (
  id text primary key,
  public_jwk jsonb not null,
  private_key_sealed text not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);

-- Tokens are signed and never stored; this row makes one revocable. Operator tokens belong to no project.
create table tokens (
  id uuid primary key,
  kind text not null check (kind in ('service_account', 'inference', 'operator')),
  project_id text references projects,
  name text not null,
  role text check (role in ('owner', 'admin', 'member', 'billing')),
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  check ((project_id is null) = (kind = 'operator'))
);
create index tokens_by_project on tokens (project_id, created_at desc);

create table apps (
  id text primary key,
  project_id text not null references projects,
  name text not null,
  -- Body of the latest create or change request without dockerAuth; what it left out is absent.
  request jsonb not null,
  -- Byte for byte as sent.
  config_toml text,
  docker_auth_sealed text,
  live_release_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, name),
  check (id = project_id || '-' || name)
);

create table builds (
  id uuid primary key,
  project_id text not null references projects,
  app_id text not null references apps,
  number integer not null check (number >= 1),
  cause text not null check (cause in ('create', 'push', 'rebuild')),
  status text not null check (status in
    ('pending', 'building', 'initializing', 'success', 'build_failure', 'init_failure', 'init_timeout', 'cancelled')),
  -- A sentence for people: why it ended as it did.
  reason text,
  -- Copies of the app's columns at the time of the request: what this build is made from.
  request jsonb not null,
  config_toml text,
  -- Known once the repository was read.
  commit_sha text,
  settings jsonb,
  artifact jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  started_at timestamptz,
  ended_at timestamptz,
  cancel_requested_at timestamptz,
  -- The lease: who works on it, until when; the epoch grows with each claim and guards every write of the holder.
  lease_holder text,
  lease_epoch bigint not null default 0,
  lease_until timestamptz,
  unique (app_id, number),
  check ((ended_at is null) = (status in ('pending', 'building', 'initializing')))
);
create index builds_to_claim on builds (created_at) where ended_at is null;

create table releases (
  id uuid primary key,
  project_id text not null references projects,
  app_id text not null references apps,
  build_id uuid not null unique references builds,
  settings jsonb not null,
  artifact jsonb not null,
  created_at timestamptz not null default now(),
  -- When it first took traffic; null while it is on trial or when it failed to start.
  promoted_at timestamptz
);
create index releases_by_app on releases (app_id, created_at desc);
alter table apps add foreign key (live_release_id) references releases;

-- One row a replica, kept after its end: usage is computed from it.
create table replicas (
  id text primary key,
  project_id text not null references projects,
  app_id text not null references apps,
  release_id uuid not null references releases,
  build_id uuid not null references builds,
  driver text not null,
  state text not null check (state in ('starting', 'ready', 'draining', 'stopped')),
  -- Why it stopped, a sentence for people.
  reason text,
  exit_code integer,
  address text,
  compute text not null,
  compute_tier text not null check (compute_tier in ('interruptible', 'protected')),
  gpu_count integer not null,
  cpu_cores numeric(8, 3) not null,
  memory_gb numeric(8, 3) not null,
  provider text,
  region text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  ready_at timestamptz,
  draining_at timestamptz,
  stopped_at timestamptz,
  check ((stopped_at is null) = (state <> 'stopped'))
);
create index replicas_alive on replicas (app_id) where stopped_at is null;
create index replicas_by_app on replicas (app_id, created_at desc);

create table build_logs (
  build_id uuid not null references builds,
  line_number integer not null,
  at timestamptz not null,
  stage text not null,
  stream text not null check (stream in ('platform', 'stdout', 'stderr')),
  line text not null,
  primary key (build_id, line_number)
);

create table app_logs (
  id bigint generated always as identity primary key,
  project_id text not null,
  app_id text not null,
  replica_id text not null,
  run_id uuid,
  at timestamptz not null,
  stream text not null check (stream in ('stdout', 'stderr')),
  line text not null
);
create index app_logs_by_app on app_logs (app_id, id);
create index app_logs_by_run on app_logs (run_id, id) where run_id is not null;
create index app_logs_by_time on app_logs using brin (at);

create table audit_log (
  id bigint generated always as identity primary key,
  project_id text references projects,
  at timestamptz not null default clock_timestamp(),
  action text not null,
  outcome text not null check (outcome in ('success', 'failure')),
  actor_type text not null,
  actor_id text,
  actor_name text,
  resource_type text,
  resource_id text,
  resource_name text,
  request_id text,
  address text,
  user_agent text,
  -- {field: {old, new}}, secrets masked.
  changes jsonb,
  reason text
);
create index audit_log_by_project on audit_log (project_id, id desc);

create table git_credentials (
  project_id text not null references projects,
  host text not null,
  kind text not null check (kind in ('token', 'ssh_key')),
  username text,
  secret_sealed text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (project_id, host)
);

-- app_id null: of the whole project. An app's own value wins.
create table secrets (
  project_id text not null references projects,
  app_id text references apps,
  name text not null check (name ~ '^[A-Za-z0-9_.-]{1,253}$'),
  value_sealed text not null,
  updated_at timestamptz not null default now(),
  unique nulls not distinct (project_id, app_id, name)
);
