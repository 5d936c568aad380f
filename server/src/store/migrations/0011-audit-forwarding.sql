-- Where entries of the audit log are sent on, and how far each receiver has come.

-- One row for each chain and receiver: the one that a project's owner chose, and, while the operator has set one for all
-- projects, one row for each chain towards that one (whose URL and secret are in the settings).
create table audit_forwardings (
  id uuid primary key,
  scope text not null check (scope in ('project', 'platform')),
  -- As in audit_chains; that of entries of no project goes to the operator's receiver only.
  chain text not null check (scope = 'platform' or chain <> 'platform'),
  url text,
  secret_sealed text,
  created_at timestamptz not null default clock_timestamp(),
  -- The number of the last entry that the receiver has taken.
  position bigint not null check (position >= 0),
  -- The last entry of the batch that is being sent: sent again as it was until the receiver takes it. Null: none is.
  sending_through bigint check (sending_through > position),
  failures integer not null default 0,
  failing_since timestamptz,
  -- Not before then.
  due_at timestamptz not null default clock_timestamp(),
  -- Held back, because it failed for days or the receiver wanted no more.
  paused_at timestamptz,
  -- A sentence: why the last attempt failed.
  reason text,
  delivered_at timestamptz,
  lease_holder text,
  lease_epoch bigint not null default 0,
  lease_until timestamptz,
  unique (scope, chain),
  check ((scope = 'project') = (url is not null and secret_sealed is not null))
);
