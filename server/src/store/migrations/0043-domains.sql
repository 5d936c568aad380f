-- Domains: names of their own that apps claim, and whether DNS proves that they belong to them.

create table app_domains (
  app_id text not null references apps (id) on delete cascade,
  project_id text not null references projects (id),
  -- In lower case, as in DNS (punycode).
  name text not null,
  -- What a TXT record has to contain.
  token text not null,
  state text not null default 'Pending' check (state in ('Pending', 'Validated', 'Failed')),
  -- What the latest check found in DNS instead of a proof; null: a proof, or there was no check yet.
  found text,
  created_at timestamptz not null default clock_timestamp(),
  -- The beginning of the time within which the name has to be proven.
  pending_since timestamptz not null default clock_timestamp(),
  checked_at timestamptz,
  -- When DNS is asked next; null: it is not, since the claim has failed.
  check_at timestamptz,
  validated_at timestamptz,
  -- Since when DNS no longer has the proof of a name that was proven.
  missing_since timestamptz,
  primary key (app_id, name),
  constraint app_domains_checked check ((check_at is null) = (state = 'Failed'))
);
-- A proven name belongs to one app. Claims without a proof keep nobody from the name.
create unique index app_domains_validated on app_domains (name) where state = 'Validated';
create index app_domains_by_name on app_domains (name);
create index app_domains_by_project on app_domains (project_id);
create index app_domains_due on app_domains (check_at) where check_at is not null;
