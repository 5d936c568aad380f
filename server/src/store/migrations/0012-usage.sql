-- What is used, and what it costs. Replicas and builds are metered from their own rows; slices of usage are made from
-- these, and every sum below from slices. Whatever is summed up here can be computed again from what it was made from.

alter table replicas
  -- When it was last known to run: one that vanishes with its machine has run up to here.
  add column seen_at timestamptz,
  -- How far slices of usage have been made; never after seen_at or stopped_at.
  add column metered_until timestamptz,
  add column is_metered boolean not null default false;
create index replicas_to_meter on replicas (project_id, id) where started_at is not null and not is_metered;

alter table builds
  -- The making of an environment, by the last try that made one: what a build is billed for.
  add column environment_started_at timestamptz,
  add column environment_ended_at timestamptz,
  add column is_metered boolean not null default false;
create index builds_to_meter on builds (project_id, id) where ended_at is not null and not is_metered;

alter table billing_accounts
  -- How many times usage was posted to the ledger, and when what has come since is to be; null: nothing has.
  add column postings bigint not null default 0,
  add column posting_due_at timestamptz;
create index billing_accounts_to_post on billing_accounts (posting_due_at) where posting_due_at is not null;

-- A part of the time of one replica or build, at one rate: within one hour (UTC) and between two instants at which a coupon
-- begins or ceases to discount. The last one of what still runs grows.
create table usage_slices (
  -- Of a replica or a build.
  source_id text not null,
  begins_at timestamptz not null,
  kind text not null check (kind in ('run', 'build')),
  project_id text not null references billing_accounts,
  app_id text not null,
  compute text not null,
  compute_tier text not null,
  -- provider/region, where there is one; '': neither.
  pool text not null,
  gpu_count integer not null,
  cpu_cores numeric(8, 3) not null,
  memory_gb numeric(8, 3) not null,
  ms bigint not null check (ms >= 0),
  -- Millionths of billionths of the currency's unit per second.
  rate_femtos numeric(30, 0) not null check (rate_femtos >= 0),
  -- What the source's earlier slices cost, exactly, in 10^-18 of the unit: amounts are differences of rounded running sums,
  -- so that their sum does not depend on where time was cut.
  attos_before numeric(40, 0) not null check (attos_before >= 0),
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (source_id, begins_at)
);
create index usage_slices_by_project on usage_slices (project_id, begins_at);

-- Slices by day (UTC) on which they begin.
create table usage_days (
  project_id text not null references billing_accounts,
  -- 2026-01-31 (UTC).
  day text not null check (day ~ '^\d{4}-\d{2}-\d{2}$'),
  app_id text not null,
  kind text not null check (kind in ('run', 'build')),
  compute text not null,
  compute_tier text not null,
  pool text not null,
  ms bigint not null check (ms >= 0),
  gpu_ms bigint not null check (gpu_ms >= 0),
  core_ms numeric(30, 3) not null check (core_ms >= 0),
  gb_ms numeric(30, 3) not null check (gb_ms >= 0),
  -- That were started on this day, those that needed no new environment too.
  builds integer not null check (builds >= 0),
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (project_id, day, app_id, kind, compute, compute_tier, pool)
);
create index usage_days_by_app on usage_days (app_id, day);

-- Slices by stretch of time during which the same coupons discount: from one beginning of a month, or instant at which a
-- coupon begins or ceases to discount, to the next.
create table usage_stretches (
  project_id text not null references billing_accounts,
  begins_at timestamptz not null,
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (project_id, begins_at)
);

-- What of each month's usage stands in the ledger.
create table usage_posted (
  project_id text not null references billing_accounts,
  -- A month (UTC): 2026-01.
  period text not null check (period ~ '^\d{4}-\d{2}$'),
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (project_id, period)
);

-- What of each applied coupon was drawn in each month, as it stands in the ledger.
create table coupon_draws (
  application_id uuid not null references coupon_applications,
  period text not null check (period ~ '^\d{4}-\d{2}$'),
  amount_micros numeric(30, 0) not null check (amount_micros >= 0),
  primary key (application_id, period)
);

-- Statements of months that are over. What comes to light later stands in a later statement as a correction.
create table statements (
  project_id text not null references billing_accounts,
  period text not null check (period ~ '^\d{4}-\d{2}$'),
  content jsonb not null,
  closed_at timestamptz not null default clock_timestamp(),
  primary key (project_id, period)
);
create trigger statements_stay before update or delete or truncate on statements
  for each statement execute function refuse_change();

alter table ledger_transactions
  -- The order of lists.
  add column number bigint not null generated always as identity unique,
  -- The month that it is about, of usage and what coupons take off it.
  add column period text check (period ~ '^\d{4}-\d{2}$'),
  drop constraint ledger_transactions_kind_check,
  add check (kind in ('coupon.grant', 'coupon.draw', 'usage.charge', 'usage.correction'));
create index ledger_transactions_by_number on ledger_transactions (project_id, number desc);

-- revenue: what was sold. Only entries of coupons name one.
alter table ledger_entries
  drop constraint ledger_entries_account_check,
  add check (account in ('promotions', 'coupon_credit', 'receivable', 'revenue')),
  alter column application_id drop not null,
  alter column coupon_code drop not null,
  add check ((application_id is null) = (coupon_code is null)),
  add check (account not in ('promotions', 'coupon_credit') or application_id is not null),
  add check (account <> 'revenue' or application_id is null);
