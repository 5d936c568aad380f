-- What apps used and how often they were called, for charts: rows of a minute for a day, and of a quarter of an hour for a month.

create table app_uses (
  app_id text not null references apps (id),
  step_seconds integer not null check (step_seconds in (60, 900)),
  -- The start of the step.
  at timestamptz not null,
  -- Empty: the app, with its counts, and the use of replicas without a row of their own.
  replica_id text not null,
  -- How many measurements the sums are of.
  samples integer not null check (samples > 0),
  cores double precision not null,
  memory_bytes double precision not null,
  -- Null: no GPU was measured.
  gpu_utilization double precision,
  running double precision not null,
  ready double precision not null,
  requests double precision not null,
  primary key (app_id, step_seconds, at, replica_id)
);

create index app_uses_by_age on app_uses (step_seconds, at);
