-- Deployments by upload: the files of an app without a repository, or of one build of an app that has one.

create table uploads (
  id uuid primary key,
  project_id text not null references projects (id),
  app_id text not null references apps (id),
  -- SHA-256 of the key in the address that takes the files.
  key_hash bytea not null unique check (length(key_hash) = 32),
  -- Null: they have not all arrived.
  size_bytes bigint check (size_bytes >= 0),
  created_at timestamptz not null default now(),
  completed_at timestamptz,
  -- The files are given up.
  removed_at timestamptz,
  check ((completed_at is null) = (size_bytes is null))
);

create index uploads_by_app on uploads (app_id, created_at);

alter table builds
  add column upload_id uuid references uploads (id),
  -- It cannot start before its files have arrived.
  add column awaits_upload boolean not null default false,
  add check (not awaits_upload or upload_id is not null);

create index builds_by_upload on builds (upload_id) where upload_id is not null;
