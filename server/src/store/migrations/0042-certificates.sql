-- Certificates that the platform gets from an authority by ACME, and its accounts there.

create table acme_accounts (
  directory_url text primary key,
  key_sealed text not null,
  -- The account at the authority; null: the authority has not confirmed it yet.
  account_url text,
  -- The address that the authority knows; null: the same.
  email text
);

create table certificates (
  -- A host name, or `*.` and the name above all that the certificate is for.
  name text primary key,
  -- The certificate with those of its chain, in PEM, and its key; null: there is none yet.
  chain text,
  key_sealed text,
  begins_at timestamptz,
  ends_at timestamptz,
  -- The order under way and the key that it is for, with which a restart goes on.
  order_url text,
  order_key_sealed text,
  -- When a certificate is requested next: a new one, a renewal, or another try.
  next_try_at timestamptz not null,
  -- Failed tries since the last success, and why the last one failed.
  failures integer not null default 0,
  last_error text,
  check ((chain is null) = (key_sealed is null)),
  check ((chain is null) = (begins_at is null)),
  check ((chain is null) = (ends_at is null)),
  check ((order_url is null) = (order_key_sealed is null))
);
