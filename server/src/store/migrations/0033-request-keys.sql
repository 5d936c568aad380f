-- Idempotency keys of requests to the management API that create something: the first answer, for a day.

create table request_keys (
  -- The kind and the id of the caller.
  caller text not null,
  -- SHA-256, as keys may be of any text.
  key_hash bytea not null check (length(key_hash) = 32),
  -- SHA-256 of method, path and body.
  request_hash bytea not null check (length(request_hash) = 32),
  created_at timestamptz not null,
  -- Null: the request is being handled, or its platform ended before it was known how the request ended.
  answer_sealed text,
  primary key (caller, key_hash)
);

create index request_keys_by_time on request_keys (created_at);
