-- Plans of projects, their monthly credit, and budgets.

-- The name of a plan of SLIPWAY_PLANS_FILE; null: the one that the file calls the default.
alter table projects add column plan text check (plan ~ '^[a-z0-9][a-z0-9-]{0,49}$');

-- Names of the plans whose projects can apply it; null: those of all plans.
alter table coupons add column plans text[] check (cardinality(plans) between 1 and 50);
-- The credit of a plan is a coupon that the platform applies by itself. Nobody can type its code, and lists leave it out.
alter table coupons add column is_plan_credit boolean not null default false check (not is_plan_credit or ended_at is not null);
-- From this instant on it discounts no usage: the project has another plan. Null for what a project has applied itself.
alter table coupon_applications add column ended_at timestamptz;

create table budgets (
  id uuid primary key,
  project_id text not null references projects,
  -- Null: of the project as a whole.
  app_id text references apps on delete cascade,
  amount_micros numeric(30, 0) not null check (amount_micros > 0),
  -- Percentages of the amount that are to be warned of.
  warn_percent integer[] not null,
  is_stop boolean not null,
  webhook_url text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  -- What has become of it in a month (of the form 2026-01, in UTC). Of an earlier month it says nothing any more.
  period text not null check (period ~ '^\d{4}-\d\d$'),
  -- The highest percentage that was warned of; 0: none.
  warned_percent integer not null default 0,
  stopped_at timestamptz,
  check (stopped_at is null or is_stop),
  unique nulls not distinct (project_id, app_id)
);
create index budgets_stopped on budgets (project_id) where stopped_at is not null;
create trigger live_project before insert on budgets for each row execute function require_live_project();

-- Word of budgets that is to be sent: mail to owners, a POST to a URL. A row is there until it was sent or given up.
create table budget_notices (
  id uuid primary key,
  project_id text not null references projects,
  -- The address of a person or a URL.
  target text not null,
  kind text not null check (kind in ('mail', 'webhook')),
  content jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Not tried before; moved on as a worker takes it, so that nobody else does meanwhile.
  due_at timestamptz not null default clock_timestamp(),
  attempts integer not null default 0
);
create index budget_notices_due on budget_notices (due_at);
