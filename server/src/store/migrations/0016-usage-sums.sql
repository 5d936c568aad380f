-- Sums of usage that answer for a year at once: by month and app, and by day without apps. Each is what usage_days adds up
-- to, and is written with it.

create table usage_months (
  project_id text not null references billing_accounts,
  -- 2026-01 (UTC).
  period text not null check (period ~ '^\d{4}-\d{2}$'),
  app_id text not null,
  kind text not null check (kind in ('run', 'build')),
  compute text not null,
  compute_tier text not null,
  pool text not null,
  ms bigint not null check (ms >= 0),
  gpu_ms bigint not null check (gpu_ms >= 0),
  core_ms numeric(30, 3) not null check (core_ms >= 0),
  gb_ms numeric(30, 3) not null check (gb_ms >= 0),
  builds integer not null check (builds >= 0),
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (project_id, period, app_id, kind, compute, compute_tier, pool)
);

create table usage_project_days (
  project_id text not null references billing_accounts,
  -- 2026-01-31 (UTC).
  day text not null check (day ~ '^\d{4}-\d{2}-\d{2}$'),
  kind text not null check (kind in ('run', 'build')),
  compute text not null,
  compute_tier text not null,
  pool text not null,
  ms bigint not null check (ms >= 0),
  gpu_ms bigint not null check (gpu_ms >= 0),
  core_ms numeric(30, 3) not null check (core_ms >= 0),
  gb_ms numeric(30, 3) not null check (gb_ms >= 0),
  builds integer not null check (builds >= 0),
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (project_id, day, kind, compute, compute_tier, pool)
);

insert into usage_months
select project_id, left(day, 7), app_id, kind, compute, compute_tier, pool,
       sum(ms), sum(gpu_ms), sum(core_ms), sum(gb_ms), sum(builds), sum(amount_micros)
  from usage_days group by 1, 2, 3, 4, 5, 6, 7;
insert into usage_project_days
select project_id, day, kind, compute, compute_tier, pool,
       sum(ms), sum(gpu_ms), sum(core_ms), sum(gb_ms), sum(builds), sum(amount_micros)
  from usage_days group by 1, 2, 3, 4, 5, 6;
