-- Money: billing accounts of projects, coupons, and a double-entry ledger that is only ever added to. Amounts are whole
-- micro-units (a cent is 10,000 of them), so that nothing is rounded on the way in or out.

create table billing_accounts (
  project_id text primary key references projects,
  -- All that is charged to a project and credited to it.
  currency text not null default 'USD' check (currency ~ '^[A-Z]{3}$'),
  created_at timestamptz not null default clock_timestamp()
);

create table coupons (
  id uuid primary key,
  -- The order of lists.
  number bigint not null generated always as identity,
  code text not null,
  name text not null,
  coupon_type text not null check (coupon_type in ('fixed_amount', 'percentage')),
  amount_micros numeric(30, 0) check (amount_micros > 0),
  currency text check (currency ~ '^[A-Z]{3}$'),
  -- Hundred-thousandths of a percent: 10,000,000 is all of it.
  rate integer check (rate between 1 and 10000000),
  frequency text not null check (frequency in ('once', 'recurring', 'forever')),
  periods integer check (periods > 0),
  expires_at timestamptz,
  is_reusable boolean not null,
  uses_max integer check (uses_max > 0),
  uses integer not null default 0 check (uses >= 0),
  created_at timestamptz not null default clock_timestamp(),
  -- It can be applied no more; what was applied before stays.
  ended_at timestamptz,
  check ((coupon_type = 'fixed_amount') = (amount_micros is not null)),
  check ((coupon_type = 'fixed_amount') = (currency is not null)),
  check ((coupon_type = 'percentage') = (rate is not null)),
  check ((frequency = 'recurring') = (periods is not null)),
  check (uses_max is null or uses <= uses_max)
);
create unique index coupons_in_use on coupons (code) where ended_at is null;
create index coupons_by_number on coupons (number desc);

-- A coupon that a project has applied.
create table coupon_applications (
  id uuid primary key,
  -- The order in which coupons are drawn down.
  number bigint not null generated always as identity unique,
  project_id text not null references billing_accounts,
  coupon_id uuid not null references coupons,
  created_at timestamptz not null default clock_timestamp(),
  -- What is left of a fixed credit that is granted once. Kept by a trigger from the entries of the ledger.
  balance_micros numeric(30, 0) not null default 0 check (balance_micros >= 0)
);
create index coupon_applications_by_project on coupon_applications (project_id, coupon_id);

create table ledger_transactions (
  id uuid primary key,
  -- What it was made for: a repeat of the same is no second transaction.
  reference text not null unique,
  kind text not null check (kind in ('coupon.grant', 'coupon.draw')),
  project_id text not null references billing_accounts,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  created_at timestamptz not null default clock_timestamp()
);
create index ledger_transactions_by_project on ledger_transactions (project_id, created_at desc);

-- Debits are above zero, credits below.
create table ledger_entries (
  transaction_id uuid not null references ledger_transactions,
  number smallint not null,
  -- promotions: what the platform has given away; coupon_credit: what it owes in credit; receivable: what a project owes.
  account text not null check (account in ('promotions', 'coupon_credit', 'receivable')),
  application_id uuid not null references coupon_applications,
  -- The coupon's, so that an entry says by itself what it is about.
  coupon_code text not null,
  amount_micros numeric(30, 0) not null check (amount_micros <> 0),
  primary key (transaction_id, number)
);
create index ledger_entries_by_application on ledger_entries (application_id);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'rows of % are never changed or removed', tg_table_name using errcode = 'integrity_constraint_violation';
end $$;

create trigger ledger_transactions_stay before update or delete or truncate on ledger_transactions
  for each statement execute function refuse_change();
create trigger ledger_entries_stay before update or delete or truncate on ledger_entries
  for each statement execute function refuse_change();

-- An entry is of a transaction that is being made now, and changes the credit that it names.
create function enter_in_ledger() returns trigger language plpgsql as $$
begin
  if not exists (select from ledger_transactions
                  where id = new.transaction_id and xmin = pg_current_xact_id()::xid) then
    raise exception 'the ledger transaction % is complete already', new.transaction_id
      using errcode = 'integrity_constraint_violation';
  end if;
  if new.account = 'coupon_credit' then
    update coupon_applications set balance_micros = balance_micros - new.amount_micros where id = new.application_id;
  end if;
  return new;
end $$;
create trigger ledger_entries_enter before insert on ledger_entries
  for each row execute function enter_in_ledger();

-- Looked at when everything of a transaction is there: its entries are two or more, and their sum is zero.
create function require_balance() returns trigger language plpgsql as $$
declare
  entries bigint;
  total numeric;
begin
  select count(*), sum(amount_micros) into entries, total from ledger_entries where transaction_id = new.id;
  if entries < 2 or total <> 0 then
    raise exception 'the ledger transaction % does not balance: % entries, sum %', new.id, entries, total
      using errcode = 'integrity_constraint_violation';
  end if;
  return null;
end $$;
create constraint trigger ledger_transactions_balance after insert on ledger_transactions
  deferrable initially deferred for each row execute function require_balance();
