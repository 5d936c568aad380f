-- Signing in. The tables person_accounts, person_sessions, person_verifications and person_two_factors hold what
-- better-auth keeps, under names of ours (see people/auth.ts); its own migrations are never run.

alter table people
  -- Whoever signs in as them has shown that mail to the address reaches them.
  add column email_verified boolean not null default false,
  add column image text,
  add column two_factor_enabled boolean not null default false,
  add column updated_at timestamptz not null default now();

-- The ways in which a person can sign in.
create table person_accounts (
  id uuid primary key,
  person_id uuid not null references people on delete cascade,
  -- credential: by password; else who vouches for them.
  provider_id text not null,
  -- Who they are there; for a password: the person's id.
  account_id text not null,
  password_hash text,
  -- Tokens of the provider are not kept: nothing is done in a person's name there.
  access_token text check (access_token is null),
  refresh_token text check (refresh_token is null),
  id_token text check (id_token is null),
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (provider_id, account_id)
);
create index person_accounts_by_person on person_accounts (person_id);

insert into person_accounts (id, person_id, provider_id, account_id, password_hash)
  select gen_random_uuid(), id, 'credential', id::text, password_hash from people;
alter table people drop column password_hash;

create table person_sessions (
  id uuid primary key,
  person_id uuid not null references people on delete cascade,
  -- Useless alone: what a browser or a command line holds is this with a signature, whose key is sealed.
  token text not null unique,
  address text,
  user_agent text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index person_sessions_by_person on person_sessions (person_id, created_at desc);
create index person_sessions_by_end on person_sessions (expires_at);

-- What is asked for and not done yet: links that reset a password, second steps of a sign-in, visits to a provider.
create table person_verifications (
  id text primary key,
  -- A hash: the secret is with whoever it was given to.
  identifier text not null,
  value text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index person_verifications_by_identifier on person_verifications (identifier);
create index person_verifications_by_value on person_verifications (value);
create index person_verifications_by_end on person_verifications (expires_at);

create table person_two_factors (
  id uuid primary key,
  person_id uuid not null unique references people on delete cascade,
  -- Both encrypted by better-auth, with the secret below.
  secret text not null,
  backup_codes text not null,
  verified boolean not null default false,
  failed_verification_count integer not null default 0,
  locked_until timestamptz,
  -- Of the code that was taken last: a code is good for one sign-in only.
  last_code_hash text,
  last_code_at timestamptz
);

-- Where a person has signed in from; the first time from an address goes into the audit log.
create table person_addresses (
  person_id uuid not null references people on delete cascade,
  address text not null,
  first_at timestamptz not null default now(),
  last_at timestamptz not null default now(),
  primary key (person_id, address)
);

-- How often something was tried within a window, by a hash of who or what tried it.
create table person_attempts (
  key text primary key,
  used integer not null,
  ends_at timestamptz not null
);
create index person_attempts_by_end on person_attempts (ends_at);

-- Signs sessions and encrypts second factors; made once, by whichever platform starts first.
create table person_secret (
  is_only boolean primary key default true check (is_only),
  secret_sealed text not null
);
