-- Tokens with chosen permissions that are rotated, where they were used last, and the keys that signed them.

alter table tokens
  -- Tokens that follow each other by rotation share the id of the first, and with it name and rights: what people see as
  -- one service account, inference token or operator token.
  add column account_id uuid references tokens,
  -- Chosen one by one instead of a role.
  add column permissions text[],
  -- Null: signed before this was kept, by a key that is gone.
  add column signing_key_id text references signing_keys,
  -- Whoever may issue tokens can read it again: it is signed anew from this row, which gives the same bytes.
  add column is_readable boolean not null default false,
  -- Written in batches: some seconds late.
  add column last_used_at timestamptz,
  add column last_used_address text,
  add check (permissions is null or (kind = 'service_account' and role is null)),
  add check (not is_readable or kind = 'inference');

-- The key that signed then; the first start makes its key within the transaction that makes its tokens.
update tokens set account_id = id, signing_key_id = coalesce(
  (select key.id from signing_keys key where key.created_at <= tokens.created_at order by key.created_at desc limit 1),
  (select key.id from signing_keys key order by key.created_at limit 1));

alter table tokens alter column account_id set not null;
create index tokens_by_account on tokens (account_id);
create index tokens_by_signing_key on tokens (signing_key_id);

-- Addresses that an account's tokens were used from; at most some hundred each, the unused ones are forgotten.
create table token_addresses (
  account_id uuid not null references tokens,
  address text not null,
  last_used_at timestamptz not null,
  primary key (account_id, address)
);

-- A key that was withdrawn verifies nothing any more; its private half is emptied.
alter table signing_keys add column withdrawn_at timestamptz;
